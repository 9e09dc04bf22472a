"""Analysis of a recorded trace: streams are read, what they learn is merged, what they find is stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from chimbuko.ad.agent.agenttelemetry import Loads, cpu_s, memory_bytes
from chimbuko.ad.handoff.spool import SpoolFrame
from chimbuko.core.arrays import RankKey
from chimbuko.core.calls.record import READING, CounterStatistics, StepCount, StreamHealth
from chimbuko.core.statistics.schema import PackedTable
from chimbuko.launcher.offline.lockstep import Lockstep
from chimbuko.launcher.offline.lockstepstream import EpochClosed
from chimbuko.launcher.offline.readers import Readers
from chimbuko.launcher.offline.shelf import Shelf
from chimbuko.provenance.explain.traceanswers import Answers
from chimbuko.provenance.write.inquiries import asked_by
from chimbuko.pserver.state.modelversions import Published
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.messages import RecordBatch, WaitsRequest
from chimbuko.runtime.protocol.telemetry import AgentFigures, StreamCounters

PART = 0
"""Index of the only part of the parameter server."""


class Merging:
    """Exchange of statistics between streams in lockstep and the parameter server's state.

    Parameters
    ----------
    state
        State of a server that has begun, in lockstep.
    programs
        Names of programs by number.
    """

    def __init__(self, state: ServerState, lockstep: Lockstep, programs: Mapping[int, str]) -> None:
        self._state = state
        self._lockstep = lockstep
        self._rows: dict[int, PackedTable] = {}
        """Rows of the model as they were published last, by the server's numbers."""
        self._follow(state.whole())
        state.name_programs(programs)

    def merge(self) -> None:
        """Merge the epoch that all streams have closed: their model is there then."""
        is_merged = self._state.apply(self._lockstep.delta())
        published = self._state.publish(time.monotonic())
        assert is_merged and published is not None, "an epoch is merged once, and in order"
        self._follow(published)

    def finish(self) -> None:
        """Merge what is left when all streams are over."""
        delta = self._lockstep.last_delta()
        if delta is not None:
            self._state.apply(delta)

    def _follow(self, published: Published) -> None:
        model, update = self._lockstep.statistics.model, published.update
        self._rows |= dict(published.rows)
        if model.is_of_another_server(PART, update) or update.functions > model.known_functions(PART):
            model.learn_functions(PART, update.server, published.names)
        wanted = {number: self._rows.get(number) for number in model.wanted(PART, [update])}
        model.apply(PART, [update], wanted)


LOOK_S = 1.0
"""Time between two reports of the progress, in seconds."""
STORE_S = 20.0
"""Time between two times at which statistics are stored, in seconds: only the latest values count, and each
time takes as long as the analysis of a million events.
"""
LOAD_S = 10.0
"""Time between two entries of the load, in seconds."""
MOST_QUESTIONS = 3
"""Most rounds of questions about delays at the end: answers may lead to further ones."""


class TraceClock:
    """Clock of the trace: the end of the newest step, in seconds.

    What goes by it is the same each time a trace is analysed, and the same as while it was recorded.
    """

    def __init__(self) -> None:
        self._newest_us = 0

    def __call__(self) -> float:
        """Return the time."""
        return self._newest_us / 1e6

    def note(self, steps: Iterable[StepCount]) -> None:
        """Note steps that were analysed."""
        self._newest_us = max([self._newest_us, *(step.end_us for step in steps)])


