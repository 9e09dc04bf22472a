"""Call stacks of many ranks as one tree, with how many ranks are where, and which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from chimbuko.core.units import number_of
from chimbuko.monitor.procfs.cpulist import format_cpulist


@dataclass
class Node:
    """A call, and who is in it."""

    function: str
    ranks: set[int] = field(default_factory=set)
    children: dict[str, Node] = field(default_factory=dict)


def merged(stacks: Mapping[int, Sequence[str]]) -> Node:
    """The tree of the stacks, outermost call first, of ranks."""
    root = Node("")
    for rank, functions in stacks.items():
        node = root
        node.ranks.add(rank)
        for function in functions:
            node = node.children.setdefault(function, Node(function))
            node.ranks.add(rank)
    return root


def lines(root: Node) -> Iterator[str]:
    """A line for each call: ``  MPI_Recv: 3 ranks (0-2)``; most ranks first."""
    waiting = [(0, child) for child in _in_order(root)]
    while waiting:
        depth, node = waiting.pop(0)
        ranks = number_of(len(node.ranks), "ranks")
        yield f"{'  ' * depth}{node.function}: {ranks} ({format_cpulist(node.ranks)})"
        waiting[:0] = [(depth + 1, child) for child in _in_order(node)]


def _in_order(node: Node) -> list[Node]:
    return sorted(node.children.values(), key=lambda child: (-len(child.ranks), min(child.ranks)))
