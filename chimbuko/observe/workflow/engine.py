"""Two calls for those who have a workflow engine: a task has started, a task has ended."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.namespaces.exchange.place import Place
from chimbuko.observe.workflow.record import NAMESPACE, entered
from chimbuko.observe.workflow.task import State


def task_started(
    name: str,
    *,
    program: str | None = None,
    nodes: Sequence[str] = (),
    ranks: int | None = None,
    cores: int | None = None,
    attempt: int = 1,
    place: str | Path | Place | None = None,
) -> None:
    """Report that a task runs from now on; it returns when the service has the report.

    Parameters
    ----------
    name
        Of the task; unique in the workflow.
    program
        That it runs.
    nodes, ranks, cores
        On which nodes, in how many processes, and on how many cores in all.
    attempt
        From 1 on.
    place
        Of the service of namespaces; default that in ``CHIMBUKO_NAMESPACES``.

    Raises
    ------
    ConfigError, ServiceError, ObservationError
        There is no service, it does not answer, or the name cannot be a key.
    """
    listed = ",".join(nodes) or None
    facts = {"program": program, "nodes": listed, "ranks": ranks, "cores": cores, "attempt": attempt}
    _publish(name, State.EXECUTING, facts, place)


def task_ended(name: str, exit_code: int = 0, *, place: str | Path | Place | None = None) -> None:
    """Report that a task has ended: done where its exit code is 0, and else failed.

    Parameters and errors are those of ``task_started``.
    """
    state = State.DONE if exit_code == 0 else State.FAILED
    _publish(name, state, {"exit_code": exit_code}, place)


def _publish(name: str, state: State, facts: Mapping[str, object], place: str | Path | Place | None) -> None:
    with Client(place) as client:
        client.create(NAMESPACE).publish_tree(entered(name, state, time.time_ns() // 1000, facts))
