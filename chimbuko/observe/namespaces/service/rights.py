"""What a job may do, as users of the broker: it enforces this, and no process of ours is in between."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

import redis
from redis.cluster import RedisCluster

from chimbuko.core.errors import ServiceError
from chimbuko.observe.namespaces.exchange.keys import about_key, asked_prefix, job_prefix
from chimbuko.observe.namespaces.exchange.place import WRITER, Place

_CONNECTING = "+ping +info +hello +auth +select +command +readonly +client|setname"
_CONNECTING_SINCE_7_2 = "+client|setinfo"
"""Redis before 7.2 has no such command, and redis-py does without it there."""
_CLUSTER = "+cluster|slots +cluster|shards +cluster|nodes"
_READING = "+get +hgetall +xrange"
_WRITING = "+xadd +multi +exec +discard"
_ASKING = "+multi +exec +llen +exists +smembers +sadd +lpush"


def grant(client: redis.Redis, place: Place, role: str) -> None:
    """Let the user that a place names do what its role may, and nothing else.

    Raises
    ------
    ServiceError
        The broker does not let us.
    """
    parts = urlsplit(place.url)
    prefix = job_prefix(place.service, place.job)
    rules = f"{_CONNECTING} {_CLUSTER} {_READING} %R~{prefix}* %R~{about_key(place.service)}".split()
    if role == WRITER:
        rules += f"{_WRITING} ~{prefix}*}}log".split()
        # What Celery does to ask a worker.
        rules.append(f"({_ASKING} ~{asked_prefix(place.service, place.job)}*)")
    rules = ["reset", "on", f">{unquote(parts.password or '')}", *rules]
    words = ["SETUSER", unquote(parts.username or ""), *rules]
    try:
        _everywhere(client, *words, _CONNECTING_SINCE_7_2)
    except ServiceError:
        _everywhere(client, *words)


def revoke(client: redis.Redis, user: str) -> None:
    """Remove a user, and with it its connections; errors are those of ``grant``."""
    _everywhere(client, "DELUSER", user)


def has_users(client: redis.Redis, users: set[str]) -> bool:
    """Whether each node of the broker knows these users: one that comes back may know none.

    Errors are those of ``grant``.
    """
    if isinstance(client, RedisCluster):
        client.nodes_manager.initialize()
    return all(users <= {str(name, "utf-8") for name in known} for known in _everywhere(client, "USERS"))


def _everywhere(client: redis.Redis, *words: str) -> list[Any]:
    """The answers of each node of a cluster."""
    more: dict[str, Any] = {}
    if isinstance(client, RedisCluster):
        more["target_nodes"] = RedisCluster.ALL_NODES
    try:
        answers = client.execute_command("ACL", *words, **more)  # type: ignore[no-untyped-call]
    except redis.ResponseError as error:
        raise ServiceError(
            f"the broker gives no rights to jobs ({error}); use the URL of a user who may do that, "
            f"of Redis 7.0 or later, or Valkey"
        ) from error
    return list(answers.values()) if isinstance(answers, dict) else [answers]
