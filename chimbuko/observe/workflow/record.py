"""Records of tasks in the namespace ``workflow``: their states with times, and where they ran.

All leaves are under the name of the task: ``state``, ``states/TIME`` (the state that it came into then),
``events/TIME``, ``program``, ``attempt``, ``nodes``, ``placement``, ``ranks``, ``cores``, ``exit_code`` and
``reason``. ``TIME`` is in seconds since the epoch, as in SOMA's layout.

Two calls for those who have a workflow engine: a task has started, a task has ended.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chimbuko.monitor.procfs.numbers import format_cpulist
from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.namespaces.exchange.jobaddress import JobAddress
from chimbuko.observe.workflow.scheduler import Note
from chimbuko.observe.workflow.task import Allocation, State

NAMESPACE = "workflow"


def entered(task: str, state: State, time_us: int, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the leaves that record that a task has come into a state.

    Parameters
    ----------
    facts
        Further leaves of the task; those that are None are left out.
    """
    known = {name: value for name, value in facts.items() if value is not None}
    return {task: {"state": state.value, "states": {time_key(time_us): state.value}, **known}}


def noted(note: Note, program: str, time_us: int) -> dict[str, Any]:
    """Return the leaves that record a change of one of this workflow's tasks."""
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
    """Return a time as a key: seconds since the epoch, to the microsecond."""
    return f"{time_us // 1_000_000}.{time_us % 1_000_000:06d}"


def format_place(place: Allocation) -> str:
    """Return nodes with the numbers of their cores as text, such as ``node1:0-3,6 node2:0``."""
    return " ".join(f"{node}:{format_cpulist(cores)}" for node, cores in place.items())


def task_started(
    name: str,
    *,
    program: str | None = None,
    nodes: Sequence[str] = (),
    ranks: int | None = None,
    cores: int | None = None,
    attempt: int = 1,
    place: str | Path | JobAddress | None = None,
) -> None:
    """Report that a task runs from now on; it returns when the service has the report.

    Parameters
    ----------
    name
        Name of the task; unique in the workflow.
    program
        Program that the task runs.
    nodes, ranks, cores
        Nodes, number of processes, and number of cores in all.
    attempt
        Number of the attempt, from 1 on.
    place
        Address of the service of namespaces; default that in ``CHIMBUKO_NAMESPACES``.

    Raises
    ------
    ConfigError, ServiceError, ObservationError
        There is no service, it does not answer, or the name cannot be a key.
    """
    listed = ",".join(nodes) or None
    facts = {"program": program, "nodes": listed, "ranks": ranks, "cores": cores, "attempt": attempt}
    _publish(name, State.EXECUTING, facts, place)


def task_ended(name: str, exit_code: int = 0, *, place: str | Path | JobAddress | None = None) -> None:
    """Report that a task has ended: done where its exit code is 0, and else failed.

    Parameters and errors are those of ``task_started``.
    """
    state = State.DONE if exit_code == 0 else State.FAILED
    _publish(name, state, {"exit_code": exit_code}, place)


def _publish(
    name: str, state: State, facts: Mapping[str, object], place: str | Path | JobAddress | None
) -> None:
    with Client(place) as client:
        client.create(NAMESPACE).publish_tree(entered(name, state, time.time_ns() // 1000, facts))
