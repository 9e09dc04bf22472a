"""The services of a run whose agents are on other nodes."""

from __future__ import annotations

import math
import os
import platform
import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import redis
from msgspec.structs import replace

from chimbuko.capture.follow.space import MEMORY
from chimbuko.capture.formats.apart import sorted_out
from chimbuko.capture.trace.discovery import Transport
from chimbuko.capture.trace.recordedstreams import note_recorded, recorded_streams
from chimbuko.capture.trace.tausettings import application_settings
from chimbuko.core.calls.record import ENDED
from chimbuko.core.errors import ChimbukoError, ConfigError, ServiceError
from chimbuko.core.files import write_atomically
from chimbuko.core.units import number_of
from chimbuko.launcher.assembly import recorded_at, run_with_store, taken_in
from chimbuko.launcher.baseline import with_baseline
from chimbuko.launcher.closing import Show, close_run
from chimbuko.launcher.kernels import await_kernels
from chimbuko.launcher.liverun import INTERRUPTED_CODE
from chimbuko.launcher.nodescript import node_command
from chimbuko.launcher.options import HostOptions, check_agents
from chimbuko.launcher.outcome.progress import Progress, say
from chimbuko.launcher.outcome.recovery import is_alive_elsewhere, note_failed_start
from chimbuko.launcher.services.choices import ServiceOptions
from chimbuko.launcher.services.dashboard import AddressFile
from chimbuko.launcher.services.services import FrameHealth, Services
from chimbuko.provenance.alerts.sinks import sinks_named
from chimbuko.provenance.manage.lifecycle import INTERRUPTED, RUNNING, state_of
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.process.failures import Failures
from chimbuko.runtime.process.nameholding import is_held
from chimbuko.runtime.process.signals import FROM_OTHERS, heed
from chimbuko.runtime.process.wakeup import Wakeup
from chimbuko.runtime.protocol.brokerplace import listening_place
from chimbuko.runtime.protocol.membership import Membership
from chimbuko.runtime.runs.directory import FAILED, RunDirectory, RunInfo, claim_name
from chimbuko.runtime.runs.scratch import agents_at_work
from chimbuko.runtime.runs.shares import offer_shares, unread_shares

LOOK_PERIOD_S = 0.5
"""Seconds between two looks at the agents, which do not report more often."""
SAME_SIGNAL_S = 1.0


def host(folder: Path, options: HostOptions, show: Show) -> int:
    """Make a run's folder on a file system that all nodes share, and lead the run; exit code.

    Raises
    ------
    ChimbukoError
        The folder cannot be made, or a service does not start.
    """
    listening_place(options.bind)
    await_kernels()
    if options.trace:
        return _host_recorded(folder, options, show)
    config = options.analysis.config
    run = run_with_store(folder, ["chimbuko", "serve", str(folder)], config, *_kept_with(options))
    info = run.read_info()
    run.write_info(msgspec.structs.replace(info, transport=options.transport.value))
    settings = {
        one: application_settings(run.settings, run.trace, config.period_us, os.environ, one)
        for one in (Transport.FILES, Transport.SST)
    }
    # A folder of the node may hold what is left of other runs.
    in_memory = MEMORY / f"chimbuko-{info.id}" if options.transport is Transport.FILES else run.trace
    on_node = (options.streams / info.id if options.streams else in_memory).absolute()
    run.streams_path.write_text(str(on_node))
    run.node_command.write_text(node_command(settings, on_node))
    run.node_command.chmod(0o700)
    _keep(run, options)
    return Host(run, options, is_resumed=False).lead(show)


def _host_recorded(folder: Path, options: HostOptions, show: Show) -> int:
    """Lead a run of recorded traces, which agents of several nodes share, until they have read them."""
    traces = sorted_out(options.trace)
    recorded, problems = recorded_at(traces.streams)
    if not traces.others:
        check_agents(options.agents, recorded)
    config = msgspec.structs.replace(options.analysis.config, lockstep=True)
    words = ["chimbuko", "serve", str(folder), *(f"--trace={pattern}" for pattern in options.trace)]
    run = run_with_store(folder, words, config, *_kept_with(options))
    if traces.others:
        recorded += taken_in(run, traces.others, options.agents, config.period_us, problems)
    note_recorded(run, recorded)
    offer_shares(run, options.agents)
    run.write_info(msgspec.structs.replace(run.read_info(), transport=Transport.RECORDED.value))
    options = replace(options, analysis=replace(options.analysis, config=config))
    _keep(run, options)
    return Host(run, options, is_resumed=False, problems=problems).lead(show)


