"""Watchdog of the agent over ranks that hang: it reports overdue calls, and which streams are silent.

A hung rank completes no call and its stream gives no step, so neither the detectors, which judge completed
calls, nor the process that reads the stream can notice.

``find_overdue`` decides, without I/O, which calls are open far beyond what is known of their functions.
``pack_report`` makes the record of such a call while it is open.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from chimbuko.ad.calls.reportedcalls import REPORT, Reports
from chimbuko.ad.detectors import make_detector
from chimbuko.ad.handoff.exchange import Cell, Phase
from chimbuko.ad.handoff.notifiers import AgentNotifier
from chimbuko.ad.handoff.opencalls import OpenCalls
from chimbuko.ad.handoff.spool import SpoolDelivery, SpoolFrame, SpoolWriter
from chimbuko.ad.kernels.stack import UNCERTAIN, UNKNOWN
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.core.arrays import Float64Array, Rows
from chimbuko.core.calls.functionnames import function_matcher
from chimbuko.core.calls.record import Silence, StreamHealth, severity_us
from chimbuko.core.calls.recordarrays import HEAD, MEMBER, NO_CALL, UNKNOWN_THREAD, PackedRecords
from chimbuko.core.config import DETECTORS, AnalysisConfig
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.core.traceschema import StreamNames

LEAST_CALLS = 10
"""Number of completed calls below which a function counts as unknown; ``main`` never has as many."""
TIMES_LONGEST = 5.0
"""Factor by which a call is longer than the longest before it when it is overdue. Of log-normal runtimes with
σ = 1, as uneven as functions get, one in 350 is five times as long as the longest of ten before it, and
one in 600,000 as the longest of 1,000.
"""
LEAST_US = 5e6
"""Minimum time in µs for which an overdue call is open: nobody acts upon a shorter wait, and the next step
may simply be late.
"""
BLIND_PERIODS = 10
"""Number of periods that a call usually takes, from which on it counts as open when the rank falls silent.

TAU publishes nothing of the calls of up to one period before; a call that usually takes this many periods
was, nine times in ten, not ended by then.
"""


@dataclass(frozen=True)
class History:
    """Statistics of the inclusive runtimes of the open calls' functions, in µs, float64[calls] each."""

    seen: Float64Array
    mean_us: Float64Array
    spread_us: Float64Array
    longest_us: Float64Array

    @property
    def limit_us(self) -> Float64Array:
        """Runtime beyond which each call is overdue, in µs; infinite where too little is known."""
        limit_us = np.maximum(TIMES_LONGEST * self.longest_us, LEAST_US)
        return np.where(self.seen >= LEAST_CALLS, limit_us, np.inf)


def elapsed_us(
    opened: OpenCalls, history: History, silence_us: float, period_us: float, is_prompt: bool
) -> Float64Array:
    """Return for how long each open call is known, or very likely, to have been open, in µs, float64[calls].

    Parameters
    ----------
    silence_us
        Time since the stream gave its last step.
    period_us
        Usual time between two steps.
    is_prompt
        Whether the stream reports every event within a period, as our tracer's does. TAU's steps end only
        where a function other than MPI's returns on the main thread: the calls that were open at the last one
        may long have ended, unless they are slow ones.
    """
    known_us = opened.newest_us - opened.calls["entry_us"].astype(np.float64)
    is_open_still = is_prompt | (history.mean_us >= BLIND_PERIODS * period_us)
    elapsed: Float64Array = np.maximum(known_us + np.where(is_open_still, silence_us, 0.0), 0.0)
    return elapsed


def find_overdue(opened: OpenCalls, history: History, elapsed: Float64Array) -> npt.NDArray[np.intp]:
    """Return the indices of the overdue calls; where callers of an overdue call are overdue too, it stands
    for them.
    """
    calls = opened.calls
    is_trusted = calls["doubts"] & (UNKNOWN | UNCERTAIN) == 0
    overdue: npt.NDArray[np.intp] = np.flatnonzero(is_trusted & (elapsed > history.limit_us))
    # Threads are contiguous, with their innermost call last.
    threads = calls["thread"][overdue]
    is_innermost = np.ones(len(overdue), np.bool_)
    is_innermost[:-1] = threads[1:] != threads[:-1]
    return overdue[is_innermost]


