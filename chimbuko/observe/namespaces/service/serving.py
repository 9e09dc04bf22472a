"""Main process of a service of namespaces: its broker, its instances, and the rights of its jobs.

Each job has users at the broker. The broker itself enforces their rights, without a process in
between.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import redis
from redis.cluster import RedisCluster
from redis.exceptions import RedisClusterException

from chimbuko.core.errors import ChimbukoError, ServiceError
from chimbuko.observe.namespaces.exchange.jobaddress import DEFAULT_JOB, READER, WRITER, About, JobAddress
from chimbuko.observe.namespaces.exchange.keys import Shard, about_key, asked_prefix, job_prefix
from chimbuko.observe.namespaces.exchange.wire import VERSION
from chimbuko.observe.namespaces.service.folder import ServiceFolder, ServiceSettings
from chimbuko.observe.namespaces.service.heldshard import make_log
from chimbuko.runtime.process.cores import pin
from chimbuko.runtime.process.failures import Failures
from chimbuko.runtime.process.nameholding import hold
from chimbuko.runtime.process.service import Service
from chimbuko.runtime.process.signals import FROM_OTHERS, heed
from chimbuko.runtime.process.starting import fork
from chimbuko.runtime.process.supervisor import Revivals, ServiceGroup
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.brokerdoor import BrokerDoor
from chimbuko.runtime.protocol.brokerplace import LOOPBACK

_CONNECTING = "+ping +info +hello +auth +select +command +readonly +client|setname"
_CONNECTING_SINCE_7_2 = "+client|setinfo"
"""Command that Redis before 7.2 does not have, and without which redis-py works there."""
_CLUSTER = "+cluster|slots +cluster|shards +cluster|nodes"
_READING = "+get +hgetall +xrange"
_WRITING = "+xadd +multi +exec +discard"
_ASKING = "+multi +exec +llen +exists +smembers +sadd +lpush"


def grant(client: redis.Redis, place: JobAddress, role: str) -> None:
    """Give the user of an address the rights of its role, and no others.

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
        # Commands that Celery uses to ask a worker.
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
    """Whether each node of the broker knows these users: a node that comes back may know none.

    Errors are those of ``grant``.
    """
    if isinstance(client, RedisCluster):
        client.nodes_manager.initialize()
    return all(users <= {str(name, "utf-8") for name in known} for known in _everywhere(client, "USERS"))


def _everywhere(client: redis.Redis, *words: str) -> list[Any]:
    """Return the answers of each node of a cluster."""
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


LOOK_PERIOD_S = 0.2
USERS_LOOK_S = 2.0
"""Interval between two checks whether an external broker still has the users of jobs."""
STOP_S = 20.0
SETTLED_S = 10.0
"""Time that a change of rights may take to come into force."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class ServeOptions:
    """Options of a service."""

    settings: ServiceSettings
    broker: str | None = None
    """URL of an external broker; None for the service's own, which keeps all its data in the folder."""
    bind: tuple[str, int] = (LOOPBACK, 0)
    """Address and port of the service's own broker; it is reached over TLS unless that is the loopback."""
    cores: str = ""
    """List of the cores to which the service is bound; empty for all."""
    workers: int = 0
    """Number of analyses that run at once for clients of the default job."""


def serve(path: Path, options: ServeOptions, say: Say) -> list[str]:
    """Serve until the process gets SIGINT, SIGTERM or SIGHUP, and return the problems that occurred.

    Raises
    ------
    ChimbukoError
        The service did not start.
    """
    folder = ServiceFolder(path)
    claim = hold(f"namespaces {path.resolve()}")
    problems: list[str] = []
    with claim, ExitStack() as stack:
        if options.cores:
            pin(options.cores)
        folder.make(options.settings)
        serving = Serving(folder, options, problems)
        stack.callback(serving.stop)
        signals: list[int] = []
        heed(FROM_OTHERS, lambda number, frame: signals.append(number))
        serving.start()
        say(f"namespaces are served; programs find them with CHIMBUKO_NAMESPACES={path.resolve()}")
        while not signals:
            for line in serving.look_after():
                say(line)
            time.sleep(LOOK_PERIOD_S)
    return problems


