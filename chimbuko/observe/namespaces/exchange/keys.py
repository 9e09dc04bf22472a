"""Keys of a service of namespaces at its broker, and the environment variable that names its place."""

from __future__ import annotations

import re

import msgspec

from chimbuko.core.errors import ConfigError

PLACE_VARIABLE = "CHIMBUKO_NAMESPACES"
"""Environment variable with the folder of a service, or the file or URL of a job's address."""
STANDING = ("workflow", "application", "hardware", "performance")
"""Names of the namespaces that every service has."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def check_name(name: str, what: str) -> str:
    """Return the name of a service, job or namespace after checking that it can stand in keys, and in
    patterns of keys.

    Raises
    ------
    ConfigError
        It cannot be one.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r}: no name of a {what}; use up to 64 letters, digits, and _ . -")
    return name


class Shard(msgspec.Struct, frozen=True):
    """Keys of one shard: the part of a job's namespace that one instance keeps.

    The part in braces decides on which node of a cluster a key is: those of a shard change together, and
    different shards are spread over the nodes.
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
        """Key of the stream of publications, from clients to the instance and readers; merged publications
        are removed, the oldest first.
        """
        return f"{self._begin}log"

    @property
    def state(self) -> str:
        """Key of the hash from path to leaf, which also notes how far the log is merged, and the clients."""
        return f"{self._begin}state"

    @property
    def lease(self) -> str:
        """Key with the name of the process that merges the log; it expires if the process dies."""
        return f"{self._begin}lease"

    @property
    def wanted(self) -> str:
        """Key by which the process that should merge the log asks for it back from one that stands in."""
        return f"{self._begin}wanted"

    @property
    def all(self) -> tuple[str, ...]:
        """All keys of the shard."""
        return (self.log, self.state, self.lease, self.wanted)


def job_prefix(service: str, job: str) -> str:
    """Return the prefix of all keys of a job."""
    return f"{{chimbuko-ns:{service}:{job}:"


def asked_prefix(service: str, job: str) -> str:
    """Return the prefix of all keys by which workers of a job are asked for analyses."""
    return f"{job_prefix(service, job)}analyses}}"


def about_key(service: str) -> str:
    """Return the key of a service's ``About``, for everyone who knows the service."""
    return f"{{chimbuko-ns:{service}}}about"