class OfflineAnalysis:
    """Analysis of a recorded trace from its first step to its last statistics.

    Parameters
    ----------
    show
        Takes the health of streams of which something is new.
    """

    def __init__(
        self,
        state: ServerState,
        lockstep: Lockstep,
        merging: Merging,
        shelf: Shelf,
        clock: TraceClock,
        show: Callable[[Sequence[StreamHealth]], None],
    ) -> None:
        self._clock = clock
        self._state = state
        self._lockstep = lockstep
        self._merging = merging
        self._shelf = shelf
        self._show = show
        self._health: dict[str, StreamHealth] = {}
        self._counters: dict[RankKey, list[CounterStatistics]] = {}
        """Statistics of the counters of streams that are over."""
        self._loads = Loads()
        self._looked_s = self._stored_s = self._loaded_s = time.monotonic()

    def put(self, stream: str, frame: SpoolFrame) -> None:
        """Take what a stream has found."""
        health = frame.health
        self._health[stream] = health
        self._lockstep.note_health(stream, health)
        self._loads.note_step(time.monotonic(), -1)
        if health.state != READING and frame.counter_statistics:
            self._counters[health.program, health.rank] = frame.counter_statistics
        self._shelf.put(stream, frame)

    def run(self, readers: Readers, should_stop: Callable[[], bool]) -> None:
        """Read all streams to their ends, or until asked to stop."""
        self._loads.add(time.monotonic(), cpu_s(readers.pids), [])
        has_stopped = False
        while not self._lockstep.is_over:
            if should_stop() and not has_stopped:
                has_stopped = True
                readers.stop()
            if due := self._lockstep.due():
                closed: EpochClosed
                for closed in readers.advance(due):
                    self._lockstep.take(closed)
                    self._clock.note(closed.steps)
            else:
                self._merging.merge()
                self._shelf.end_epoch()
            self._look(readers.pids)
        # By the model that the streams ended with, as a watchdog judges.
        overdue = self._lockstep.overdue()
        self._merging.merge()
        self._finish(readers.pids, overdue)

    def _look(self, pids: Sequence[int]) -> None:
        """Report how far all is, and store statistics, where it is time for that."""
        now_s = time.monotonic()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        frame = self._state.frame()
        if frame is not None:
            self._show(frame.health)
        if now_s - self._stored_s >= STORE_S:
            self._stored_s = now_s
            self._shelf.store(self._state.statistics())
        if now_s - self._loaded_s >= LOAD_S:
            self._loaded_s = now_s
            self._loads.add(now_s, cpu_s(pids), list(self._health.values()))

    def _finish(self, pids: Sequence[int], overdue: Sequence[RecordBatch]) -> None:
        taken_s = cpu_s(pids)
        self._loads.add(time.monotonic(), taken_s, list(self._health.values()))
        (node,) = {health.node for health in self._health.values()}
        figures = AgentFigures(
            node, 0, memory_bytes(pids), taken_s, spool_bytes=0, lag_s=0.0, loads=self._loads.intervals()
        )
        self._lockstep.statistics.note_figures(figures)
        for (program, rank), counters in sorted(self._counters.items()):
            self._lockstep.statistics.note_counters(StreamCounters(program, rank, counters))
        self._merging.finish()
        frame = self._state.frame(is_last=True)
        if frame is not None:
            self._show(frame.health)
        self._shelf.store()
        self._shelf.write(overdue)
        self._shelf.store(self._state.statistics(is_last=True))


class Questions:
    """Questions about delays, which are answered when all streams are read."""

    def __init__(self) -> None:
        self._asked: list[WaitsRequest] = []

    def ask(self, requests: Sequence[WaitsRequest]) -> None:
        """Note questions."""
        self._asked += requests

    def take(self) -> list[WaitsRequest]:
        """Return the questions since the last call."""
        asked, self._asked = self._asked, []
        return asked


def answer(
    questions: Questions,
    shelf: Shelf,
    look_up: Callable[[Sequence[WaitsRequest]], Answers],
) -> None:
    """Store answers to the questions, and to those that they lead to.

    Parameters
    ----------
    look_up
        Finds answers in the trace.
    """
    for _ in range(MOST_QUESTIONS):
        shelf.explain()
        requests = questions.take()
        answers = look_up(requests)
        shelf.note_asked(asked_by(requests, answers.read))
        if not answers.batches:
            shelf.explain()
            return
        shelf.write(answers.batches)