def _kept_with(options: HostOptions) -> tuple[str | None, Sequence[str]]:
    return options.services.store, options.analysis.labels


def resume(folder: Path, bind: str | None, show: Show) -> int:
    """Go on with a run whose services have died, or could not start, here or on another node; exit code.

    Parameters
    ----------
    bind
        What the broker listens on now; None for the same as before.

    Raises
    ------
    ChimbukoError
        The run has ended, or its services live, or one does not start; or they never did, and the broker
        was somebody else's, whose address is not kept.
    """
    run = RunDirectory(folder.absolute())
    info = run.read_info()
    if info.state not in (RUNNING, FAILED) or not run.host_options.exists():
        raise ConfigError(
            f"{folder}: no run of 'chimbuko serve' that could go on; its state is {info.state!r}"
        )
    options = _kept(run, info)
    if bind is not None:
        options = replace(options, bind=bind)
    listening_place(options.bind)
    _check_dead(run, info)
    await_kernels()
    _keep(run, options)
    run.interrupted_path.unlink(missing_ok=True)
    run.write_info(msgspec.structs.replace(info, host=platform.node(), state=RUNNING, ended_us=0))
    return Host(run, options, is_resumed=info.state == RUNNING).lead(show)


def _keep(run: RunDirectory, options: HostOptions) -> None:
    """Note how the services were started; secrets stay where they were."""
    alerts = options.services.alerts
    without = replace(options.services, store=None, broker=None, alerts=alerts and replace(alerts, sinks={}))
    analysis = replace(
        options.analysis,
        load_model=options.analysis.load_model and options.analysis.load_model.absolute(),
        save_model=options.analysis.save_model and options.analysis.save_model.absolute(),
    )
    kept = replace(options, services=without, analysis=analysis)
    has_own_broker = options.services.broker is None
    write_atomically(run.host_options, msgspec.json.encode((kept, has_own_broker), enc_hook=str))


def _kept(run: RunDirectory, info: RunInfo) -> HostOptions:
    """Read how the services of a run that has died were started, with the secrets that this process has."""
    options, has_own_broker = msgspec.json.decode(
        run.host_options.read_bytes(),
        type=tuple[HostOptions, bool],
        dec_hook=lambda kind, text: kind(text),
    )
    services = options.services
    if not has_own_broker and info.state == FAILED:
        raise ConfigError(f"{run.path}: its services never started; serve a new folder, again with --broker")
    if not has_own_broker:
        services = replace(services, broker=run.read_broker_url())
    if services.alerts is not None:
        services = replace(services, alerts=replace(services.alerts, sinks=sinks_named(os.environ)))
    return replace(options, services=services, analysis=replace(options.analysis, config=info.config))


def _check_dead(run: RunDirectory, info: RunInfo) -> None:
    """Refuse to replace services that live, which can be seen here, and by signs of life elsewhere."""
    if is_held(claim_name(info.id)):
        raise ConfigError(f"{run.path}: goes on: its services are at work on this node")
    if state_of(run, info) == RUNNING and is_alive_elsewhere(run, info):
        raise ConfigError(f"{run.path}: goes on; its services are at work on {info.host}")


