"""The services of one run, on one node: broker, parameter server, store's writer, dashboard.

Order of the end: when the agents have delivered what they have, the server merges it, the writer stores
it, and only then does the broker go.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
import redis

from chimbuko.atomicfile import write_atomically
from chimbuko.config import AnalysisConfig
from chimbuko.errors import ServiceError
from chimbuko.launcher.dashboard import Dashboard
from chimbuko.launcher.options import ServiceChoices
from chimbuko.launcher.outcome.delivery import deliver_spools
from chimbuko.launcher.outcome.leftstatistics import merge_left
from chimbuko.launcher.outcome.progress import say
from chimbuko.launcher.outcome.recovery import bring_store_home
from chimbuko.process.lifetime import hold
from chimbuko.process.mishaps import Mishaps
from chimbuko.process.restarts import Revivals
from chimbuko.process.service import Service
from chimbuko.process.starting import fork
from chimbuko.process.supervisor import ServiceGroup
from chimbuko.protocol.broker import BROKER_VARIABLE, LOOPBACK, PrivateBroker
from chimbuko.protocol.metricsplace import TOKEN_VARIABLE
from chimbuko.protocol.rankclaims import beginnings, rivalries
from chimbuko.protocol.runbroker import MOST_NEWS, RunBroker
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.__main__ import STORE_VARIABLE
from chimbuko.provenance.write.writer import Writer
from chimbuko.runs.directory import RunDirectory, RunInfo, claim_name
from chimbuko.runs.filesystems import is_on_network
from chimbuko.runs.scratch import (
    SERVICES_PART,
    ScratchNote,
    agents_at_work,
    forget,
    rescued_folders,
    scratch_folder,
)

SERVICE_STOP_S = 30.0
ASK_PERIOD_S = 2.0
"""How often the broker is asked for news: six questions, which take a millisecond."""
FULL_DISK_BYTES = 1 << 18
KEPT_S = 3600
"""What a run has at a broker that it shares with others goes so long after the run has died. Longer than the
end of a run takes; agents send again what is gone."""
SIGN_PERIOD_S = 10.0
"""Between two signs of life in the run's folder."""


@dataclass(frozen=True)
class ServiceOptions:
    """Which services a run has, and how they begin."""

    config: AnalysisConfig
    lockstep_streams: int = 0
    programs: tuple[str, ...] = ()
    """Programs that are numbered in this order, so that ids of calls are the same every time."""
    choices: ServiceChoices = field(default_factory=ServiceChoices)
    """What the user wants of them."""
    bind: tuple[str, int] = (LOOPBACK, 0)
    """Address and port of our own broker; port 0 for any that is free."""
    has_dashboard: bool = True
    load_model: Path | None = None
    """What an earlier run has learned, to begin with."""
    save_model: Path | None = None
    """Where a copy of the final model goes."""
    is_resumed: bool = False
    """Whether the run has begun before, and its services have died."""


