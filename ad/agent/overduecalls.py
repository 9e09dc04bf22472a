"""Overdue calls: those that are open far beyond what is known of their functions. No I/O.

``find_overdue`` decides which calls are overdue. ``pack_report`` makes the record of such a call while it is
open.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.ad.calls.reportedcalls import REPORT, Reports
from chimbuko.ad.calls.stacks import MAIN_THREAD
from chimbuko.ad.detectors import make_detector
from chimbuko.ad.detectors.limits import FunctionLimits
from chimbuko.ad.handoff.opencalls import OpenCalls
from chimbuko.ad.kernels.stack import UNCERTAIN, UNKNOWN
from chimbuko.ad.modelsync.agentmodel import AgentModel
from chimbuko.core.arrays import Float64Array, Rows, distinct
from chimbuko.core.calls.functionnames import function_matcher
from chimbuko.core.calls.record import severity_us
from chimbuko.core.calls.recordarrays import HEAD, MEMBER, NO_CALL, UNKNOWN_THREAD, PackedRecords
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.core.traceschema import StreamNames

MOST_REPORTED = 16
"""Maximum number of reported calls of one stream at a time: a pool of idle threads must not fill the store.
"""
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
"""Number of periods that a call usually takes, from which it counts as open when the rank falls silent.

TAU publishes nothing of the calls of up to one period before; a call that usually takes this many periods
was, nine times in ten, not ended by then.
"""


class History(msgspec.Struct, frozen=True):
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
        functions={n: names.timer_name(n) for n in distinct(calls["function"][on_thread]).tolist()},
    )


def _members(opened: OpenCalls, wanted: npt.NDArray[np.intp]) -> Rows:
    """Return MEMBER rows of open calls, of which the first is the reported one."""
    members = np.zeros(len(wanted), MEMBER)
    for name in ("entry_us", "step", "row", "parent_step", "parent_row", "function", "depth"):
        members[name] = opened.calls[name][wanted]
    members["is_anomaly"][:1] = 1
    return members


def breaks_off(opened: OpenCalls, is_broken: bool) -> bool:
    """Return whether a recorded stream may have left calls open: it is broken, or its main thread had one,
    as a program that ends leaves none there.
    """
    return is_broken or MAIN_THREAD in opened.calls["thread"]


def is_long_open(opened: OpenCalls, silence_us: float) -> bool:
    """Return whether any call may be open for long enough to be reported."""
    first_us = int(opened.calls["entry_us"].min(initial=opened.newest_us))
    return bool(opened.newest_us - first_us + silence_us >= LEAST_US)


class OverdueCall(msgspec.Struct, frozen=True):
    """One overdue call."""

    place: tuple[int, int]
    """Step and row of its ENTRY."""
    elapsed_us: float
    report: Reports
    """Facts that the agent tells the stream's process."""
    record: PackedRecords


class Overdue(msgspec.Struct, frozen=True):
    """Overdue calls of a stream at one moment."""

    calls: Sequence[OverdueCall]
    next_us: float
    """Trace time before which no other call will be overdue."""


class OverdueSearch:
    """Search for overdue calls among those that are open.

    Parameters
    ----------
    model
        What is known of functions over all ranks.
    """

    def __init__(self, model: AgentModel, config: AnalysisConfig) -> None:
        self._model = model
        self._config = config
        self._detector = make_detector(config)
        self._limits = FunctionLimits(self._detector, config)
        self._ignored = [function_matcher(pattern) for pattern in config.ignore]

    def find(
        self, program: int, opened: OpenCalls, names: StreamNames, silence_us: float, is_prompt: bool
    ) -> Overdue:
        """Return the overdue calls of a stream; ``silence_us`` and ``is_prompt`` as for ``elapsed_us``."""
        known = self._known(program, opened, names)
        history = _history(known)
        elapsed = elapsed_us(opened, history, silence_us, self._config.period_us, is_prompt)
        overdue = find_overdue(opened, history, elapsed)[:MOST_REPORTED]
        rows = known[overdue]
        functions = opened.calls["function"][overdue].tolist()
        thresholds = np.array([self._limits.threshold_of(names.timers.get(n, "")) for n in functions])
        limits = self._detector.limits(rows, thresholds)
        # They are abnormal by the time for which they are open, of whatever else is known of their functions.
        scores = np.maximum(self._detector.judge(limits.measures, elapsed[overdue]).score, thresholds)
        calls = []
        for call, score in zip(overdue.tolist(), scores.tolist(), strict=True):
            report = report_of(opened, call, history, score)
            record = pack_report(opened, call, report, elapsed, self._model.version, names)
            place = int(opened.calls["step"][call]), int(opened.calls["row"][call])
            calls.append(OverdueCall(place, float(elapsed[call]), report, record))
        return Overdue(calls, next_us(opened, history, silence_us))

    def _known(self, program: int, opened: OpenCalls, names: StreamNames) -> Float64Array:
        """Return what is known over all ranks of the functions of the open calls, float64[calls, width];
        zeros for functions to ignore.
        """
        functions, which = np.unique(opened.calls["function"], return_inverse=True)
        named = ((at, names.timers.get(number, "")) for at, number in enumerate(functions.tolist()))
        wanted = {at: name for at, name in named if not any(matches(name) for matches in self._ignored)}
        known = self._model.rows_for(program, wanted)
        return self._detector.schema.grown(known, len(functions))[which]


def _history(known: Float64Array) -> History:
    """Return inclusive runtimes from rows of a detector's table, float64[n, width], which begin with
    ``PROFILE``.
    """
    moments = known[:, PROFILE.slices["inclusive_us"]]
    n, mean_us, m2 = moments[:, 0], moments[:, 1], moments[:, 2]
    spread_us = np.sqrt(np.maximum(m2, 0.0) / np.maximum(n - 1, 1.0))
    return History(n, mean_us, spread_us, longest_us=moments[:, 6])