class Host:
    """Keeps the services of one run until it is to end and all its agents have ended."""

    def __init__(
        self, run: RunDirectory, options: HostOptions, is_resumed: bool, problems: Sequence[str] = ()
    ) -> None:
        self._run = run
        self._options = options
        self._is_resumed = is_resumed
        self._address = AddressFile(run.dashboard_path)
        self._signals = 0
        self._signal_at_s = -math.inf
        self._problems = list(problems)
        self._failures = Failures(self._problems)
        self._has_begun = is_resumed

    def lead(self, show: Show) -> int:
        """Lead the run to its end; exit code: 130 where agents were not waited for."""
        heed(FROM_OTHERS, self._on_signal)
        try:
            return self._lead(show)
        finally:
            if not self._has_begun:
                note_failed_start(self._run)

    def _lead(self, show: Show) -> int:
        problems = self._problems
        with Wakeup() as wakeup, self._begun_services(problems) as services:
            # Those of a run that goes on may take a moment to come back.
            expected = agents_at_work(self._run) if self._is_resumed else []
            membership = Membership(services.broker, expected)
            # A broker that ends meanwhile is brought back once the others are ready.
            with suppress(redis.RedisError):
                membership.look()
            services.wait_ready()
            self._has_begun = True
            try:
                self._announce(services)
                self._wait_for_end(services, membership, wakeup)
            finally:
                self._address.remove()
            services.finish()
            problems += membership.problems
            is_whole = self._is_all_read() and self._signals < 2
            is_interrupted = not is_whole or self._run.interrupted_path.exists()
            state = INTERRUPTED if is_interrupted else "finished"
            is_relabelling, lost = self._options.analysis.relabel, membership.lost
            asked = self._signals
            result = close_run(
                *(self._run, services.place, problems, state, None, is_relabelling),
                is_hasty=lambda: self._signals > asked,
                lost_agents=lost,
            )
            show(result)
        return result.store_code if is_whole else INTERRUPTED_CODE

    def _begun_services(self, problems: list[str]) -> Services:
        return Services(self._run, with_baseline(self._run, self._services(), problems), problems)

    def _services(self) -> ServiceOptions:
        choices, analysis = self._options.services, self._options.analysis
        recorded = recorded_streams(self._run) if self._options.trace else []
        return ServiceOptions(
            config=analysis.config,
            lockstep_streams=len(recorded),
            programs=tuple(sorted({stream.program for stream in recorded})),
            bind=listening_place(self._options.bind),
            has_dashboard=choices.dashboard is not False,
            choices=choices,
            load_model=analysis.load_model,
            is_of_series=analysis.is_of_series and not recorded,
            save_model=analysis.save_model,
            is_separate=True,
            is_resumed=self._is_resumed,
        )

    def _announce(self, services: Services) -> None:
        """Say that the job can begin, without secrets, as others can often read a job script's output."""
        if not self._run.broker_path.exists():
            raise ServiceError(f"{self._run.broker_path}: cannot be written, so no agent can join")
        self._keep_address(services)
        if services.dashboard_url:
            say(f"the dashboard's address is in {self._run.dashboard_path}")
            if self._options.services.is_opened and (reason := self._address.open()):
                say(f"--open: {reason}")
        if services.metrics_url:
            say(f"metrics: {services.metrics_url} (its token: {services.run.metrics_token_path})")
        address, _ = listening_place(self._options.bind)
        is_local = not self._options.services.broker and address.startswith("127.")
        who = "agents of this node" if is_local else "agents"
        if self._options.trace:
            who = number_of(self._options.agents, who)
        say(f"services are ready; {who} join with: chimbuko agent {shlex.quote(str(self._run.path))}")

    def _wait_for_end(self, services: Services, membership: Membership, wakeup: Wakeup) -> None:
        with Progress(FrameHealth(services.broker)) as progress:
            while not membership.is_over and self._signals < 2:
                if self._signals and not membership.is_urgent:
                    membership.is_urgent = membership.is_ending = True
                    services.hasten(self._is_program_running())
                self._look(progress, services, membership)
                wakeup.wait(LOOK_PERIOD_S, services.visitors)

    def _look(self, progress: Progress, services: Services, membership: Membership) -> None:
        """See once that all goes on; what fails is tried again at the next look."""
        with self._failures.survived("the services cannot be looked after"):
            progress.show()
            lines = services.look_after()
            self._keep_address(services)
            # A broker that is away comes back, or 'look_after' brings it back.
            with suppress(redis.RedisError):
                lines += membership.look()
            # Others wait for the streams of an agent that is lost, and cannot have them.
            if self._options.trace and (membership.lost or not unread_shares(self._run)):
                membership.is_ending = True
            for line in lines:
                progress.say(line)

    def _keep_address(self, services: Services) -> None:
        with self._failures.survived("the dashboard's address cannot be kept"):
            self._address.keep(services.dashboard_url)

    def _is_all_read(self) -> bool:
        """Whether nothing of a recorded trace is left; what is, is a problem."""
        unread = unread_shares(self._run)
        if unread:
            self._problems.append(
                f"of {number_of(self._options.agents, 'shares')} of the trace {len(unread)} are not read to "
                f"the end ({', '.join(sorted(set(unread)))}); analyse it again, in another folder"
            )
        return not unread

    def _is_program_running(self) -> bool:
        """Whether a stream is still open, or none has begun; it may have been ended a moment before."""
        try:
            with open_run(self._run) as provenance:
                streams = provenance.health()
        except ChimbukoError:
            return True
        return not streams or any(stream.state != ENDED for stream in streams)

    def _on_signal(self, signum: int, frame: object) -> None:
        now_s = time.monotonic()
        # Of a scheduler that ends the job it may come twice, also by way of whoever started us.
        if now_s - self._signal_at_s >= SAME_SIGNAL_S:
            self._signals, self._signal_at_s = self._signals + 1, now_s
