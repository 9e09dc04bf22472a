"""Which cores of which nodes are free, and which of them a task gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from chimbuko.observe.workflow.task import Resources

Place = Mapping[str, tuple[int, ...]]
"""Cores of a task by node."""


@dataclass(frozen=True)
class Node:
    """A node that tasks can run on."""

    name: str
    cores: tuple[int, ...]
    """Numbers of the cores that tasks may use."""


class FreeCores:
    """What no task uses at present."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._all = {node.name: node.cores for node in nodes}
        self._free = {name: set(cores) for name, cores in self._all.items()}

    def could_fit(self, resources: Resources) -> bool:
        """Whether there is room when nothing else runs."""
        counts = {name: len(cores) for name, cores in self._all.items()}
        return self._nodes_with(resources, counts) is not None

    def take(self, resources: Resources) -> Place | None:
        """Cores for a task, the first that are free; None while there are not enough."""
        names = self._nodes_with(resources, {name: len(cores) for name, cores in self._free.items()})
        if names is None:
            return None
        place = {name: tuple(sorted(self._free[name])[: resources.cores_per_node]) for name in names}
        for name, cores in place.items():
            self._free[name].difference_update(cores)
        return place

    def give_back(self, place: Place) -> None:
        """A task has ended."""
        for name, cores in place.items():
            self._free[name].update(cores)

    @staticmethod
    def _nodes_with(resources: Resources, counts: Mapping[str, int]) -> list[str] | None:
        fitting = [name for name, count in counts.items() if count >= resources.cores_per_node]
        return fitting[: resources.nodes] if len(fitting) >= resources.nodes else None