def next_us(opened: OpenCalls, history: History, silence_us: float) -> float:
    """Return the trace time before which no call will be overdue, where none of these is, calls that begin
    later included.

    That holds as far as the history stays as it is: a function of which too little is known may have an
    overdue call five seconds later.
    """
    earliest_us = (opened.calls["entry_us"] + history.limit_us).min(initial=np.inf)
    return float(min(earliest_us, opened.newest_us + silence_us + LEAST_US))


def report_of(opened: OpenCalls, call: int, history: History, score: float) -> Reports:
    """Return what the stream's process has to know of the reported call with index ``call``, as REPORT[1]."""
    report = np.zeros(1, REPORT)
    report["step"], report["row"] = opened.calls["step"][call], opened.calls["row"][call]
    report["score"] = score
    report["limit_us"] = history.limit_us[call]
    report["expected_us"] = history.mean_us[call]
    report["spread_us"] = history.spread_us[call]
    report["seen"] = history.seen[call]
    return report


def pack_report(
    opened: OpenCalls,
    call: int,
    report: Reports,
    elapsed_us: Float64Array,
    model_version: int,
    names: StreamNames,
) -> PackedRecords:
    """Return the record of one overdue call as it is now.

    The call has no end; its step ends now; its window is the calls that are open inside it.

    Parameters
    ----------
    call
        Index of the call.
    report
        Result of ``report_of``.
    elapsed_us
        Time for which each call has been open, float64[calls].
    names
        Names of the stream.
    """
    calls = opened.calls
    on_thread = np.flatnonzero(calls["thread"] == calls["thread"][call])
    stack, inside = on_thread[on_thread <= call][::-1], on_thread[on_thread >= call]
    head = np.zeros(1, HEAD)
    for name in ("entry_us", "function", "thread", "depth", "children"):
        head[name] = calls[name][call]
    in_children_us = calls["child_us"][call] + (elapsed_us[inside[1]] if len(inside) > 1 else 0.0)
    head["exclusive_us"] = max(elapsed_us[call] - in_children_us, 0.0)
    head["step_start_us"] = opened.start_us
    head["step_end_us"] = calls["entry_us"][call] + np.uint64(elapsed_us[call])
    for name in ("score", "expected_us", "spread_us", "seen"):
        head[name] = report[name]
    head["inclusive_us"] = elapsed_us[call]
    head["severity_us"] = severity_us(elapsed_us[[call]], report["expected_us"])
    head["model_version"] = model_version
    head["begin_step"], head["begin_row"] = calls["step"][call], calls["row"][call]
    head["step"] = opened.step
    head["messages_count"] = calls["messages"][call]
    head["launch_step"] = head["launch_row"] = NO_CALL
    head["launch_thread"] = UNKNOWN_THREAD
    head["frames"], head["members"] = len(stack), len(inside)
    head["is_anomaly"] = 1
    return PackedRecords(
        heads=head.tobytes(),
        frames=_members(opened, stack).tobytes(),
        members=_members(opened, inside).tobytes(),
        functions={n: names.timer_name(n) for n in np.unique(calls["function"][on_thread]).tolist()},
    )


def _members(opened: OpenCalls, wanted: npt.NDArray[np.intp]) -> Rows:
    """Return MEMBER rows of open calls, of which the first is the reported one."""
    members = np.zeros(len(wanted), MEMBER)
    for name in ("entry_us", "step", "row", "parent_step", "parent_row", "function", "depth"):
        members[name] = opened.calls[name][wanted]
    members["is_anomaly"][:1] = 1
    return members


