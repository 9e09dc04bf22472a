"""All that a service of namespaces has at its broker."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chimbuko.core.errors import ConfigError

STANDING = ("workflow", "application", "hardware", "performance")
"""Namespaces that every service has."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def check_name(name: str, what: str) -> str:
    """The name of a service, job or namespace, which stands in keys and in patterns of keys.

    Raises
    ------
    ConfigError
        It cannot be one.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r}: no name of a {what}; use up to 64 letters, digits, and _ . -")
    return name


@dataclass(frozen=True)
class Shard:
    """What one instance keeps of a namespace of a job.

    What stands in braces decides where in a cluster a key is: those of a shard change together, and different
    shards are spread over the nodes.
    """

    service: str
    job: str
    namespace: str
    instance: int

    @property
    def _begin(self) -> str:
        return f"{job_prefix(self.service, self.job)}{self.namespace}:{self.instance}}}"

    @property
    def log(self) -> str:
        """Stream of publications, clients to instance and readers; the oldest go when they are merged."""
        return f"{self._begin}log"

    @property
    def state(self) -> str:
        """Hash: path to leaf, and beside them how far the log is merged and which clients it is of."""
        return f"{self._begin}state"

    @property
    def lease(self) -> str:
        """Key with the process that merges the log, which expires with it."""
        return f"{self._begin}lease"

    @property
    def wanted(self) -> str:
        """Key that the process sets that should merge the log, where another one does in its place."""
        return f"{self._begin}wanted"

    @property
    def all(self) -> tuple[str, ...]:
        """All of its keys."""
        return (self.log, self.state, self.lease, self.wanted)


def job_prefix(service: str, job: str) -> str:
    """What all keys of a job begin with."""
    return f"{{chimbuko-ns:{service}:{job}:"


def asked_prefix(service: str, job: str) -> str:
    """What all keys begin with by which workers of a job are asked for analyses."""
    return f"{job_prefix(service, job)}analyses}}"


def about_key(service: str) -> str:
    """Key with an ``About``, for all who know the service."""
    return f"{{chimbuko-ns:{service}}}about"
