"""The services of one run, on one node: broker, parameter server, store's writer, dashboard.

On one node server and writer share a process. Processes get secrets by their environment, not by their
command lines. Order of the end: when the agents have delivered what they have, the server merges it, the
writer stores it, and only then does the broker go.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress

import msgspec
import redis

from chimbuko.core.calls.record import StreamHealth
from chimbuko.launcher.outcome.progress import say
from chimbuko.launcher.services import together
from chimbuko.launcher.services.brokerkeeper import BrokerKeeper
from chimbuko.launcher.services.choices import ServiceOptions
from chimbuko.launcher.services.dashboard import Dashboard
from chimbuko.launcher.services.storeplace import StorePlace
from chimbuko.observe.namespaces.exchange.keys import PLACE_VARIABLE
from chimbuko.runtime.process.failures import Failures
from chimbuko.runtime.process.nameholding import hold
from chimbuko.runtime.process.service import Service
from chimbuko.runtime.process.starting import fork
from chimbuko.runtime.process.supervisor import ServiceGroup
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE, TOKEN_VARIABLE, metrics_of_part
from chimbuko.runtime.protocol.messages import Frame
from chimbuko.runtime.protocol.runbroker import Entries, RunBroker
from chimbuko.runtime.runs.directory import RunDirectory, RunInfo, claim_name, kept_token
from chimbuko.runtime.runs.namedstores import STORE_VARIABLE

MOST_FRAMES = 100
_frames = msgspec.msgpack.Decoder(Frame)


class FrameHealth:
    """Health of streams out of the server's frames."""

    def __init__(self, broker: RunBroker) -> None:
        self._broker = broker
        self._read_to = b"0"

    def __call__(self) -> Sequence[StreamHealth] | None:
        """Return what is new since the last call; None if there was no frame."""
        entries: Entries = []
        with suppress(redis.RedisError):
            entries = self._broker.read(self._broker.keys.frames, self._read_to, MOST_FRAMES)
        self._read_to = entries[-1][0] if entries else self._read_to
        frames = self._broker.seal.decoded(entries, _frames)
        return [stream for frame in frames for stream in frame.health] if entries else None


class _Job(msgspec.Struct, frozen=True):
    """Job of a service: one loop, with its command line."""

    name: str
    module: str
    words: list[str]
    secrets: dict[str, str]
    """Variables of its environment, which no command line shows."""


def _started(run: RunDirectory, job: _Job) -> Service:
    return Service(job.name, job.module, job.words, job.secrets, run.logs, start=fork)


def _joined(first: _Job, second: _Job) -> _Job:
    """Return the job of a process that does both."""
    words = [first.module, second.module, *first.words, together.NEXT, *second.words]
    return _Job("services", together.__name__, words, first.secrets | second.secrets)


def _part_of_server(
    run: RunDirectory, options: ServiceOptions, place: StorePlace, broker_url: str, part: int
) -> _Job:
    config, metrics = options.config, options.choices.metrics
    words = ["--run-id", place.info.id, "--lockstep-streams", str(options.lockstep_streams)]
    words += ["--part", str(part), "--parts", str(config.server_parts)]
    words += ["--detector", config.detector, "--metric", config.metric]
    words += ["--state", str(place.state_paths[part])]
    if place.is_elsewhere:
        words += ["--state-copy", str(place.shared_state_paths[part])]
    if options.load_model is not None:
        words += ["--load-model", str(options.load_model)]
    if config.is_frozen:
        words.append("--freeze")
    models, report = [run.model_path, options.save_model], run.report_path
    if config.server_parts > 1:
        model, report = place.learned_paths(part)
        models = [model]
    for path in models:
        if path is not None:
            words += ["--save-model", str(path)]
    words += ["--report", str(report)]
    secrets = {BROKER_VARIABLE: broker_url}
    if metrics is not None:
        words += ["--metrics", metrics_of_part(metrics, part)]
        secrets[TOKEN_VARIABLE] = kept_token(run.metrics_token_path, os.environ.get(TOKEN_VARIABLE))
    return _Job(f"pserver-{part}" if part else "pserver", "chimbuko.pserver", words, secrets)


