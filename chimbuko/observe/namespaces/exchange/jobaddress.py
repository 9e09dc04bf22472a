"""Address of a service of namespaces, and of a job's rights at it.

The address, which users know as the place of a job, is a URL of the broker, whose user and password are the
job's rights, with the service and the job behind a ``#``, for example
``redis://USER:TOKEN@HOST:6400/0#SERVICE/JOB``; over TLS the certificate to accept is a part of it. It is
secret, so it stands in a file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec
import redis

from chimbuko.core.errors import ConfigError, ServiceError
from chimbuko.observe.namespaces.exchange.keys import PLACE_VARIABLE, Shard, about_key, check_name
from chimbuko.observe.namespaces.exchange.wire import VERSION
from chimbuko.runtime.protocol.broker import connect

DEFAULT_JOB = "default"
WRITER, READER = "writer", "reader"
"""Names of the files with a job's two addresses: who may publish may also read."""


class About(msgspec.Struct):
    """Description of a service, which it leaves at its broker."""

    version: int
    """Version of the publications' encoding."""
    instances: dict[str, int]
    """Number of instances of each namespace."""


@dataclass(frozen=True)
class JobAddress:
    """Address of a job's namespaces: broker, rights, service and job."""

    url: str
    """URL of the broker."""
    service: str
    job: str
    file: Path | None = None
    """File from which the address was read: its content may change."""

    @property
    def text(self) -> str:
        """Return the URL that contains the whole address."""
        return f"{self.url}#{self.service}/{self.job}"

    def connect(self, timeout_s: float = 5.0) -> redis.Redis:
        """Return a connection to the broker after trying it; errors are those of ``broker.connect``."""
        return connect(self.url, timeout_s, self.file)

    def about(self, client: redis.Redis) -> About:
        """Return the service's description.

        Raises
        ------
        ServiceError
            There is none at the broker, or it is of another version, or these are not the rights for it.
        """
        try:
            data = client.get(about_key(self.service))
        except redis.RedisError as error:
            raise ServiceError(f"service {self.service} cannot be read ({error})") from error
        if not isinstance(data, bytes):
            raise ServiceError(
                f"service {self.service} is not at its broker: start it with 'chimbuko namespaces serve'"
            )
        about = msgspec.json.decode(data, type=About)
        if about.version != VERSION:
            raise ServiceError(
                f"service {self.service} speaks version {about.version} of publications, and this Chimbuko "
                f"{VERSION}: use the same Chimbuko on both sides"
            )
        return about

    def shards(self, about: About, namespace: str) -> list[Shard]:
        """Return the shards of a namespace of the job, one for each instance.

        Raises
        ------
        ConfigError
            The service has no such namespace.
        """
        count = about.instances.get(namespace)
        if count is None:
            name, _, key = namespace.partition("/")
            advice = f"start it with --namespace {namespace}"
            if key:
                known = name if name in about.instances else "NAMESPACE"
                advice = (
                    f"{key!r} is a key, to be given apart from its namespace; "
                    f"'chimbuko namespaces read {known}' prints all keys"
                )
            raise ConfigError(
                f"{namespace!r}: no namespace of service {self.service}, which has "
                f"{', '.join(about.instances)}; {advice}"
            )
        return [Shard(self.service, self.job, namespace, number) for number in range(count)]


def find_address(place: str | Path | None, role: str = WRITER) -> JobAddress:
    """Return the address that a user means.

    Parameters
    ----------
    place
        Folder of a service (then its default job is meant), file of a job, or URL; None for that in
        ``CHIMBUKO_NAMESPACES``.
    role
        Role whose address is taken where a folder is given.

    Raises
    ------
    ConfigError
        There is none.
    """
    text = str(place or os.environ.get(PLACE_VARIABLE, ""))
    if not text:
        raise ConfigError(f"no service of namespaces is named; set {PLACE_VARIABLE} to its folder")
    if "://" in text:
        return parse_address(text)
    path = Path(text)
    if path.is_dir():
        # The folder of a service, or of one of its jobs.
        folder = path if (path / role).exists() else path / "jobs" / DEFAULT_JOB
        path = folder / role
    try:
        return parse_address(path.read_text().strip(), path)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}); start the service with "
            f"'chimbuko namespaces serve', or name its folder"
        ) from error


def parse_address(text: str, file: Path | None = None) -> JobAddress:
    """Return the address that such a URL contains.

    Raises
    ------
    ConfigError
        It is none.
    """
    url, mark, names = text.partition("#")
    service, slash, job = names.partition("/")
    if not mark or not slash or "://" not in url:
        # Without the text itself: there is a password in it.
        where = f"{file}: " if file else ""
        raise ConfigError(
            f"{where}no place of namespaces; it is like redis://USER:TOKEN@HOST:6400/0#SERVICE/JOB"
        )
    return JobAddress(url, check_name(service, "service"), check_name(job, "job"), file)
