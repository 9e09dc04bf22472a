"""RADICAL-Pilot's profiles, files ``*.prof`` of its tasks: lines in, states and events of tasks out. No I/O.

A line has seven fields with commas between them: time, event, component, thread, task, state, message. The
time is in seconds since the epoch, and lines that begin with ``#`` are comments.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from chimbuko.workflow.records.record import entered, time_key
from chimbuko.workflow.tasks.task import State

_FIELDS = 7
_TASK = re.compile(r"(task|unit)\.[\w.-]+")
_STATES = {
    "NEW": State.NEW,
    "TMGR_SCHEDULING": State.NEW,
    "AGENT_SCHEDULING": State.SCHEDULED,
    "AGENT_EXECUTING": State.EXECUTING,
    **{state.value: state for state in State},
}
"""Of those that RADICAL-Pilot has, the ones that change what a task waits for."""
ADVANCE = "advance"
"""The event by which a task comes into a state."""


def observations_of(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """What lines of a profile say of tasks, each as values for the namespace ``workflow``.

    Lines that are of something else than a task, or broken off, give nothing.
    """
    for line in lines:
        fields = line.rstrip("\n").split(",", _FIELDS - 1)
        if line.startswith("#") or len(fields) < _FIELDS:
            continue
        time_s, event, _, _, task, state, _ = fields
        time_us = _time_us(time_s)
        if time_us is None or not event or not _TASK.fullmatch(task):
            continue
        if event != ADVANCE:
            yield {task: {"events": {time_key(time_us): event}}}
        elif state in _STATES:
            yield entered(task, _STATES[state], time_us, {})


def _time_us(text: str) -> int | None:
    try:
        time_s = float(text)
    except ValueError:
        return None
    return round(time_s * 1e6) if math.isfinite(time_s) and time_s >= 0 else None
