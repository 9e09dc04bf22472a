"""Ranks that wait for each other for ever, by their traces, also where they spin; their stacks as a tree."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from chimbuko.core.calls.waiting import Waits, ends_by_another_rank, waits_in
from chimbuko.core.units import number_of
from chimbuko.monitor.procfs.numbers import format_cpulist
from chimbuko.monitor.report.finding import Finding


class Node(msgspec.Struct):
    """A call, and who is in it."""

    function: str
    ranks: set[int] = msgspec.field(default_factory=set)
    children: dict[str, Node] = msgspec.field(default_factory=dict)


def merged(stacks: Mapping[int, Sequence[str]]) -> Node:
    """Return the tree of the stacks, outermost call first, of ranks."""
    root = Node("")
    for rank, functions in stacks.items():
        node = root
        node.ranks.add(rank)
        for function in functions:
            node = node.children.setdefault(function, Node(function))
            node.ranks.add(rank)
    return root


def lines(root: Node) -> Iterator[str]:
    """Yield a line for each call: `` MPI_Recv: 3 ranks (0-2)``; most ranks first."""
    waiting = [(0, child) for child in _in_order(root)]
    while waiting:
        depth, node = waiting.pop(0)
        ranks = number_of(len(node.ranks), "ranks")
        yield f"{'  ' * depth}{node.function}: {ranks} ({format_cpulist(node.ranks)})"
        waiting[:0] = [(depth + 1, child) for child in _in_order(node)]


def _in_order(node: Node) -> list[Node]:
    return sorted(node.children.values(), key=lambda child: (-len(child.ranks), min(child.ranks)))


def deadlock(stacks: Mapping[int, Sequence[str]], living: Collection[int]) -> Finding | None:
    """All ranks that live are in operations that wait for others, none of which ends.

    Parameters
    ----------
    stacks
        By rank, its open calls, outermost first, where none of them has ended far beyond what is usual.
    living
        All ranks that have not ended. One of which no stack is known is at work.
    """
    living = sorted(set(living))
    operations = {rank: _operation(stacks.get(rank, ())) for rank in living}
    if len(living) < 2 or not all(operations.values()):
        return None
    by_operation: dict[str, list[int]] = {}
    for rank, operation in operations.items():
        by_operation.setdefault(operation, []).append(rank)
    where = "; ".join(f"{format_cpulist(ranks)} in {name}" for name, ranks in by_operation.items())
    collective = [name for name in by_operation if waits_in(name) is Waits.COLLECTIVE]
    why = (
        "they are in different operations, of which no two match"
        if len(collective) > 1
        else "look for a message that nobody sends, or a rank that left out a call"
    )
    return Finding(
        "deadlock",
        f"all {number_of(len(living), 'ranks')} wait in MPI, and no call of theirs ends: {where}",
        why,
    )


def _operation(functions: Sequence[str]) -> str:
    """Return the outermost operation of MPI that waits for others; empty if there is none."""
    waiting = next((function for function in functions if ends_by_another_rank(function)), "")
    return waiting.partition("(")[0].strip().removeprefix("P")
