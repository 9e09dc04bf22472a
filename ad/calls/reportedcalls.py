"""Calls that were reported while they were open: reports are kept in their stream until the calls end."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chimbuko.ad.calls.selection import PARALLEL, Selection
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.kernels.stack import LOST, UNKNOWN
from chimbuko.core.calls.record import severity_us

REPORT = np.dtype(
    [
        ("limit_us", np.float64),
        ("score", np.float64),
        ("expected_us", np.float64),
        ("spread_us", np.float64),
        ("seen", np.int64),
        ("step", np.int32),  # with ``row`` the call's id
        ("row", np.int32),
    ],
    align=True,
)
"""A call that the agent has reported as overdue, and what it knew of the call's function."""
Reports = npt.NDArray[np.void]
"""``REPORT`` rows."""


class ReportedCalls:
    """The calls of one stream that were reported while they were open and have not ended yet."""

    def __init__(self) -> None:
        self._reports: dict[tuple[int, int], Reports] = {}

    def add(self, reports: Reports) -> None:
        """Add calls that were reported."""
        for report in reports.reshape(-1, 1):
            self._reports[int(report["step"][0]), int(report["row"][0])] = report

    def complete(self, selection: Selection, stacks: CallStacks) -> Selection:
        """Add to a step's selection the reported calls that end in it, unless the detector has selected them
        anyway, and those that were open across a gap.

        A call that turns out to have ended in time is added as a normal call, and so is one that was open
        across a gap: it may have ended in that.
        """
        rows, reports, still = [], [], {}
        for row in range(stacks.carried if self._reports else 0):
            call = stacks.call(row)
            report = self._reports.get((call.step, call.row))
            if report is None:
                continue
            if not call.exit and not call.doubts & UNKNOWN:
                still[call.step, call.row] = report
            elif row not in selection.rows and not call.doubts & LOST:
                rows.append(row)
                reports.append(report)
        # A call that is not open any more, and did not end, was given up: its EXIT was lost.
        self._reports = still
        if not rows:
            return selection
        return _joined(selection, _ended(np.array(rows, np.int32), np.concatenate(reports), stacks))


def _ended(rows: npt.NDArray[np.int32], reports: Reports, stacks: CallStacks) -> Selection:
    calls = stacks.calls[rows]
    is_known = (calls["exit"] != 0) & (calls["doubts"] & UNKNOWN == 0)
    runtime_us = np.where(is_known, (calls["exit"] - calls["entry"]).astype(np.float64), 0.0)
    is_anomaly = runtime_us > reports["limit_us"]
    return Selection(
        rows=rows,
        is_anomaly=is_anomaly,
        score=np.where(is_anomaly, reports["score"], 0.0),
        severity_us=severity_us(runtime_us, reports["expected_us"]),
        expected_us=reports["expected_us"],
        spread_us=reports["spread_us"],
        seen=reports["seen"].astype(np.float64),
    )


def _joined(first: Selection, second: Selection) -> Selection:
    order = np.argsort(np.concatenate((first.rows, second.rows)), kind="stable")
    parts: dict[str, Any] = {
        name: np.concatenate((getattr(first, name), getattr(second, name)))[order] for name in PARALLEL
    }
    return Selection(**parts)