LOOK_EVERY_S = 0.5
LONGEST_TICK_S = 0.5
"""Longest tick in seconds: after a longer one the agent was itself stopped, and does not know what its
streams could have given meanwhile.
"""
MOST_REPORTED = 16
"""Maximum number of reported calls of one stream at a time: a pool of idle threads must not fill the store.
"""
REPEAT_AT = 2.0
"""Factor by which a call's open time has grown when it is reported again."""
MAIN_THREAD = 0


class HangWatchdog:
    """Watchdog over all streams of one agent, with a spool of its own for what it finds.

    Parameters
    ----------
    agent
        Name of the agent, and of the spool.
    folder
        Folder of the spool.
    notifier
        Notifier that is used when something was found.
    """

    def __init__(
        self,
        agent: str,
        folder: Path,
        streams: list[StreamHandle],
        statistics: AgentStatistics,
        notifier: AgentNotifier,
        config: AnalysisConfig,
    ) -> None:
        self._streams = streams
        self._statistics = statistics
        self._notifier = notifier
        self._config = config
        self._detector = make_detector(config)
        self._ignored = [function_matcher(pattern) for pattern in config.ignore]
        self._spool = SpoolWriter(folder, agent, config.spool_limit_bytes)
        self.delivery = SpoolDelivery(agent, folder)
        self._reported: dict[str, dict[tuple[int, int], float]] = {}
        """Calls that were reported, by stream and by step and row, with their open time at the last report.
        """
        self._next_us: dict[str, float] = {}
        """Trace time, by stream, before which none of its calls can be overdue."""
        self._ticked_at = time.monotonic()
        self._looked_at = 0.0

    def tick(self) -> None:
        """Look at all live streams; called a few times a second."""
        now = time.monotonic()
        seconds, self._ticked_at = min(now - self._ticked_at, LONGEST_TICK_S), now
        for stream in self._streams:
            stream.rhythm.note(stream.open_calls.steps, seconds if _is_waited_for(stream) else 0.0)
            if stream.is_over or not stream.rhythm.is_silent:
                stream.silence = None
        if now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            for stream in self._streams:
                self.look(stream)

    def lost_reports(self) -> int:
        """Return the number of reports for which there was no room; valid at the end."""
        self._spool.give_up_held()
        return self._spool.lost_records

    @property
    def newest_us(self) -> int:
        """Return the time of the newest event of all streams; 0 without one."""
        left = (stream.open_calls.read() for stream in self._streams)
        return max((opened.newest_us for opened in left if opened), default=0)

    def look_back(self, newest_us: int) -> None:
        """Report calls of recorded streams that were open where these broke off; called at their end.

        Parameters
        ----------
        newest_us
            Time of the newest event of the run, up to which calls are taken as open.
        """
        for stream in self._streams:
            opened = stream.open_calls.read()
            # A program that ends leaves no call open on its main thread.
            if opened is not None and (stream.phase is Phase.BROKEN or MAIN_THREAD in opened.calls["thread"]):
                self._report(stream, opened, newest_us - opened.newest_us, stream.box[Cell.HEARTBEAT])

    def look(self, stream: StreamHandle) -> None:
        """Check whether a stream is silent, or has overdue calls; one whose process is at work is neither."""
        drained = stream.box[Cell.HEARTBEAT]
        if not _is_waited_for(stream):
            return
        now_us = stream.open_calls.newest_us + stream.rhythm.quiet_s * 1e6
        is_falling_silent = stream.rhythm.is_silent and stream.silence is None
        if not is_falling_silent and now_us < self._next_us.get(stream.key, 0.0):
            return
        opened = stream.open_calls.read()
        if opened is None:
            return
        if stream.rhythm.is_silent and stream.silence is None:
            stream.learn_names()
            stream.silence = _silence(opened, stream.names)
            self._notifier.notify()
        self._report(stream, opened, stream.rhythm.quiet_s * 1e6, drained)

    def _report(self, stream: StreamHandle, opened: OpenCalls, silence_us: float, drained: int) -> None:
        """Report the calls that have become overdue, and again those whose open time has grown by
        ``REPEAT_AT``.
        """
        before = self._reported.pop(stream.key, {})
        first_us = int(opened.calls["entry_us"].min(initial=opened.newest_us))
        is_long = opened.newest_us - first_us + silence_us >= LEAST_US
        if not is_long or not self._config.records_step(opened.step):
            self._next_us[stream.key] = first_us + LEAST_US
            return
        stream.learn_names()
        known = self._known(stream, opened)
        history = _history(known)
        elapsed = elapsed_us(opened, history, silence_us, self._config.period_us, stream.is_prompt)
        overdue = find_overdue(opened, history, elapsed)[:MOST_REPORTED]
        self._next_us[stream.key] = 0.0 if len(overdue) else next_us(opened, history, silence_us)
        rows = known[overdue]
        usual = DETECTORS[self._config.detector].default_threshold
        limits = self._detector.limits(rows, np.full(len(rows), usual))
        scores = self._detector.judge(limits.measures, elapsed[overdue]).score
        reported = self._reported[stream.key] = {}
        for call, score in zip(overdue.tolist(), scores.tolist(), strict=True):
            place = int(opened.calls["step"][call]), int(opened.calls["row"][call])
            reported[place] = before.get(place, 0.0)
            if elapsed[call] >= REPEAT_AT * reported[place]:
                # The stream's process is told first: if it has not gone on by then it learns of the report
                # before the call can end, and so records the end.
                report = report_of(opened, call, history, score)
                stream.open_calls.report(report)
                if stream.box[Cell.HEARTBEAT] != drained:
                    return
                version = self._statistics.model.version
                record = pack_report(opened, call, report, elapsed, version, stream.names)
                self._spool.append(SpoolFrame(record, [], [], _origin(stream)))
                self._notifier.notify()
                reported[place] = float(elapsed[call])

    def _known(self, stream: StreamHandle, opened: OpenCalls) -> Float64Array:
        """Return what is known over all ranks of the functions of the open calls, float64[calls, width];
        zeros for functions to ignore.
        """
        functions, which = np.unique(opened.calls["function"], return_inverse=True)
        names = ((at, stream.names.timers.get(number, "")) for at, number in enumerate(functions.tolist()))
        wanted = {at: name for at, name in names if not any(matches(name) for matches in self._ignored)}
        known = self._statistics.model.rows_for(stream.program, wanted)
        return self._detector.schema.grown(known, len(functions))[which]