class Services:
    """The services of one run, as a context: they are all gone when it ends.

    Parameters
    ----------
    problems
        Gets one line for each thing that did not end as it should.

    Raises
    ------
    ChimbukoError
        One of them did not start; those that did are stopped again.
    """

    def __init__(self, run: RunDirectory, options: ServiceOptions, problems: list[str]) -> None:
        self.run = run
        self.options = options
        self.broker_url = options.choices.broker or ""
        self.metrics_url = ""
        self._problems = problems
        self._info = run.read_info()
        self._scratch = scratch_folder(self._info.id, SERVICES_PART)
        self._note = ScratchNote(run, SERVICES_PART, self._scratch)
        self._has_own_store = not run.store_url_path.exists()
        self._store_url = run.store_url if self._has_own_store else run.used_store_url(self._info)
        self._is_store_elsewhere = self._has_own_store and is_on_network(run.path)
        if self._is_store_elsewhere:
            self._store_url = f"sqlite:///{self._scratch / run.store_path.name}"
            self._info = msgspec.structs.replace(self._info, store_url=self._store_url)
        self._store_news_to = b"0"
        self._private_broker: PrivateBroker | None = None
        self._broker: RunBroker | None = None
        self._broker_revivals = Revivals()
        self._mishaps = Mishaps(problems)
        self._learning = ServiceGroup(problems)
        self._dashboard: Dashboard | None = None
        self._ask_at_s = 0.0
        self._programs: dict[bytes, bytes] = {}
        self._instances = 0
        self._sign_at_s = 0.0
        self._rescued = rescued_folders(run)
        """What agents of a run that goes on had left in its folder."""
        self._is_ready = False

    def __enter__(self) -> Services:
        self._claim = hold(claim_name(self._info.id))
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def wait_ready(self) -> None:
        """Wait until all of them can be used.

        Raises
        ------
        ServiceError
            One did not start.
        """
        for facts in self._learning.wait_ready():
            self.metrics_url = facts.get("metrics", self.metrics_url)
        self._is_ready = True

    @property
    def broker(self) -> RunBroker:
        """A connection to the run's broker, from the start of the services on."""
        assert self._broker is not None
        return self._broker

    @property
    def dashboard_url(self) -> str:
        """Its address with the token; empty where there is none."""
        return self._dashboard.url if self._dashboard else ""

    @property
    def visitors(self) -> list[int]:
        """Descriptors that become readable when somebody wants to see a dashboard that has no process yet."""
        return self._dashboard.visitors if self._dashboard else []

    @property
    def info(self) -> RunInfo:
        """What the run is, as it was noted last."""
        return self._info

    def look_after(self) -> list[str]:
        """Start again what ended on its own and can go on; one line for each thing that went wrong."""
        lines = [*self._revive_broker(), *self._learning.look_after(), *self.look_after_dashboard()]
        now_s = time.monotonic()
        if now_s >= self._ask_at_s:
            self._ask_at_s = now_s + ASK_PERIOD_S
            self._keep_up()
            lines += self._news()
        return lines

    def _news(self) -> list[str]:
        return [*self._store_news(), *self._new_rivalries(), *self._new_instances()]

    def look_after_dashboard(self) -> list[str]:
        """Start it when somebody wants to see it, and again where it ended on its own."""
        return self._dashboard.look_after() if self._dashboard else []

    def _new_instances(self) -> list[str]:
        with suppress(redis.RedisError):
            lines = beginnings(self.broker)
            self._instances, before = len(lines), self._instances
            return lines[before:]
        return []

    def _store_news(self) -> list[str]:
        """What the writer had to say since the last time."""
        with suppress(redis.RedisError):
            entries = self.broker.read(self.broker.keys.store_news, self._store_news_to, MOST_NEWS)
            lines = [line.decode() for _, line in entries]
            self._store_news_to = entries[-1][0] if entries else self._store_news_to
            self._problems += lines
            return lines
        return []

    def _new_rivalries(self) -> list[str]:
        with suppress(redis.RedisError):
            lines = [line for line in rivalries(self.broker) if line not in self._problems]
            self._problems += lines
            return lines
        return []

    def _revive_broker(self) -> list[str]:
        broker, now_s = self._private_broker, time.monotonic()
        # It is never given up: without it nothing that was found can be delivered.
        if broker is None or broker.is_running or not self._broker_revivals.is_due(now_s):
            return []
        self._broker_revivals = self._broker_revivals.started(now_s)
        # It may be killed while it starts, or there is no process to be had: then there is a next time.
        with suppress(ServiceError, OSError):
            broker.start()
            self._keep_up()
        return ["the broker ended early and was started again"]

    def _keep_up(self) -> None:
        """See to it that the broker has what would be lost with it, and forgets us if we die."""
        if time.monotonic() >= self._sign_at_s:
            self._sign_at_s = time.monotonic() + SIGN_PERIOD_S
            with suppress(OSError):
                self.run.alive_path.touch(mode=0o600)
        with suppress(redis.RedisError):
            self._remember_programs()
            self._write_dashboard()
            if self._private_broker is None:
                # Each time: a key that is written anew would stay for ever.
                with self.broker.client.pipeline(transaction=False) as pipeline:
                    for key in self.broker.keys.all:
                        pipeline.expire(key, KEPT_S)
                    pipeline.execute()

    def _write_dashboard(self) -> None:
        if self.dashboard_url:
            self.broker.client.set(self.broker.keys.dashboard, self.dashboard_url.partition("?")[0])

    def _remember_programs(self) -> None:
        """Only the numbers of programs would be lost with the broker: agents send again all else."""
        known = cast(dict[bytes, bytes], self.broker.client.hgetall(self.broker.keys.programs))
        if self._programs and not known:
            programs = cast(dict[Any, Any], self._programs)
            self.broker.client.hset(self.broker.keys.programs, mapping=programs)
        if known and known != self._programs:
            # For services that go on when these have died: findings are kept under these numbers.
            with suppress(OSError):
                numbers = {name.decode(): int(number) for name, number in known.items()}
                write_atomically(self.run.programs_path, msgspec.json.encode(numbers))
        self._programs = known or self._programs

    def write_info(self, info: RunInfo) -> None:
        """Note in the run's folder and in its store what became of the run."""
        self._info = info
        self.run.write_info(info)
        engine = open_for_writing(self._store_url)
        Writer(engine, info.id).write_run(info)
        close(engine)

    def finish(self) -> None:
        """Let server and writer finish their work; the agents have ended by then."""
        if self._learning.is_empty:
            return
        self._learning.stop(SERVICE_STOP_S)
        for line in self._news():
            say(line)
        with self._mishaps.survived(f"{self.run.path}: cannot be looked into any more"):
            if shutil.disk_usage(self.run.path).free < FULL_DISK_BYTES:
                self._problems.append(f"the disk of {self.run.path} is full: make room there")
        if self._is_store_elsewhere:
            with self._mishaps.survived(f"what was found is still in {self._scratch}"):
                self._bring_store_home()

    def hasten(self, is_interrupted: bool) -> None:
        """The run may be killed soon: what was found until now goes where other nodes see it.

        Parameters
        ----------
        is_interrupted
            Whether its program ran when it was asked to end.
        """
        if is_interrupted:
            with suppress(OSError):
                self.run.interrupted_path.touch(mode=0o600)
        self._learning.warn()

    def _bring_store_home(self) -> None:
        """SQLite's log does not work on a network file system: the store was on local disk until now."""
        bring_store_home(self.run, self._scratch)
        self._is_store_elsewhere = False
        self._store_url = self.run.store_url
        self.write_info(msgspec.structs.replace(self._info, store_url=self._store_url))

    def stop(self) -> None:
        """Stop everything that is left. Nothing is raised, so that all of it is."""
        with self._mishaps.survived("the services could not be ended in order"):
            self.finish()
        if self._dashboard is not None:
            self._dashboard.stop(SERVICE_STOP_S)
        with self._mishaps.survived("the broker could not be ended in order"):
            self._leave_broker()
        if not (self._is_store_elsewhere or self._is_to_be_tried_again):
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._note.remove()
            for folder in self._rescued:
                forget(self.run, folder)
        self._claim.close()

    def _leave_statistics(self) -> None:
        """What is known goes with what was learned and is not delivered yet."""
        self.run.statistics_path.unlink(missing_ok=True)
        if agents_at_work(self.run) and self._state_path.exists():
            with self._mishaps.survived(f"{self.run.statistics_path}: cannot be written"):
                write_atomically(self.run.statistics_path, self._state_path.read_bytes())

    @property
    def _is_to_be_tried_again(self) -> bool:
        """Whether a run that was to go on did not: it is left as it was found."""
        return self.options.is_resumed and not self._is_ready

    def _start(self) -> None:
        info = self._info
        self._fetch_copies()
        self.write_info(info)
        for folder in self._rescued:
            deliver_spools(folder, info, self._store_url)
            merge_left(folder, info, self._state_path)
        if self._is_store_elsewhere:
            self._note.write()
        if not self.broker_url:
            self._private_broker = PrivateBroker(self.run.logs / "broker.log", *self.options.bind)
            self._private_broker.start()
            self.broker_url = self._private_broker.url
        self._broker = RunBroker.connect(self.broker_url, info.id)
        # A full disk takes 'chimbuko recall' and the like this, and not the user the run.
        with suppress(OSError):
            self.run.write_broker_url(self.broker_url)
        for program in (*self._numbered_programs(), *self.options.programs):
            self.broker.program_number(program)
        secret = {BROKER_VARIABLE: self.broker_url}
        alerts = self.options.choices.alerts
        self._learning.add(
            self._service(
                "pserver", "chimbuko.pserver", self._learning_arguments(), secret | self._metrics_secret()
            ),
            can_go_on=True,
        )
        self._learning.add(
            self._service(
                "provenance",
                "chimbuko.provenance.write",
                self._storing_arguments(),
                secret | {STORE_VARIABLE: self._store_url} | (alerts.hooks if alerts else {}),
            ),
            can_go_on=True,
        )
        if self.options.has_dashboard:
            choices = self.options.choices
            self._dashboard = Dashboard(
                self.run,
                self.broker_url,
                choices.port,
                choices.front,
                choices.dashboard_processes,
                self._problems,
            )
            self._write_dashboard()

    def _numbered_programs(self) -> list[str]:
        """Of a run that goes on after its services have died: the programs that it had, by number."""
        numbers = self.run.read_programs()
        return sorted(numbers, key=lambda name: numbers[name])

    def _fetch_copies(self) -> None:
        """Begin with what services that died on another node have left of store and statistics."""
        store = self._scratch / self.run.store_path.name
        for copy, place in ((self.run.store_path, store), (self.run.statistics_path, self._state_path)):
            if self._is_store_elsewhere and not place.exists() and copy.exists():
                at = time.strftime("%H:%M:%S", time.localtime(copy.stat().st_mtime))
                self._problems.append(f"{copy.name} goes on from its copy of {at}; what came later is lost")
                shutil.copyfile(copy, place)

    @property
    def _state_path(self) -> Path:
        """Where the parameter server saves what it knows."""
        return self._scratch / self.run.statistics_path.name

    def _service(self, name: str, module: str, arguments: list[str], secret: dict[str, str]) -> Service:
        return Service(name, module, arguments, secret, self.run.logs, start=fork)

    def _storing_arguments(self) -> list[str]:
        """The arguments of the store's writer."""
        words = ["--run-id", self._info.id]
        if self._has_own_store:
            words += ["--own", str(self.run.path)]
        if self._is_store_elsewhere:
            words += ["--copy", str(self.run.store_path)]
        if self.options.choices.alerts is not None:
            words += ["--alert-us", str(self.options.choices.alerts.least_us)]
        return words

    def _learning_arguments(self) -> list[str]:
        """The arguments of the parameter server."""
        options, config = self.options, self.options.config
        words = ["--run-id", self._info.id, "--lockstep-streams", str(options.lockstep_streams)]
        words += ["--detector", config.detector, "--metric", config.metric]
        words += ["--state", str(self._state_path)]
        if self._is_store_elsewhere:
            words += ["--state-copy", str(self.run.statistics_path)]
        if options.load_model is not None:
            words += ["--load-model", str(options.load_model)]
        if config.is_frozen:
            words.append("--freeze")
        for path in (self.run.model_path, options.save_model):
            if path is not None:
                words += ["--save-model", str(path)]
        words += ["--report", str(self.run.report_path)]
        if options.choices.metrics is not None:
            words += ["--metrics", options.choices.metrics]
        return words

    def _metrics_secret(self) -> dict[str, str]:
        if self.options.choices.metrics is None:
            return {}
        return {TOKEN_VARIABLE: self.run.metrics_token(os.environ.get(TOKEN_VARIABLE))}

    def _leave_broker(self) -> None:
        if not self._is_to_be_tried_again:
            run = self.run
            for path in (run.broker_path, run.alive_path, run.interrupted_path):
                path.unlink(missing_ok=True)
            self._leave_statistics()
        if self._private_broker is not None:
            self._private_broker.stop()
            self._private_broker = None
        elif self._broker is not None and not self._is_to_be_tried_again:
            with suppress(redis.RedisError):
                self._broker.client.delete(*self._broker.keys.all)
