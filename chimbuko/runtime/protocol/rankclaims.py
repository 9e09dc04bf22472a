"""Claims of ranks by agents: on many nodes two streams could stand for the same rank, and only one of them
can be analysed.

``newest_end_us`` says when recorded streams end that several agents read: a call that never ended was open up
to the last end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, cast

from chimbuko.runtime.protocol.runbroker import RunBroker


def newest_end_us(broker: RunBroker, share: int, count: int, newest_us: int) -> int | None:
    """Return the time of the newest event of all shares, once each of them is read; None before.

    Parameters
    ----------
    share, count
        Index of the share that was read, and number of shares.
    newest_us
        Newest event of that share; 0 if it has none.
    """
    with broker.client.pipeline(transaction=False) as pipeline:
        pipeline.hset(broker.keys.trace_ends, str(share), newest_us)
        pipeline.hvals(broker.keys.trace_ends)
        ends = cast(list[bytes], pipeline.execute()[-1])
    return max(map(int, ends)) if len(ends) == count else None


def claim_ranks(broker: RunBroker, ranks: Sequence[tuple[str, int]], agent: str) -> list[bool]:
    """Return whether an agent may read each of these ranks: the first that asks may, also when it asks again.

    It takes one round trip for all, as streams of a node begin together, and lose steps over SST while they
    wait.
    """
    names = [f"{program}, rank {rank}" for program, rank in ranks]
    with broker.client.pipeline(transaction=False) as pipeline:
        for name in names:
            pipeline.hsetnx(broker.keys.owners, name, agent)
        pipeline.hmget(broker.keys.owners, names)
        owners = cast(list[bytes], pipeline.execute()[-1])
    are_ours = [owner == agent.encode() for owner in owners]
    rivals = {name: agent for name, is_ours in zip(names, are_ours, strict=True) if not is_ours}
    if rivals:
        broker.client.hset(broker.keys.rivals, mapping=cast(dict[Any, Any], rivals))
    return are_ours


def agents_of(broker: RunBroker, ranks: Collection[tuple[int, int]]) -> dict[tuple[int, int], str]:
    """Return the agents that read these ranks, by program index and rank, as far as they are known."""
    programs = cast(dict[bytes, bytes], broker.client.hgetall(broker.keys.programs))
    names = {int(index): name.decode() for name, index in programs.items()}
    known = [(program, rank) for program, rank in ranks if program in names]
    if not known:
        return {}
    fields = [f"{names[program]}, rank {rank}" for program, rank in known]
    owners = cast("list[bytes | None]", broker.client.hmget(broker.keys.owners, fields))
    return {key: owner.decode() for key, owner in zip(known, owners, strict=True) if owner is not None}


def claim_instance(
    broker: RunBroker, program: str, rank: int, agent: str, first_instance: int
) -> tuple[int, int]:
    """Claim a rank that a program has again, since the program was started again.

    Ranks of an instance follow those of the one before, also where several agents read them: the first of
    them that asks decides where it begins.

    Parameters
    ----------
    rank
        Rank as the program counts.
    first_instance
        First instance, counted from 1, to which the rank can belong.

    Returns
    -------
    tuple[int, int]
        Number of the instance, and the rank of its rank 0 in the run.
    """
    instance = first_instance
    while True:
        beginning = broker.client.hget(broker.keys.instances, f"{program}:{instance}")
        if beginning is None:
            broker.client.hsetnx(broker.keys.instances, f"{program}:{instance}", _ranks_of(broker, program))
            continue
        first_rank = int(cast(bytes, beginning))
        if broker.client.hsetnx(broker.keys.owners, f"{program}, rank {first_rank + rank}", agent):
            return instance, first_rank
        instance += 1


def _ranks_of(broker: RunBroker, program: str) -> int:
    """Return one more than the highest rank of a program that somebody reads."""
    owners = cast(dict[bytes, bytes], broker.client.hgetall(broker.keys.owners))
    beginning = f"{program}, rank "
    return 1 + max(
        (int(name[len(beginning) :]) for name in map(bytes.decode, owners) if name.startswith(beginning)),
        default=-1,
    )


def beginnings(broker: RunBroker) -> list[str]:
    """Return one line for each time that a program was started again."""
    found = cast(dict[bytes, bytes], broker.client.hgetall(broker.keys.instances))
    return [
        f"{name.decode().rpartition(':')[0]} was started again: its ranks count from {int(first_rank)} on"
        for name, first_rank in sorted(found.items(), key=lambda item: int(item[1]))
    ]


def rivalries(broker: RunBroker) -> list[str]:
    """Return one line for each rank that has a stream on more than one node."""
    rivals = cast(dict[bytes, bytes], broker.client.hgetall(broker.keys.rivals))
    owners = cast(dict[bytes, bytes], broker.client.hgetall(broker.keys.owners)) if rivals else {}
    return [
        f"{name.decode()}, is on several nodes; of {owners.get(name, b'one').decode()} it was analysed, of "
        f"{rival.decode()} it was not: give each rank of a program a number of its own"
        for name, rival in sorted(rivals.items())
    ]
