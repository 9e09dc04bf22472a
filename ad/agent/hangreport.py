"""Reports of overdue calls: the record of one while it is open, and what becomes of it when it ends."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chimbuko.ad.agent.overdue import History
from chimbuko.ad.handoff.opencalls import OpenCalls
from chimbuko.ad.records.reportedcalls import REPORT, Reports
from chimbuko.core.arrays import Float64Array, Rows
from chimbuko.core.calls.record import severity_us
from chimbuko.core.calls.recordarrays import HEAD, MEMBER, NO_CALL, UNKNOWN_THREAD, PackedRecords
from chimbuko.core.traceschema import StreamNames


def report_of(opened: OpenCalls, call: int, history: History, score: float) -> Reports:
    """What its stream's process shall know of the reported call ``call``, an index; REPORT[1]."""
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
    """Record of one overdue call as it is now.

    It has no end; its step ends now; its window is the calls that are open inside it.

    Parameters
    ----------
    call
        Its index.
    report
        From ``report_of``.
    elapsed_us
        For how long each call has been open, f8[calls].
    names
        The stream's.
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
    """MEMBER rows of open calls, of which the first is the reported one."""
    members = np.zeros(len(wanted), MEMBER)
    for name in ("entry_us", "step", "row", "parent_step", "parent_row", "function", "depth"):
        members[name] = opened.calls[name][wanted]
    members["is_anomaly"][:1] = 1
    return members