def _leaf_servers(options: ServiceOptions, place: StorePlace, broker_url: str) -> list[_Job]:
    """Return the jobs of the leaf servers; streams in lockstep have none."""
    config = options.config
    words = ["--run-id", place.info.id, "--detector", config.detector, "--parts", str(config.server_parts)]
    jobs = []
    for leaf in range(1, 1 + (0 if config.lockstep else config.leaf_servers)):
        own = [*words, "--leaf", str(leaf), "--leaves", str(config.leaf_servers)]
        for path in place.leaf_names_paths(leaf):
            own += ["--names", str(path)]
        jobs.append(_Job(f"leaf-{leaf}", "chimbuko.pserver", own, {BROKER_VARIABLE: broker_url}))
    return jobs


def _metric_watch(run: RunDirectory, options: ServiceOptions, place: StorePlace, broker_url: str) -> _Job:
    """Return the job of watching quantities that programs publish."""
    words = ["--run-id", place.info.id, "--since-us", str(place.info.started_us)]
    words += ["--views", str(run.observed_path), "--parts", str(options.config.server_parts)]
    secrets = {BROKER_VARIABLE: broker_url, PLACE_VARIABLE: options.choices.namespaces or ""}
    return _Job("metricwatch", "chimbuko.observe.namespaces.service.watching", words, secrets)


def _store_writer(
    run: RunDirectory, options: ServiceOptions, place: StorePlace, broker_url: str, writer: int = 0
) -> _Job:
    """Return the job of the store's writer, which also alerts people, or of one of several, from 1 on."""
    alerts = options.choices.alerts
    words = ["--run-id", place.info.id]
    words += ["--writers", str(options.config.store_writers), "--writer", str(writer)]
    if place.has_own_store:
        words += ["--own", str(run.path)]
    if place.is_elsewhere and not writer:
        words += ["--copy", str(run.store_path)]
    secrets = {BROKER_VARIABLE: broker_url, STORE_VARIABLE: place.url}
    if alerts is not None:
        words += ["--alert-us", str(alerts.least_us)]
        secrets |= {} if writer else alerts.sinks
    name = f"provenance-{writer}" if writer else "provenance"
    return _Job(name, "chimbuko.provenance.service", words, secrets)