class Serving:
    """Processes of a running service."""

    def __init__(self, folder: ServiceFolder, options: ServeOptions, problems: list[str]) -> None:
        self._folder = folder
        self._options = options
        self._failures = Failures(problems)
        self._instances = ServiceGroup(problems)
        self._broker: PrivateBroker | None = None
        self._door: BrokerDoor | None = None
        self._revivals = Revivals()
        self._client: redis.Redis | None = None
        self._granted: dict[str, dict[str, str]] = {}
        """Users of each job, by role."""
        self._users_look_at_s = 0.0

    def start(self) -> None:
        """Start all processes, and wait until the service can be used."""
        self._folder.write_broker(self._options.broker or self._start_broker())
        self._client = self._folder.connect()
        if not self._folder.jobs():
            self._folder.admit(DEFAULT_JOB)
        self._introduce()
        settings = self._options.settings
        if self._options.workers:
            # This process ends first: it may have something to publish.
            self._instances.add(self._worker(self._options.workers), can_go_on=True)
        for namespace in settings.namespaces:
            for number in range(settings.instances):
                arguments = [str(self._folder.path), namespace, str(number)]
                service = Service(
                    f"{namespace}-{number}",
                    "chimbuko.observe.namespaces.service.instance",
                    arguments,
                    {},
                    self._folder.logs,
                    start=fork,
                )
                self._instances.add(service, can_go_on=True)
        self._instances.wait_ready()

    def _worker(self, at_once: int) -> Service:
        arguments = [str(self._folder.path), DEFAULT_JOB, str(at_once)]
        return Service(
            "worker", "chimbuko.observe.namespaces.service.worker", arguments, {}, self._folder.logs
        )

    def look_after(self) -> list[str]:
        """Restart processes that ended, and bring new rights into force; return one line for each new
        problem.
        """
        lines = [*self._revive_broker(), *self._instances.look_after()]
        # A broker that is away comes back, and a cluster replaces a node.
        away = suppress(
            redis.ConnectionError, redis.TimeoutError, redis.exceptions.ClusterError, RedisClusterException
        )
        with self._failures.survived("the rights of jobs cannot be changed yet"), away:
            self._update_rights()
            if not self._is_introduced():
                # The broker, or a node of it, was started anew by somebody else, and had not kept all.
                self._granted.clear()
                self._introduce()
        return lines

    def _is_introduced(self) -> bool:
        assert self._client is not None
        if not self._client.exists(about_key(self._options.settings.name)):
            return False
        if self._broker is not None or time.monotonic() < self._users_look_at_s:
            return True
        self._users_look_at_s = time.monotonic() + USERS_LOOK_S
        return has_users(self._client, {user for users in self._granted.values() for user in users.values()})

    def stop(self) -> None:
        """End all processes: first the instances, which merge the last publications, and then the broker."""
        self._instances.stop(STOP_S)
        if self._client is not None:
            with self._failures.survived("the service could not be signed off"):
                self._client.delete(about_key(self._options.settings.name))
            self._client.close()
        self._close_broker()

    def _start_broker(self) -> str:
        address, port = self._options.bind
        if self._folder.broker_path.exists():
            # A service that goes on is where it was, if it can be: clients may be waiting for it.
            before = urlsplit(self._folder.broker_path.read_text())
            if not port and before.hostname == address and before.port:
                port = before.port
        try:
            return self._open_broker(address, port)
        except ServiceError:
            if port == self._options.bind[1]:
                raise
            return self._open_broker(address, 0)

    def _open_broker(self, address: str, port: int) -> str:
        """Start the broker, with a door to it on a network, and return its URL with all rights."""
        self._close_broker()
        log, data = self._folder.logs / "broker.log", self._folder.data
        if address == LOOPBACK:
            self._broker = PrivateBroker(log, address, port, data)
        else:
            self._broker = PrivateBroker(log, kept_in=data)
            self._door = BrokerDoor(self._folder.logs, address, port)
        try:
            return self._start_ended(self._broker)
        except ServiceError:
            self._close_broker()
            raise

    def _start_ended(self, broker: PrivateBroker) -> str:
        """Start the broker and its door, as far as they do not run; return the URL with all rights."""
        if not broker.is_running:
            broker.start()
        if self._door is None:
            return broker.keeper_url
        if not self._door.is_running or not self._door.leads_to(broker.keeper_url):
            self._door.open(broker.keeper_url)
        return self._door.url

    def _close_broker(self) -> None:
        if self._door is not None:
            self._door.close()
        if self._broker is not None:
            self._broker.stop()
        self._door = self._broker = None

    def _revive_broker(self) -> list[str]:
        broker, door, now_s = self._broker, self._door, time.monotonic()
        ended = [
            name for name, one in (("broker", broker), ("broker's door", door)) if one and not one.is_running
        ]
        if broker is None or not ended or not self._revivals.is_due(now_s):
            return []
        self._revivals = self._revivals.started(now_s)
        with self._failures.survived(f"the {ended[0]} ended and cannot be started again yet"):
            self._folder.write_broker(self._start_ended(broker))
            # The broker keeps publications, but no rights.
            self._granted.clear()
            self._introduce()
        return [f"the {name} ended early and was started again" for name in ended]

    def _introduce(self) -> None:
        """Publish the service's description at the broker."""
        assert self._client is not None
        settings = self._options.settings
        about = About(VERSION, dict.fromkeys(settings.namespaces, settings.instances))
        self._client.set(about_key(settings.name), msgspec.json.encode(about))
        self._update_rights()

    def _update_rights(self) -> None:
        assert self._client is not None
        jobs = self._folder.jobs()
        for job in [job for job in self._granted if job not in jobs]:
            for user in self._granted.pop(job).values():
                revoke(self._client, user)
            self._forget(job)
        for job in jobs:
            if job not in self._granted:
                for shard in self._shards(job):
                    make_log(self._client, shard)
                for role in (WRITER, READER):
                    grant(self._client, self._folder.place(job, role), role)
                self._granted[job] = {role: self._folder.user(job, role) for role in (WRITER, READER)}

    def _forget(self, job: str) -> None:
        """Remove all data of a job from the broker."""
        assert self._client is not None
        for shard in self._shards(job):
            for key in shard.all:
                self._client.delete(key)
        for key in self._client.scan_iter(f"{asked_prefix(self._options.settings.name, job)}*"):
            self._client.delete(key)

    def _shards(self, job: str) -> list[Shard]:
        settings = self._options.settings
        return [
            Shard(settings.name, job, namespace, number)
            for namespace in settings.namespaces
            for number in range(settings.instances)
        ]


def await_admitted(folder: ServiceFolder, job: str) -> None:
    """Wait until a job can use the service.

    Raises
    ------
    ServiceError
        It cannot: nobody serves.
    """
    place = folder.place(job, WRITER)
    deadline_s = time.monotonic() + SETTLED_S
    while True:
        try:
            with place.connect() as client:
                place.about(client)
            return
        except ChimbukoError as error:
            if time.monotonic() > deadline_s:
                raise ServiceError(
                    f"{folder.path}: job {job} has its places, but nobody serves them yet ({error})"
                ) from error
            time.sleep(LOOK_PERIOD_S)
