"""Folder of a service of namespaces: its settings, the URL of its broker, and the addresses of its
jobs.

Secrets (the URLs) are in files that only their owner can read.

The folder also has SOMA's address file, where SOMA's clients find their server, and its node file,
a list of all servers. The first line of an address file is the number of servers. Each further line
has the number of a server, from 0 on, and its address. SOMA itself writes lines as servers come up,
so that those of an earlier run can be left in it; this one is written in one piece.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec
import redis

from chimbuko.core.errors import ConfigError
from chimbuko.core.files import write_atomically
from chimbuko.observe.namespaces.exchange.jobaddress import READER, WRITER, JobAddress, parse_address
from chimbuko.observe.namespaces.exchange.keys import check_name
from chimbuko.runtime.protocol.broker import connect


def format_addresses(addresses: Sequence[str]) -> str:
    """Return the text of an address file."""
    lines = [str(len(addresses)), *(f"{number} {address}" for number, address in enumerate(addresses))]
    return "\n".join(lines) + "\n"


def format_collectors(count: int) -> str:
    """Return the text of a node file: the number of each server on a line of its own."""
    return "".join(f"{number}\n" for number in range(count))


class ServiceSettings(msgspec.Struct, frozen=True):
    """Settings with which a service was started."""

    name: str
    namespaces: tuple[str, ...]
    instances: int
    """Number of instances of each namespace."""
    keep_bytes: int
    """Bytes that each instance keeps for each job, of its log and of its leaves."""


class ServiceFolder:
    """The folder of a service."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs = path / "logs"
        self.data = path / "data"
        """Folder in which the service's own broker keeps its data."""
        self.broker_path = path / "broker"
        """File with the URL of the broker, with all rights."""
        self.addresses_path = path / "addresses"
        """Path of SOMA's address file: the broker for each instance, without a password."""
        self._settings_path = path / "service.json"
        self._jobs_path = path / "jobs"

    def make(self, settings: ServiceSettings) -> None:
        """Make the folder, or change its settings.

        Raises
        ------
        ConfigError
            It cannot be written, or there is something else in it.
        """
        try:
            if self.path.exists() and not self._settings_path.exists() and any(self.path.iterdir()):
                raise ConfigError(f"{self.path}: is no folder of a service; name a new one")
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self.logs, self.data, self._jobs_path):
                folder.mkdir(mode=0o700, exist_ok=True)
            write_atomically(self._settings_path, msgspec.json.format(msgspec.json.encode(settings)))
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written ({error.strerror})") from error

    @property
    def exists(self) -> bool:
        """Whether there is a service in the folder."""
        return self._settings_path.exists()

    def settings(self) -> ServiceSettings:
        """Return the settings with which the service was started.

        Raises
        ------
        ConfigError
            There is none in the folder.
        """
        try:
            return msgspec.json.decode(self._settings_path.read_bytes(), type=ServiceSettings)
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigError(
                f"{self.path}: is no folder of a service; start one with 'chimbuko namespaces serve'"
            ) from error

    def connect(self) -> redis.Redis:
        """Return a connection with all rights; errors are those of ``broker.connect``."""
        try:
            url = self.broker_path.read_text()
        except OSError as error:
            raise ConfigError(
                f"{self.broker_path}: cannot be read ({error.strerror}); is the service running?"
            ) from error
        return connect(url, found_in=self.broker_path)

    def write_broker(self, url: str) -> None:
        """Write the broker's URL, also for all jobs."""
        settings = self.settings()
        write_atomically(self.broker_path, url.encode(), 0o600)
        parts = urlsplit(url)
        address = f"{parts.hostname}:{parts.port or 6379}"
        count = len(settings.namespaces) * settings.instances
        write_atomically(self.addresses_path, format_addresses([address] * count).encode())
        write_atomically(self.path / "nodes", format_collectors(count).encode())
        for job in self.jobs():
            for role in (WRITER, READER):
                place = self.place(job, role)
                self._write_place(job, role, urlsplit(place.url).password or "")

    def jobs(self) -> list[str]:
        """Return the names of the jobs that may use the service."""
        with suppress(OSError):
            return sorted(path.name for path in self._jobs_path.iterdir() if (path / READER).exists())
        return []

    def place(self, job: str, role: str) -> JobAddress:
        """Return the address of a job."""
        path = self.place_path(job, role)
        return parse_address(path.read_text(), path)

    def place_path(self, job: str, role: str) -> Path:
        """Return the path of the file with a job's address."""
        return self._jobs_path / job / role

    def admit(self, job: str) -> None:
        """Make addresses for a job, with tokens of their own; a job that has them keeps them."""
        check_name(job, "job")
        if job in self.jobs():
            return
        (self._jobs_path / job).mkdir(mode=0o700, exist_ok=True)
        # The last one makes it a job.
        for role in (WRITER, READER):
            self._write_place(job, role, secrets.token_urlsafe(24))

    def dismiss(self, job: str) -> None:
        """Remove the addresses of a job.

        Raises
        ------
        ConfigError
            There is no such job.
        """
        if job not in self.jobs():
            raise ConfigError(
                f"{job!r}: no job of this service, which has {', '.join(self.jobs()) or 'none'}"
            )
        shutil.rmtree(self._jobs_path / job)

    def user(self, job: str, role: str) -> str:
        """Return the name of the broker's user that stands for a job's rights."""
        return f"chimbuko-ns.{self.settings().name}.{job}.{role}"

    def _write_place(self, job: str, role: str, token: str) -> None:
        parts = urlsplit(self.broker_path.read_text())
        at = f"{quote(self.user(job, role))}:{quote(token)}@{parts.netloc.rpartition('@')[2]}"
        url = urlunsplit((parts.scheme, at, parts.path, parts.query, ""))
        place = JobAddress(url, self.settings().name, job)
        write_atomically(self.place_path(job, role), place.text.encode(), 0o600)
