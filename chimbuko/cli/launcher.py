"""Starts our services around an application, and stops them in order.

Order of the end: agents deliver what they have, the server merges it, the writer stores it, and only
then does the broker go.
"""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import signal
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
import redis

from chimbuko.ad.orders import AgentSpec, RecordedStream
from chimbuko.broker import BROKER_VARIABLE, PrivateBroker, connect, program_number
from chimbuko.cli.collisions import Collisions
from chimbuko.config import AnalysisConfig
from chimbuko.errors import ConfigError, ServiceError
from chimbuko.filesystems import is_on_network
from chimbuko.messages import ALL_KEYS, PROGRAMS, RUN
from chimbuko.processes import Service
from chimbuko.provenance.service import STORE_VARIABLE
from chimbuko.provenance.store import close, open_for_writing
from chimbuko.provenance.writer import Writer
from chimbuko.rundir import RunDirectory, RunInfo
from chimbuko.trace.discovery import StreamName

TOKEN_VARIABLE = "CHIMBUKO_TOKEN"
SERVICE_STOP_S = 30.0
FULL_DISK_BYTES = 1 << 18
CLAIM_S = 900
"""Longer than the end of a run takes, during which the claim on the broker is not renewed."""
LONGEST_DELIVERY_S = 600.0
"""An agent gives up by itself when nothing gets through any more."""
MOST_REVIVALS = 10


@dataclass(frozen=True)
class LaunchOptions:
    """What of our services is wanted, and how."""

    config: AnalysisConfig
    agents: int = 1
    lockstep_streams: int = 0
    broker_url: str | None = None
    port: int = 0
    has_dashboard: bool = True
    recorded: list[StreamName] = field(default_factory=list)
    """Recorded streams to analyse; empty for a live run."""
    unreadable: list[str] = field(default_factory=list)
    """One line for each recorded stream that is left out."""
    load_model: Path | None = None
    """What an earlier run has learned, to begin with."""
    save_model: Path | None = None
    """Where a copy of the final model goes."""
    relabel: bool = False
    """Recorded calls are judged again at the end."""


