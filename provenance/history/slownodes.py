"""Nodes that are slow again and again, over the runs of a series. Pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence

import msgspec

from chimbuko.core.units import format_share
from chimbuko.provenance.history.entry import Details

CHANCE = 0.01
"""Chance that any node of a series is named where all are alike."""
LEAST_SLOWER = 0.02
"""Share by which a node must be slower than its neighbours to be named."""
LEAST_RUNS = 5
MOST_CAUSES = 3


class SlowNode(msgspec.Struct, frozen=True):
    """Node that is slow in a function again and again."""

    node: str
    function: str
    runs: int
    """Number of runs that it took part in."""
    slower: int
    """Number of these runs in which it was slower than the median of the nodes."""
    share: float
    """Share by which a call takes longer there, by the median over the runs."""
    chance: float
    """Chance of that where all nodes are alike, corrected for all nodes and functions."""
    troubles: dict[str, int]
    """Number of runs with an incident there, by cause."""
    sentence: str


def slow_nodes(runs: Sequence[Details]) -> list[SlowNode]:
    """Return the nodes that are slower than their neighbours in the same function run after run.

    In each run the nodes are ranked; a node's sum of ranks is compared with that of nodes which are alike
    (van Elteren's test). A node is named once, for the function that says it most surely; the slowest first.
    """
    placed: dict[tuple[str, str], list[tuple[float, float, float]]] = defaultdict(list)
    for one in runs:
        for function, paces in one.paces.items():
            if len(paces) < 2:
                continue
            for node, standing in _standings(paces).items():
                placed[node, function].append((standing, _variance(len(paces)), paces[node]))
    tested = sorted((_chance(found), key) for key, found in placed.items() if len(found) >= LEAST_RUNS)
    named: dict[str, SlowNode] = {}
    for rank, (chance, (node, function)) in enumerate(tested):
        corrected = chance * (len(tested) - rank)
        if corrected > CHANCE:
            break
        share = statistics.median(pace for _, _, pace in placed[node, function]) - 1.0
        if node not in named and share >= LEAST_SLOWER:
            named[node] = _named(node, function, placed[node, function], share, corrected, runs)
    return sorted(named.values(), key=lambda one: (-one.share, one.node))


def _standings(paces: dict[str, float]) -> dict[str, float]:
    """Return each node's rank, from the middle; of equal ones their mean."""
    ordered = sorted(paces.values())
    middle = (len(ordered) + 1) / 2
    first = {value: at for at, value in reversed(list(enumerate(ordered, 1)))}
    number = Counter(ordered)
    return {node: first[pace] + (number[pace] - 1) / 2 - middle for node, pace in paces.items()}


def _variance(nodes: int) -> float:
    return (nodes**2 - 1) / 12


def _chance(found: Sequence[tuple[float, float, float]]) -> float:
    z = sum(one[0] for one in found) / math.sqrt(sum(one[1] for one in found))
    return 0.5 * math.erfc(z / math.sqrt(2.0))


def _named(
    node: str,
    function: str,
    found: Sequence[tuple[float, float, float]],
    share: float,
    chance: float,
    runs: Sequence[Details],
) -> SlowNode:
    causes = Counter(cause for one in runs for cause in one.troubles.get(node, {}))
    slower = sum(pace > 1.0 for _, _, pace in found)
    usual = causes.most_common(MOST_CAUSES)
    also = f"; {', '.join(f'{cause} in {number}' for cause, number in usual)} of them" if usual else ""
    sentence = (
        f"Node {node}: in {slower} of {len(found)} runs slower than its neighbours, by {format_share(share)} "
        f"in {function}{also}."
    )
    return SlowNode(node, function, len(found), slower, share, chance, dict(usual), sentence)
