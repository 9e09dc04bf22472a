"""History of a series: its runs with their quantities, what changed, when, and how sure that is."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.core.units import format_change, format_duration_us, format_share
from chimbuko.provenance.history.changepoints import ChangePoint, change_points
from chimbuko.provenance.history.entry import FUNCTION, LOST, NODES, PART, WALL, Details, day
from chimbuko.provenance.history.index import Index, RunRow

# Nodes that are slow again and again, over the runs of a series. Pure.


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


MOST_LOOKED_AT = 400
"""Number of runs among which changes are looked for, the last ones."""
MOST_FUNCTIONS = 12
"""Number of functions that are looked at, those with most time."""
LEAST_PRESENT = 0.6
"""Share of the runs that know a quantity that is looked at."""
LEAST_PART = 0.005
"""Share of all time below which a part is not looked at; changes of less are not seen in larger ones either.
"""
LEAST_EFFECT = 0.01
"""Share by which something has to change to be told."""
TOGETHER = 2
"""Number of runs within which changes of several quantities are one."""
AROUND = 10
"""Number of runs before and after a change whose nodes are compared."""
RECENT = 30
"""Number of runs in which nodes are looked for that are slow again and again, the last ones."""
MOST_NODES_NAMED = 8
APART, SURE = 0.03, 5.0
"""Share by which a node must have become slower than the others to be named with a change, and how many
standard errors that has to be.
"""

_NAMES = {
    "computing_us": "computing",
    "point_to_point_us": "MPI point to point",
    "collective_us": "MPI collectives",
    "other_mpi_us": "other MPI",
    "io_us": "I/O",
    "gpu_us": "waiting for a GPU",
    "threads_us": "waiting for other threads",
    "asleep_us": "asleep",
    "waiting_us": "waiting for a core",
    "not_recorded_us": "not recorded",
    "incidents_us": "lost in incidents",
    "recurring_us": "lost by what recurs",
    "imbalance_us": "lost by slow ranks",
    "analysis_us": "lost to the analysis",
}


class SeriesRun(msgspec.Struct, frozen=True):
    """Run of a series."""

    id: str
    name: str
    folder: str
    started_us: int
    is_good: bool
    version: list[str] = []
    """Software whose version differs from that in the run before, in words."""


class SeriesQuantity(msgspec.Struct, frozen=True):
    """Quantity over the runs of a series."""

    name: str
    label: str
    is_time: bool
    """Whether its values are in µs; others are ratios."""
    values: list[float | None]
    """Value in each run; null where it is not known."""


class ChangedQuantity(msgspec.Struct, frozen=True):
    """Change of one quantity."""

    name: str
    label: str
    before: float
    """Median of the runs since the change before, or since the first one."""
    after: float
    """Median of the runs up to the next change."""
    effect: float
    """Share by which it has grown."""
    chance: float
    """Chance of as much where nothing has changed, corrected for all quantities and runs."""


class SeriesChange(msgspec.Struct, frozen=True):
    """Change of a series from one run to the next, in one or several quantities."""

    at: int
    """Index of the first run after it."""
    run: str
    """Name of that run; ``before`` is the one before it."""
    before: str
    started_us: int
    is_slower: bool
    """Whether something takes longer since."""
    quantities: list[ChangedQuantity]
    """Quantities that changed: wall time first, then those with most time."""
    version: list[str]
    nodes: list[str]
    """Nodes that became slower than the others."""
    reverted_at: int | None
    """Index of the run since which it is as before again."""
    sentence: str


class SeriesHistory(msgspec.Struct, frozen=True):
    """History of a series."""

    series: str
    title: str
    runs: list[SeriesRun]
    quantities: list[SeriesQuantity]
    changes: list[SeriesChange]
    nodes: list[SlowNode]


def read_history(index: Index, series: str, last: int) -> SeriesHistory:
    """Return the history of the last runs of a series in an index.

    Raises
    ------
    StoreError
        The index cannot be read.
    """
    return make_history(series, index.title(series), index.runs(series, last), index.details)


def make_history(
    series: str,
    title: str,
    rows: Sequence[RunRow],
    read_details: Callable[[Sequence[str]], Mapping[str, Details]],
) -> SeriesHistory:
    """Return the history of a series.

    Parameters
    ----------
    rows
        Its runs, the oldest first.
    read_details
        Reads the details of runs by their ids.
    """
    quantities = _chosen(rows)
    known = [row.is_good for row in rows]
    values = _logarithms(quantities, known)
    points = change_points(values, math.log1p(LEAST_EFFECT)) if quantities else []
    versions = _versions(rows)
    events = _events(points)
    recent = [row.id for row in rows if row.is_good][-RECENT:]
    near = {row.id for event in events for row in _around(rows, event[0].at)}
    details = read_details(sorted(near.union(recent)))
    changes = [_change(event, rows, quantities, points, versions, details) for event in events]
    changes = [
        msgspec.structs.replace(one, sentence=_sentence(one, rows)) for one in _with_reversions(changes)
    ]
    listed = [SeriesRun(*_of_row(row), versions[at]) for at, row in enumerate(rows)]
    slow = slow_nodes([details[run] for run in recent if run in details])
    return SeriesHistory(series, title, listed, quantities, changes, slow)


def _of_row(row: RunRow) -> tuple[str, str, str, int, bool]:
    return row.id, row.name, row.folder, row.started_us, row.is_good


def _chosen(rows: Sequence[RunRow]) -> list[SeriesQuantity]:
    """Return the quantities that are looked at: wall time, nodes, parts and functions with enough time."""
    names = sorted({name for row in rows for name in row.quantities})
    columns = {name: [row.quantities.get(name) for row in rows] for name in names}
    total = _middle([sum(us for name, us in row.quantities.items() if name.startswith(PART)) for row in rows])
    means = {
        name: statistics.fmean(value or 0.0 for value in column)
        for name, column in columns.items()
        if sum(value is not None for value in column) >= LEAST_PRESENT * len(rows)
    }
    functions = sorted((name for name in means if name.startswith(FUNCTION)), key=lambda name: -means[name])
    parts = [name for name in means if name.startswith((PART, LOST))]
    chosen = [WALL] if WALL in means else []
    chosen += [NODES] if NODES in means else []
    chosen += [name for name in (*parts, *functions[:MOST_FUNCTIONS]) if means[name] >= LEAST_PART * total]
    return [SeriesQuantity(name, _label(name), name != NODES, columns[name]) for name in chosen]


def _label(name: str) -> str:
    if name == WALL:
        return "wall time"
    if name == NODES:
        return "slowest node against the others"
    if name.startswith(FUNCTION):
        return name.removeprefix(FUNCTION)
    return _NAMES.get(name.rpartition(" ")[2], name)


def _middle(values: Sequence[float]) -> float:
    return statistics.median(values) if values else 0.0


def _logarithms(quantities: Sequence[SeriesQuantity], known: Sequence[bool]) -> Float64Array:
    """Return logarithms of the values, float64[runs, quantities]; NaN where they are not known."""
    table = np.array(
        [[math.nan if value is None else value for value in one.values] for one in quantities], np.float64
    ).reshape(len(quantities), len(known))
    table[:, ~np.array(known, np.bool_)] = math.nan
    # What is 0 in some runs has a noise as large as a part that is just looked at.
    floors = np.array([LEAST_PART * _middle([one or 0.0 for one in row.values]) + 1e-9 for row in quantities])
    logarithms: Float64Array = np.log(np.maximum(table, 0.0) + floors[:, None]).T
    return logarithms


def _versions(rows: Sequence[RunRow]) -> list[list[str]]:
    """Return what is another version in each run than in the one before."""
    pairs = itertools.pairwise(row.version for row in rows)
    return [[], *(now.changes_from(before) for before, now in pairs)][: len(rows)]


def _around(rows: Sequence[RunRow], at: int) -> Sequence[RunRow]:
    return rows[max(0, at - AROUND) : at + AROUND]


def _events(points: Sequence[ChangePoint]) -> list[list[ChangePoint]]:
    """Return change points that belong together, the surest first in each."""
    left = sorted(points, key=lambda one: one.chance)
    events = []
    while left:
        first = left[0]
        together = [one for one in left if abs(one.at - first.at) <= TOGETHER]
        events.append(together)
        left = [one for one in left if one not in together]
    return sorted(events, key=lambda event: event[0].at)


def _change(
    event: Sequence[ChangePoint],
    rows: Sequence[RunRow],
    quantities: Sequence[SeriesQuantity],
    points: Sequence[ChangePoint],
    versions: Sequence[Sequence[str]],
    details: Mapping[str, Details],
) -> SeriesChange:
    at = event[0].at
    found = []
    for one in event:
        quantity = quantities[one.quantity]
        bounds = [0, *(other.at for other in points if other.quantity == one.quantity), len(rows)]
        place = bounds.index(one.at)
        before, after = (
            _middle([value for value in quantity.values[begin:end] if value is not None])
            for begin, end in ((bounds[place - 1], one.at), (one.at, bounds[place + 1]))
        )
        effect = after / before - 1.0 if before > 0.0 else math.inf
        found.append(
            ChangedQuantity(quantity.name, quantity.label, before, after, min(effect, 1e6), one.chance)
        )
    found.sort(key=lambda one: (one.name != WALL, -abs(one.after - one.before)))
    near = [
        words
        for number in range(max(0, at - TOGETHER), min(len(rows), at + TOGETHER + 1))
        for words in versions[number]
    ]
    return SeriesChange(
        at=at,
        run=rows[at].name,
        before=rows[at - 1].name,
        started_us=rows[at].started_us,
        is_slower=found[0].after > found[0].before,
        quantities=found,
        version=list(versions[at]) or near,
        nodes=_nodes(at, rows, details),
        reverted_at=None,
        sentence="",
    )


def _nodes(at: int, rows: Sequence[RunRow], details: Mapping[str, Details]) -> list[str]:
    """Return the nodes that became slower than the others, the slowest first."""
    known = [
        (row.id in {one.id for one in rows[at:]}, details[row.id])
        for row in _around(rows, at)
        if row.id in details
    ]
    courses: dict[tuple[str, str], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for is_after, one in known:
        for function, paces in one.paces.items():
            for node, pace in paces.items():
                courses[function, node][is_after].append(math.log(pace))
    whole = {key: one for key, one in courses.items() if min(map(len, one)) >= 2}
    if not whole:
        return []
    # Noise is learned from all nodes together: each has few runs.
    noise = _middle([statistics.stdev(part) for one in whole.values() for part in one])
    slower: dict[str, float] = {}
    for (_, node), (before, after) in whole.items():
        grown = statistics.fmean(after) - statistics.fmean(before)
        error = noise * math.sqrt(1 / len(before) + 1 / len(after))
        if grown > max(APART, SURE * error):
            slower[node] = max(slower.get(node, 0.0), grown)
    # If most of them are, it is not the nodes.
    is_of_nodes = 2 * len(slower) < len({node for _, node in whole})
    return sorted(slower, key=lambda node: -slower[node]) if is_of_nodes else []


def _with_reversions(changes: Sequence[SeriesChange]) -> list[SeriesChange]:
    """Return the changes, each with the run since which it is as before again."""
    found = []
    for number, one in enumerate(changes):
        main = one.quantities[0]
        reverted = None
        for later in changes[number + 1 :]:
            again = next((other for other in later.quantities if other.name == main.name), None)
            if again is not None:
                # Back by at least three quarters of the way.
                back = (
                    (again.before - again.after) / (main.after - main.before)
                    if main.after != main.before
                    else 0.0
                )
                reverted = later.at if 0.75 <= back <= 1.33 else None
                break
        found.append(msgspec.structs.replace(one, reverted_at=reverted))
    return found


def _sentence(change: SeriesChange, rows: Sequence[RunRow]) -> str:
    main, *others = change.quantities
    explaining = [one for one in others if one.name.startswith((FUNCTION, PART, LOST))][:3]
    also = ", ".join(f"{one.label} {_percent(one.effect)}" for one in explaining)
    words = (
        f"Since {change.run} ({day(change.started_us)}): {main.label} {_percent(main.effect)} ({_span(main)})"
    )
    words += f"; with it {also}" if also else ""
    if change.nodes:
        more = len(change.nodes) - MOST_NODES_NAMED
        named = ", ".join(change.nodes[:MOST_NODES_NAMED]) + (f" and {more} more" if more > 0 else "")
        words += f"; on {'node' if len(change.nodes) == 1 else 'nodes'} {named}"
    words += f"; {', '.join(change.version)}" if change.version else ""
    words += f"; {chance_words(main.chance)}"
    if change.reverted_at is not None:
        back = rows[change.reverted_at]
        words += f"; as before again since {back.name} ({day(back.started_us)})"
    return f"{words}."


def _percent(effect: float) -> str:
    return format_change(effect, ".0f" if abs(effect) >= 0.1 else ".1f") if effect < 100 else "much more"


def _span(one: ChangedQuantity) -> str:
    if one.name == NODES:
        return f"{one.before:.2f}× → {one.after:.2f}×"
    return f"{format_duration_us(one.before)} → {format_duration_us(one.after)}"


def chance_words(chance: float) -> str:
    """Return how sure a change is, in words."""
    if chance < 1e-6:
        return "by chance less than once in a million"
    return f"by chance once in {max(1, round(1 / chance)):,}"
