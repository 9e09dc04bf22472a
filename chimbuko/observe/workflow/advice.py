"""Advice of an earlier run on the cores for the analysis of the next one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path

from chimbuko.core.errors import ConfigError
from chimbuko.observe.workflow.description import Workflow, check_room
from chimbuko.observe.workflow.machines import Machine, ThisMachine
from chimbuko.observe.workflow.task import Node, Task
from chimbuko.runtime.process.lifetime import log as say
from chimbuko.runtime.runs.directory import RunDirectory

AdvisedCores = Callable[[RunDirectory], frozenset[int]]
"""Function that returns the cores on which the analysis had best run, as an earlier run advises; empty for
all cores.
"""


def advising_run(folder: Path) -> RunDirectory:
    """Return the run in a folder, or the one of the workflow whose folder it is."""
    of_workflow = RunDirectory(folder / "run")
    return of_workflow if of_workflow.info_path.exists() else RunDirectory(folder)


def follow(
    workflow: Workflow, machine: Machine, base: Path, advised_cores: AdvisedCores
) -> tuple[Machine, RunDirectory | None]:
    """Return the cores that tasks get, and the run whose advice the analysis follows, or None.

    Parameters
    ----------
    base
        Folder to which that of the run is relative.

    Raises
    ------
    ChimbukoError
        There is no room for a task, or the run cannot be read, or has not shown enough.
    """
    check_room(workflow.tasks, machine.nodes)
    if workflow.analysis is None or not workflow.analysis.advised:
        return machine, None
    run = advising_run(base / workflow.analysis.advised)
    return make_room(machine, workflow.tasks, advised_cores(run)), run


def make_room(machine: Machine, tasks: Iterable[Task], cores: Collection[int]) -> Machine:
    """Return the machine without some cores, where each task has room beside them.

    Under a scheduler nothing changes: it chooses cores itself.
    """
    if not cores or not isinstance(machine, ThisMachine):
        return machine
    rest = tuple(core for core in machine.node.cores if core not in cores)
    smaller = replace(machine, node=Node(machine.node.name, rest))
    try:
        check_room(tasks, smaller.nodes)
    except ConfigError:
        say("there is no room for each task beside the cores that are advised for agents; they share them")
        return machine
    return smaller