SERVICE_STOP_S = 30.0
ASK_PERIOD_S = 2.0
"""Seconds between two times at which the broker is asked for news: six questions, which take a millisecond.
"""
FULL_DISK_BYTES = 1 << 18


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
        self.metrics_url = ""
        self._problems = problems
        self._failures = Failures(problems)
        self.place = StorePlace(run)
        self._broker_keeper = BrokerKeeper(
            run, self.place.info, options.choices.broker, options.bind, problems
        )
        self._learning = ServiceGroup(problems)
        self._dashboard: Dashboard | None = None
        self._ask_at_s = 0.0
        self._is_ready = False

    def __enter__(self) -> Services:
        self._claim = hold(claim_name(self.info.id))
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def wait_ready(self) -> None:
        """Wait until all services can be used.

        Raises
        ------
        ServiceError
            One did not start.
        """
        ready = self._learning.wait_ready()
        self.metrics_url = " ".join(facts["metrics"] for facts in ready if "metrics" in facts)
        self._is_ready = True

    @property
    def broker(self) -> RunBroker:
        """A connection to the run's broker, from the start of the services on."""
        return self._broker_keeper.broker

    @property
    def broker_url(self) -> str:
        """URL of the broker; of one of our own, from its start on."""
        return self._broker_keeper.url

    @property
    def dashboard_url(self) -> str:
        """Address of the dashboard with its token; empty if there is no dashboard."""
        return self._dashboard.url if self._dashboard else ""

    @property
    def visitors(self) -> list[int]:
        """Descriptors that become readable when somebody wants to see a dashboard that has no process yet."""
        return self._dashboard.visitors if self._dashboard else []

    @property
    def info(self) -> RunInfo:
        """Description of the run, as it was noted last."""
        return self.place.info

    def look_after(self) -> list[str]:
        """Start again what ended on its own and can go on; one line for each thing that went wrong."""
        lines = [
            *self._broker_keeper.revive(self.dashboard_url),
            *self._learning.look_after(),
            *self.look_after_dashboard(),
        ]
        now_s = time.monotonic()
        if now_s >= self._ask_at_s:
            self._ask_at_s = now_s + ASK_PERIOD_S
            self._broker_keeper.keep_up(self.dashboard_url)
            lines += self._broker_keeper.news()
        return lines

    def look_after_dashboard(self) -> list[str]:
        """Start it when somebody wants to see it, and again where it ended on its own."""
        return self._dashboard.look_after() if self._dashboard else []

    def finish(self) -> None:
        """Let server and writer finish their work; the agents have ended by then."""
        if self._learning.is_empty:
            return
        self._learning.stop(SERVICE_STOP_S)
        with self._failures.survived("what the parts of the parameter server have learned is not joined"):
            self.place.join_parts(self.options.save_model)
        for line in self._broker_keeper.news():
            say(line)
        with self._failures.survived(f"{self.run.path}: cannot be looked into any more"):
            if shutil.disk_usage(self.run.path).free < FULL_DISK_BYTES:
                self._problems.append(f"the disk of {self.run.path} is full: make room there")
        if self.place.is_elsewhere:
            with self._failures.survived(f"what was found is still in {self.place.scratch}"):
                self.place.bring_home()

    def hasten(self, is_interrupted: bool) -> None:
        """Put the findings so far where other nodes see them, as the run may be killed soon.

        Parameters
        ----------
        is_interrupted
            Whether its program ran when it was asked to end.
        """
        if is_interrupted:
            with suppress(OSError):
                self.run.interrupted_path.touch(mode=0o600)
        self._learning.warn()

    def stop(self) -> None:
        """Stop everything that is left. Nothing is raised, so that all of it is."""
        with self._failures.survived("the services could not be ended in order"):
            self.finish()
        if self._dashboard is not None:
            self._dashboard.stop(SERVICE_STOP_S)
        with self._failures.survived("the broker could not be ended in order"):
            if not self._is_to_be_tried_again:
                self._leave_folder()
            self._broker_keeper.leave(self._is_to_be_tried_again)
        if not (self.place.is_elsewhere or self._is_to_be_tried_again):
            self.place.clear()
        self._claim.close()

    @property
    def _is_to_be_tried_again(self) -> bool:
        """Whether a run that was to go on did not: it is left as it was found."""
        return self.options.is_resumed and not self._is_ready

    def _start(self) -> None:
        choices = self.options.choices
        self._problems += self.place.open()
        self._broker_keeper.start(self.options.programs)
        run, options, place = self.run, self.options, self.place
        parts = range(options.config.server_parts)
        servers = [_part_of_server(run, options, place, self.broker_url, part) for part in parts]
        writer = _store_writer(run, options, place, self.broker_url)
        if options.are_together:
            self._learning.add(_started(run, _joined(servers[0], writer)), can_go_on=True)
        else:
            # In the order in which they end: leaf servers need the server, the watch publishes the server's
            # last word, and the last writer stores what all say at their end, and explains what the others
            # have stored.
            for server in [*_leaf_servers(options, place, self.broker_url), *servers]:
                self._learning.add(_started(run, server), can_go_on=True)
            if options.choices.namespaces is not None:
                watch = _metric_watch(run, options, place, self.broker_url)
                # It reads what was published before it was there: nobody has to wait for it.
                self._learning.add(_started(run, watch), can_go_on=True, is_starting=True)
            count = options.config.store_writers
            for number in range(1, count + 1) if count > 1 else ():
                one_of_several = _store_writer(run, options, place, self.broker_url, number)
                self._learning.add(_started(run, one_of_several), can_go_on=True)
            self._learning.add(_started(run, writer), can_go_on=True)
        if self.options.has_dashboard:
            self._dashboard = Dashboard(
                run,
                self.broker_url,
                choices.port,
                choices.front,
                choices.dashboard_processes,
                self._problems,
            )
            self._broker_keeper.write_dashboard(self.dashboard_url)

    def _leave_folder(self) -> None:
        """Remove what is in the run's folder only while the run goes on."""
        for path in (self.run.broker_path, self.run.alive_path, self.run.interrupted_path):
            path.unlink(missing_ok=True)
        with self._failures.survived(f"{self.run.path}: statistics cannot be written"):
            self.place.leave_statistics()