def _history(known: Float64Array) -> History:
    """Return inclusive runtimes from rows of a detector's table, float64[n, width], which begin with
    ``PROFILE``.
    """
    moments = known[:, PROFILE.slices["inclusive_us"]]
    n, mean_us, m2 = moments[:, 0], moments[:, 1], moments[:, 2]
    spread_us = np.sqrt(np.maximum(m2, 0.0) / np.maximum(n - 1, 1.0))
    return History(n, mean_us, spread_us, longest_us=moments[:, 6])


def _origin(stream: StreamHandle) -> StreamHealth:
    """Return the stream that a batch of records belongs to, as health without totals: these are reported by
    its process alone.
    """
    return StreamHealth(stream.program, stream.name.rank, stream.node, "reading", 0, 0, 0, 0, 0, 0, {})


def _is_waited_for(stream: StreamHandle) -> bool:
    """Return whether the stream's process waits for its next step, and does nothing else."""
    return stream.pid != 0 and stream.phase is Phase.IDLE


def _silence(opened: OpenCalls, names: StreamNames) -> Silence:
    """Return where the rank was when it fell silent: on its main thread, where that has an open call."""
    calls = opened.calls
    on_main = np.flatnonzero(calls["thread"] == MAIN_THREAD)
    if not len(calls):
        return Silence(opened.newest_us, "", 0)
    innermost = int(on_main[-1]) if len(on_main) else len(calls) - 1
    name = names.timer_name(int(calls["function"][innermost]))
    return Silence(opened.newest_us, name, int(calls["entry_us"][innermost]))
