"""What the namespace ``workflow`` has of a task: its state, the times of it, and where it ran. No I/O.

All leaves are under the name of the task: ``state``, ``states/TIME`` (the state that it came into then),
``events/TIME``, ``program``, ``attempt``, ``nodes``, ``placement``, ``ranks``, ``cores``, ``exit_code`` and
``reason``. ``TIME`` is in seconds since the epoch, as in SOMA's layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chimbuko.monitor.procfs.numbers import format_cpulist
from chimbuko.observe.workflow.exchange import Note
from chimbuko.observe.workflow.task import Allocation, State

NAMESPACE = "workflow"


def entered(task: str, state: State, time_us: int, facts: Mapping[str, Any]) -> dict[str, Any]:
    """A task has come into a state.

    Parameters
    ----------
    facts
        Further leaves of the task; those that are None are left out.
    """
    known = {name: value for name, value in facts.items() if value is not None}
    return {task: {"state": state.value, "states": {time_key(time_us): state.value}, **known}}


def noted(note: Note, program: str, time_us: int) -> dict[str, Any]:
    """The same of a task of ours."""
    facts: dict[str, Any] = {
        "program": program,
        "attempt": note.attempt or None,
        "exit_code": note.code,
        "reason": note.reason or None,
    }
    if note.place is not None:
        facts |= {
            "nodes": ",".join(note.place),
            "placement": format_place(note.place),
            "ranks": note.resources.ranks,
            "cores": sum(map(len, note.place.values())),
        }
    return entered(note.task, note.state, time_us, facts)


def time_key(time_us: int) -> str:
    """A time as a key: seconds since the epoch, to the microsecond."""
    return f"{time_us // 1_000_000}.{time_us % 1_000_000:06d}"


def format_place(place: Allocation) -> str:
    """Nodes with the numbers of their cores, such as ``node1:0-3,6 node2:0``."""
    return " ".join(f"{node}:{format_cpulist(cores)}" for node, cores in place.items())