class Launcher:
    """Our services for one run, as a context: they are all gone when it ends.

    Raises
    ------
    ChimbukoError
        One of them did not start; those that did are stopped again.
    """

    def __init__(self, run: RunDirectory, options: LaunchOptions) -> None:
        self.run = run
        self.options = options
        self.dashboard_url = ""
        self.problems = list(options.unreadable)
        """One line each, for what did not end as it should."""
        self._scratch = Path(tempfile.mkdtemp(prefix="chimbuko-"))
        self._info = run.read_info()
        self._is_store_elsewhere = self._info.store_url == run.store_url and is_on_network(run.path)
        if self._is_store_elsewhere:
            store = self._scratch / run.store_path.name
            self._info = msgspec.structs.replace(self._info, store_url=f"sqlite:///{store}")
        self._private_broker: PrivateBroker | None = None
        self._server: Service | None = None
        self._writer: Service | None = None
        self._dashboard: Service | None = None
        self._agents: list[Service] = []
        self._broker_url = options.broker_url or ""
        self._revivals: Counter[str] = Counter()
        self._collisions = Collisions(run.trace)
        self._given_up: set[str] = set()
        self._programs: dict[bytes, bytes] = {}
        self._is_undelivered = False
        self._broker_is_ours = False

    def __enter__(self) -> Launcher:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def is_analysing(self) -> bool:
        """Whether any agent is still at work."""
        return any(agent.is_running for agent in self._agents)

    @property
    def has_failed(self) -> bool:
        """Whether an agent of a recorded trace ended early: the others would wait for its streams."""
        return bool(self.options.recorded) and any(agent.process.poll() for agent in self._agents)

    def look_after(self) -> list[str]:
        """Start again what ended on its own and can go on; one line for each thing that went wrong."""
        collisions = self._collisions.news()
        self.problems += collisions
        return [*self._revive_broker(), *self._revive_services(), *collisions]

    def _revive_services(self) -> list[str]:
        lines = []
        for service in (self._server, self._writer, self._dashboard, *self._agents):
            if service is None or service.is_running or service.name in self._given_up:
                continue
            if service in self._agents and self.options.recorded and service.process.returncode == 0:
                continue
            can_go_on = service is self._writer or (service in self._agents and not self.options.recorded)
            if can_go_on and self._revivals[service.name] < MOST_REVIVALS:
                self._revivals[service.name] += 1
                service.start_again()
                lines.append(f"{service.name} ended early and was started again; its log is {service.log}")
            else:
                self._given_up.add(service.name)
                self.problems.append(f"{service.name} ended early; its log is {service.log}")
                lines.append(self.problems[-1])
        return lines

    def _revive_broker(self) -> list[str]:
        """Agents send again what was not acknowledged; only the numbers of programs would be lost."""
        if self._private_broker is None or self._private_broker.is_running:
            with suppress(redis.RedisError):
                self.client.expire(RUN, CLAIM_S)
                self._programs = cast(dict[bytes, bytes], self.client.hgetall(PROGRAMS))
            return []
        self._private_broker.start()
        if self._programs:
            self.client.hset(PROGRAMS, mapping=cast(dict[Any, Any], self._programs))
        return ["the broker ended early and was started again"]

    def write_info(self, info: RunInfo) -> None:
        """Note in the run's folder and in its store what became of the run."""
        self._info = info
        self.run.write_info(info)
        engine = open_for_writing(info.store_url)
        Writer(engine, info.id).write_run(info)
        close(engine)

    def finish_analysis(self) -> None:
        """Ask the agents to come to an end, wait for them, and let server and writer finish their work."""
        if not (self._agents or self._writer or self._server):
            return
        for agent in self._agents:
            agent.ask_to_stop()
        for agent in self._agents:
            self._stop(agent, LONGEST_DELIVERY_S)
            self._is_undelivered |= agent.process.returncode != 0
        for service in (self._server, self._writer):
            if service is not None:
                self._stop(service, SERVICE_STOP_S)
        self._agents, self._server, self._writer = [], None, None
        self._note_undelivered()
        if self._is_store_elsewhere:
            self._bring_store_home()

    def _bring_store_home(self) -> None:
        """SQLite's log does not work on a network file system: the store was on local disk until now."""
        self._is_store_elsewhere = False
        shutil.copyfile(self._scratch / self.run.store_path.name, self.run.store_path)
        self.write_info(msgspec.structs.replace(self._info, store_url=self.run.store_url))

    def stop(self) -> None:
        """Stop everything that is left."""
        self.finish_analysis()
        if self._dashboard is not None:
            self._stop(self._dashboard, SERVICE_STOP_S)
            self._dashboard = None
        self._leave_broker()
        if not self._is_undelivered:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _note_undelivered(self) -> None:
        """Say where the rest is, and the most likely reason."""
        if self._is_undelivered:
            self.problems.append(f"findings that could not be stored are kept in {self._scratch}")
        if shutil.disk_usage(self.run.path).free < FULL_DISK_BYTES:
            self.problems.append(f"the disk of {self.run.path} is full: make room there")

    def _start(self) -> None:
        info = self._info
        self.write_info(info)
        if not self._broker_url:
            self._private_broker = PrivateBroker(self.run.logs / "broker.log")
            self._private_broker.start()
            self._broker_url = self._private_broker.url
        self.client = connect(self._broker_url)
        """A connection to the run's broker."""
        self._claim_broker()
        self._note_broker()
        secret = {BROKER_VARIABLE: self._broker_url}
        logs = self.run.logs
        self._server = Service(
            "pserver", "chimbuko.pserver.service", self._learning_arguments(), secret, logs
        )
        self._writer = Service(
            "provenance",
            "chimbuko.provenance.service",
            ["--run-id", info.id],
            secret | {STORE_VARIABLE: info.store_url},
            logs,
        )
        if self.options.has_dashboard:
            self._dashboard = Service(
                "dashboard",
                "chimbuko.viz",
                ["--run-dir", str(self.run.path), "--port", str(self.options.port)],
                secret | {TOKEN_VARIABLE: secrets.token_urlsafe(24)},
                logs,
            )
        self._number_programs()
        self._agents = [self._agent(index, secret) for index in range(self.options.agents)]
        for service in (self._server, self._writer, *self._agents):
            service.wait_ready()
        if self._dashboard is not None:
            self.dashboard_url = self._dashboard.wait_ready()["url"]

    def _learning_arguments(self) -> list[str]:
        """What the parameter server is told."""
        options, config = self.options, self.options.config
        words = ["--lockstep-streams", str(options.lockstep_streams)]
        words += ["--detector", config.detector, "--metric", config.metric]
        if options.load_model is not None:
            words += ["--load-model", str(options.load_model)]
        if config.is_frozen:
            words.append("--freeze")
        for path in (self.run.model_path, options.save_model):
            if path is not None:
                words += ["--save-model", str(path)]
        return words

    def _claim_broker(self) -> None:
        """One run at a time uses a broker's database; the claim lapses if the run dies."""
        if not self.client.set(RUN, self._info.id, nx=True, ex=CLAIM_S):
            raise ServiceError(
                "the broker's database is used by another run; wait for its end, or give another database "
                "by its number, as in redis://HOST:6379/1"
            )
        self._broker_is_ours = True
        # What a run that died has left.
        self.client.delete(*(key for key in ALL_KEYS if key != RUN))

    def _note_broker(self) -> None:
        """Leave the broker's URL to verbs that look into the run while it goes on."""
        self.run.broker_path.unlink(missing_ok=True)
        # A full disk takes them this, and not the user the run.
        with suppress(OSError):
            file = os.open(self.run.broker_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(file, "w") as text:
                text.write(self._broker_url)

    def _leave_broker(self) -> None:
        self.run.broker_path.unlink(missing_ok=True)
        if self._private_broker is not None:
            self._private_broker.stop()
            self._private_broker = None
        elif self._broker_is_ours:
            with suppress(redis.RedisError):
                self.client.delete(*ALL_KEYS)

    def _number_programs(self) -> None:
        """Recorded programs are numbered in order of name, so that call ids are the same every time."""
        for program in sorted({stream.program for stream in self.options.recorded}):
            program_number(self.client, program)

    def _agent(self, index: int, secret: dict[str, str]) -> Service:
        options = self.options
        name = f"agent-{index}"
        spec = AgentSpec(
            agent=name,
            index=index,
            count=options.agents,
            node=platform.node(),
            scratch=str(self._scratch / name),
            config=options.config,
            live_folder="" if options.recorded else str(self.run.trace),
            recorded=[
                RecordedStream(str(s.path.absolute()), s.program, s.rank, s.first_rank)
                for s in options.recorded
            ],
        )
        path = self._scratch / f"{name}.json"
        path.write_bytes(msgspec.json.encode(spec))
        return Service(name, "chimbuko.ad.service", [str(path)], secret, self.run.logs)

    def _stop(self, service: Service, timeout_s: float) -> None:
        if service.name not in self._given_up and not service.stop(timeout_s):
            self.problems.append(f"{service.name} did not end within {timeout_s:.0f} s and was killed")
        elif service.process.returncode not in (0, -signal.SIGTERM) and service.name not in self._given_up:
            code = service.process.returncode
            self.problems.append(f"{service.name} ended with code {code}; its log is {service.log}")


def check_agents(agents: int, recorded: list[StreamName]) -> None:
    """Refuse a number of agents that makes no sense.

    Raises
    ------
    ConfigError
        It is below 1, or above the number of recorded streams.
    """
    if agents < 1:
        raise ConfigError(f"--agents {agents}: at least one agent is needed")
    if recorded and agents > len(recorded):
        raise ConfigError(f"--agents {agents}: there are only {len(recorded)} streams")
