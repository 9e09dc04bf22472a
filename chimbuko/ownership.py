"""Which agent reads which rank: on many nodes two streams could stand for the same one, and only one of them
can be analysed."""

from __future__ import annotations

from typing import cast

import redis

OWNERS = "{chimbuko}:rank-owners"
"""Hash: program and rank to the agent that reads its stream."""
RIVALS = "{chimbuko}:rank-rivals"
"""Hash: program and rank to an agent that found another stream of it, which is not read."""
OWNERSHIP_KEYS = (OWNERS, RIVALS)


def claim_rank(broker: redis.Redis, program: str, rank: int, agent: str) -> bool:
    """Whether an agent may read a rank of a program: the first one that asks may, also when it asks again."""
    name = f"{program}, rank {rank}"
    broker.hsetnx(OWNERS, name, agent)
    is_ours = broker.hget(OWNERS, name) == agent.encode()
    if not is_ours:
        broker.hset(RIVALS, name, agent)
    return is_ours


def rivalries(broker: redis.Redis) -> list[str]:
    """One line for each rank that has a stream on more nodes than one."""
    rivals = cast(dict[bytes, bytes], broker.hgetall(RIVALS))
    owners = cast(dict[bytes, bytes], broker.hgetall(OWNERS)) if rivals else {}
    return [
        f"{name.decode()}, is on several nodes; of {owners.get(name, b'one').decode()} it was analysed, of "
        f"{rival.decode()} it was not: give each rank of a program a number of its own"
        for name, rival in sorted(rivals.items())
    ]
