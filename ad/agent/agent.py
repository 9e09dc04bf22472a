"""The agent of one node: reads the streams of its ranks, each in a process of its own.

``Ending`` decides how long the streams of a node are waited for when their run is to end, without a clock and
without I/O.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path

import msgspec
import redis

from chimbuko.ad.agent.agenttelemetry import AgentTelemetry
from chimbuko.ad.agent.intake import Intake
from chimbuko.ad.agent.nodewatch import NodeWatch
from chimbuko.ad.agent.recorderservice import RecorderService, WaitSearch
from chimbuko.ad.agent.spoolshipper import AgentReports, AgentSpools, SpoolShipper
from chimbuko.ad.agent.watchdog import HangWatchdog
from chimbuko.ad.detectors import make_detector
from chimbuko.ad.handoff.processspecs import AgentSpec
from chimbuko.ad.handoff.shortage import ShortageNotices, StreamPart
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.ad.modelsync.modelsync import SECURE_S, ModelSync
from chimbuko.ad.streams.deltalog import LOG_NAME, DeltaLog
from chimbuko.ad.streams.forkserver import ForkServer
from chimbuko.ad.streams.streamhandle import StreamHandle, left_streams
from chimbuko.ad.streams.streamsupervisor import TICK_S, Supervisor
from chimbuko.capture.follow.alarm import Alarm
from chimbuko.capture.follow.presence import Role, announce
from chimbuko.capture.follow.starter import GuardStarter
from chimbuko.capture.trace.discovery import Transport
from chimbuko.core.errors import ServiceError
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.process.signals import StopSignal
from chimbuko.runtime.protocol.rankclaims import newest_end_us
from chimbuko.runtime.protocol.runbroker import RunBroker

END_TIMEOUT_S = 10.0
"""Time in seconds after which streams that give nothing are given up, once the application has ended."""
STARVED_END_S = 120.0
"""Time in seconds after which they are given up where their readers get no core."""


class Ending(msgspec.Struct):
    """Progress of a node's streams since the end was asked for.

    It counts ticks, so that an agent that was stopped itself gives nothing up when it goes on.
    """

    asked_s: float = 0.0
    """Time since the end was asked for, in seconds."""
    quiet_s: float = 0.0
    """Time since the last step, in seconds, without the time that readers waited for a core."""
    starved_s: float = 0.0
    """Time since the last step, in seconds, including the time that readers waited for a core."""
    drained: int = -1
    """Number of steps that had come by then."""

    def tick(self, drained: int, own_s: float, tick_s: float) -> None:
        """Note that a tick has passed.

        Parameters
        ----------
        drained
            Number of steps of all streams that were drained so far.
        own_s
            Time in that tick during which the reader with the least of it could do anything.
        """
        self.asked_s += tick_s
        if drained != self.drained:
            self.drained, self.quiet_s, self.starved_s = drained, 0.0, 0.0
            return
        self.quiet_s += min(own_s, tick_s)
        self.starved_s += tick_s

    @property
    def is_late(self) -> bool:
        """Return whether the time to wait for a program that goes on is over."""
        return self.asked_s > END_TIMEOUT_S

    @property
    def is_over(self) -> bool:
        """Return whether nothing is to be expected of streams that are still open."""
        return self.quiet_s > END_TIMEOUT_S or self.starved_s > STARVED_END_S


RETRY_S = 0.2
GUARD_TICKS = 4
DELIVERY_TIMEOUT_S = 20.0
"""Time in seconds after which the agent, at its end, gives up the delivery of its spools while nothing gets
through.
"""


class Agent:
    """One agent, from the first stream to the delivery of the last finding.

    Parameters
    ----------
    broker
        Connection for the delivery, in a thread.
    claims
        Another connection, for the streams that the agent finds, and for their ends.
    """

    def __init__(self, spec: AgentSpec, broker: RunBroker, claims: RunBroker, forks: ForkServer) -> None:
        self._spec = spec
        self._broker = broker
        self._claims = claims
        self._schema = make_detector(spec.config).schema
        self._streams: list[StreamHandle] = []
        self._is_live = bool(spec.live_folder)
        statistics = AgentStatistics(spec.agent, time.time_ns(), self._schema, spec.config.server_parts)
        reports = Path(spec.scratch) / "reports"
        self._notifier = forks.notifier
        self._watch = HangWatchdog(
            spec.agent, reports, self._streams, statistics, self._notifier, spec.config
        )
        period_s, lockstep = spec.config.period_us / 1e6, spec.config.lockstep
        self._delta_log = delta_log = DeltaLog(Path(spec.scratch) / LOG_NAME)
        self._statistics = ModelSync(
            broker, statistics, self._streams, self._notifier, delta_log, period_s, lockstep
        )
        view = AgentTelemetry(spec.node, forks.pid, statistics, self._streams)
        self._news = ShortageNotices(broker, Path(spec.scratch).parents[1], spec.node)
        is_sampled = self._is_live and spec.config.node_samples
        sampled = spec.node, broker, spec.index == 0, spec.live_folder, Path(spec.scratch)
        self._node = NodeWatch(*sampled) if is_sampled else None
        self._link = SpoolShipper(
            broker,
            self._statistics,
            AgentSpools(self._streams, self._watch.delivery),
            AgentReports(view, self._news, self._node),
            None if lockstep else self._notifier,
        )
        self._recorders = RecorderService(broker, self._streams)
        self._waits = WaitSearch(spec.agent, broker, self._streams)
        self._forks = forks
        intake = Intake(spec, claims, self._streams, self._statistics, self._news)
        self._supervisor = Supervisor(self._forks, self._streams, intake.new_streams)
        self._is_ending = threading.Event()
        """Set when the run is to end; this node may be gone soon."""
        self._is_closing = threading.Event()
        """Set when all streams are over."""
        self._guard = GuardStarter(spec.guard) if spec.guard else None
        # The process that started this agent has just checked the guard.
        self._guard_ticks = GUARD_TICKS
        if spec.guard:
            # Where there is no room for the registration, the guard does not know of it.
            with suppress(OSError):
                announce(spec.guard.folder, spec.agent, Role.AGENT)
                # Stopped, it could neither notice that a reader has ended nor bring another one.
                announce(spec.guard.folder, f"{spec.agent}-forks", Role.AGENT, forks.pid)

    def run(self, should_stop: StopSignal) -> None:
        """Read all streams to their end; live, look for new ones until asked to stop."""
        link = threading.Thread(target=self._serve_link, name="broker link", daemon=True)
        link.start()
        folder = Path(self._spec.live_folder) if self._is_live else None
        alarm = Alarm(folder, TICK_S, (self._forks.reports,))
        ending, next_tick_s = Ending(), 0.0
        while True:
            # This comes before the look for new streams: streams that are not there then will not come.
            is_stopping = should_stop()
            if is_stopping:
                self._is_ending.set()
            if time.monotonic() < next_tick_s:
                self._supervisor.attend(is_stopping)
            else:
                next_tick_s = time.monotonic() + TICK_S
                self._tick(is_stopping)
                if is_stopping:
                    ending.tick(self._supervisor.drained, self._supervisor.own_s, TICK_S)
            is_over = all(stream.is_over for stream in self._streams)
            if is_over and (is_stopping or not self._is_live):
                break
            if ending.is_late:
                self._leave_open_streams()
            if ending.is_over or (is_stopping and not self._is_live):
                self._give_up_open_streams()
            alarm.wait(max(next_tick_s - time.monotonic(), 0.0))
        alarm.close()
        if not self._is_live:
            self._watch.look_back(self._newest_end_us(should_stop))
        self._forks.close()
        for stream in self._streams:
            stream.look_for_census()
        self._streams += self._orphans()
        if lost := self._watch.lost_reports():
            self._news.lost_reports(lost)
        self._is_closing.set()
        self._notifier.notify()
        self._await_delivery(link)

    def _newest_end_us(self, should_stop: StopSignal) -> int:
        """Return the time of the newest event of all recorded streams; other agents are waited for until the
        run is to end.
        """
        newest_us = self._watch.newest_us
        if self._spec.count == 1:
            return newest_us
        while not should_stop():
            with suppress(redis.RedisError):
                found = newest_end_us(self._claims, self._spec.index, self._spec.count, newest_us)
                if found is not None:
                    return found
            time.sleep(RETRY_S)
        return newest_us

    def _tick(self, is_stopping: bool) -> None:
        self._supervisor.tick(is_stopping)
        self._keep_guard()
        if self._is_live:
            self._watch.tick()

    def _keep_guard(self) -> None:
        """Check once a second that the guard of the streams lives; the guard watches this agent."""
        self._guard_ticks -= 1
        if self._guard is not None and self._guard_ticks < 0:
            self._guard_ticks = GUARD_TICKS
            with suppress(OSError):
                self._guard.ensure()

    def _await_delivery(self, link: threading.Thread) -> None:
        """Wait for the link to the broker as long as it makes progress."""
        delivered, waited_s = -1, 0.0
        while link.is_alive() and waited_s < DELIVERY_TIMEOUT_S:
            link.join(TICK_S)
            waited_s += TICK_S
            if self._link.delivered != delivered:
                delivered, waited_s = self._link.delivered, 0.0
        if link.is_alive() and not self._link.is_settled:
            raise ServiceError(f"not all findings could be delivered; the rest is in {self._spec.scratch}")

    def _leave_open_streams(self) -> None:
        """Leave the open streams of programs that go on after the run. Of files all that is there is read."""
        for stream in self._streams:
            if not stream.is_over and stream.transport is Transport.SST:
                self._supervisor.leave(stream)

    def _give_up_open_streams(self) -> None:
        for stream in self._streams:
            if not stream.is_over and stream.pid:
                self._supervisor.give_up(stream)

    def _orphans(self) -> list[StreamHandle]:
        """Return the streams of a predecessor that had ended before this agent began: their findings wait."""
        spec = self._spec
        known = {stream.folder for stream in self._streams}
        orphans = left_streams(Path(spec.scratch), spec.node, spec.config, known)
        for stream in orphans:
            self._statistics.let_inherit(stream)
            stream.give_up()
        return orphans

    def _serve_link(self) -> None:
        """Keep the link; where that fails, end the agent as if it was killed: another one goes on from what
        is saved, while this one would read on, and nothing that it found would ever arrive.
        """
        try:
            self._keep_linked()
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def _keep_linked(self) -> None:
        """Exchange with the broker until everything is delivered."""
        is_away = False
        while True:
            try:
                if is_away:
                    self._await_broker()
                    self._link.broker_was_away()
                    is_away = False
                if self._is_closing.is_set():
                    self._link.flush()
                if self._delta_log.is_failing:
                    self._news.without(StreamPart.JOURNAL, self._spec.agent)
                self._link.exchange_once()
                self._recorders.serve()
                self._waits.serve()
                if self._link.is_settled:
                    self._waits.finish()
                    if self._node is not None:
                        # The last calls have samples, too.
                        self._node.close()
                        self._node.send()
                    return
                if not self._recorders.is_busy:
                    self._link.wait()
            except redis.RedisError as error:
                if not is_away:
                    log(f"broker does not answer ({error}); trying again")
                is_away = True

    def _await_broker(self) -> None:
        """Wait until the broker answers. Once the run is to end, what is learned meanwhile is kept in
        files.
        """
        has_answered = threading.Event()

        def ask() -> None:
            # One question may take five seconds.
            while not has_answered.wait(RETRY_S):
                with suppress(redis.RedisError):
                    self._broker.client.ping()
                    has_answered.set()

        threading.Thread(target=ask, name="broker's return", daemon=True).start()
        while not has_answered.wait(SECURE_S):
            if self._is_ending.is_set():
                self._statistics.secure()
