"""Tasks of a workflow with their states, and the free cores of the nodes on which they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum


class State(Enum):
    """State of a task, in RADICAL-Pilot's terms."""

    NEW = "NEW"
    """The task waits for other tasks."""
    SCHEDULED = "SCHEDULED"
    """The task waits for cores."""
    EXECUTING = "EXECUTING"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    """The task did not run, or not to its end, because of something else."""

    @property
    def is_final(self) -> bool:
        """Whether no other state follows."""
        return self in (State.DONE, State.FAILED, State.CANCELED)


@dataclass(frozen=True)
class Resources:
    """Resources of a running task."""

    ranks: int = 1
    """Number of processes of the program, over all nodes."""
    cores: int = 1
    """Number of cores for each rank."""
    nodes: int = 1
    """Number of nodes over which the ranks are spread."""

    @property
    def cores_per_node(self) -> int:
        """Number of cores that have to be free on each of the task's nodes."""
        return -(-self.ranks // self.nodes) * self.cores


ONE_CORE = Resources()


@dataclass(frozen=True)
class Recommendation:
    """Recommended value, which a task reads when all tasks that it waits for are done."""

    namespace: str
    key: str
    """Path of a leaf, as text."""
    default: str | int | float | None = None
    """Value where nothing has been recommended; None if the task cannot run then."""


@dataclass(frozen=True)
class Task:
    """Task: a program that is to run."""

    name: str
    command: tuple[str, ...]
    """Command in words; ``{name}`` in one stands for a recommended value, or for ``ranks``, ``cores`` and
    ``nodes``.
    """
    after: tuple[str, ...] = ()
    """Names of the tasks that have to be done before."""
    resources: Resources = ONE_CORE
    retries: int = 0
    """Number of further attempts after a failure."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the task beside those of the workflow."""
    folder: str = "."
    """Working directory of the task."""
    recommended: Mapping[str, Recommendation] = field(default_factory=dict)
    """Recommended values by name; ``ranks``, ``cores`` and ``nodes`` replace those of the resources."""


Allocation = Mapping[str, tuple[int, ...]]
"""Cores of a task by node."""


@dataclass(frozen=True)
class Node:
    """A node that tasks can run on."""

    name: str
    cores: tuple[int, ...]
    """Numbers of the cores that tasks may use."""


class FreeCores:
    """Cores that no task uses at present."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._all = {node.name: node.cores for node in nodes}
        self._free = {name: set(cores) for name, cores in self._all.items()}

    def could_fit(self, resources: Resources) -> bool:
        """Whether a task has room when nothing else runs."""
        counts = {name: len(cores) for name, cores in self._all.items()}
        return self._nodes_with(resources, counts) is not None

    def take(self, resources: Resources) -> Allocation | None:
        """Return cores for a task, the first that are free; None while there are not enough."""
        names = self._nodes_with(resources, {name: len(cores) for name, cores in self._free.items()})
        if names is None:
            return None
        place = {name: tuple(sorted(self._free[name])[: resources.cores_per_node]) for name in names}
        for name, cores in place.items():
            self._free[name].difference_update(cores)
        return place

    def give_back(self, place: Allocation) -> None:
        """Free the cores of a task that has ended."""
        for name, cores in place.items():
            self._free[name].update(cores)

    @staticmethod
    def _nodes_with(resources: Resources, counts: Mapping[str, int]) -> list[str] | None:
        fitting = [name for name, count in counts.items() if count >= resources.cores_per_node]
        return fitting[: resources.nodes] if len(fitting) >= resources.nodes else None
