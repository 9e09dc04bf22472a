"""What an earlier phase advises of where the analysis of the next one runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

from chimbuko.errors import ConfigError
from chimbuko.process.cores import core_numbers
from chimbuko.process.lifetime import log as say
from chimbuko.provenance.nodes.placing import advices
from chimbuko.runs.directory import RunDirectory
from chimbuko.workflow.leading.machines import Machine, ThisMachine
from chimbuko.workflow.tasks.description import Workflow, check_room
from chimbuko.workflow.tasks.placement import Node
from chimbuko.workflow.tasks.task import Task


def advising_run(folder: Path) -> RunDirectory:
    """The run that a folder is, or that of the workflow whose folder it is."""
    of_workflow = RunDirectory(folder / "run")
    return of_workflow if of_workflow.info_path.exists() else RunDirectory(folder)


def cores_of_agents(run: RunDirectory) -> frozenset[int]:
    """On which the agents of the next phase had best be; none where they had best be on all.

    Raises
    ------
    ChimbukoError
        The run cannot be read, or has not shown enough.
    """
    (advice,) = advices(run, 1)
    return frozenset(core_numbers(advice.cores)) if advice.cores else frozenset()


def follow(workflow: Workflow, machine: Machine, base: Path) -> tuple[Machine, RunDirectory | None]:
    """What tasks get of a machine, and the run whose advice the analysis follows; None where it follows none.

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
    return make_room(machine, workflow.tasks, cores_of_agents(run)), run


def make_room(machine: Machine, tasks: Iterable[Task], cores: Collection[int]) -> Machine:
    """The same machine without some cores, where there is room for each task beside them.

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
