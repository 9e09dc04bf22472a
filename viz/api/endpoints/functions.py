"""Functions: their statistics over all ranks, the distribution of their runtimes, and their call paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from chimbuko.provenance.query.aggregates import Total
from chimbuko.provenance.query.filters import MOST, CallFilter, Number, Text
from chimbuko.provenance.query.run import RankPath
from chimbuko.runtime.protocol.messages import FunctionStatistics, PathStatistics
from chimbuko.viz.api.distribution import Distribution, distribution
from chimbuko.viz.api.endpoint import Answer, Missing, ServedRun, get
from chimbuko.viz.api.parameters import PageParameters, ProgramWanted, RankText, page_of, parse_rank
from chimbuko.viz.api.statements import functions_statement, literal, of_program, paths_statement


class FunctionsAnswer(Answer, frozen=True, kw_only=True):
    """Page of the list of functions."""

    functions: list[FunctionStatistics]
    next: str | None
    """Cursor of the next page; null at the end."""
    total: int


class FunctionParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Name of a function."""

    name: Annotated[Text, Meta(description="The whole name of a function, as lists show it.")]
    program: Annotated[
        Number | None,
        Meta(description="Number of its program; by default the one where the function lost most time."),
    ] = None


class FunctionAnswer(Answer, frozen=True, kw_only=True):
    """One function."""

    statistics: FunctionStatistics
    distribution: Distribution | None
    """Distribution of the function's runtimes, by the newest model that was kept; null before there is one.
    """
    exclusive_us: float
    """Exclusive time of all its calls, in µs."""
    slept_us: float | None
    """Part of this time that their threads slept; null where too few looks at them say so."""


def _functions_statement(_: ServedRun, wanted: PageParameters) -> str | None:
    if wanted.cursor is not None:
        return None
    order = "s.severity_us DESC, s.anomalies DESC, s.calls DESC, f.program, f.name"
    return functions_statement("", f" ORDER BY {order} LIMIT {wanted.limit}")


def _function_statement(_: ServedRun, wanted: FunctionParameters) -> str:
    return functions_statement(f" AND f.name = {literal(wanted.name)}{of_program('f', wanted.program)}")


@get("/functions", _functions_statement)
def functions(run: ServedRun, wanted: PageParameters) -> FunctionsAnswer:
    """List all functions in pages, those with the most lost time first."""
    rows = run.feed.state.totals.worst_functions()
    page, following = page_of(rows, wanted)
    return FunctionsAnswer(functions=page, next=following, total=len(rows))


@get("/function", _function_statement)
def function(run: ServedRun, wanted: FunctionParameters) -> FunctionAnswer:
    """Return one function: its statistics and the distribution of its runtimes over all ranks.

    The name is an argument and no part of the path, because names of functions hold slashes.
    """
    mine = _known(run, wanted)
    model = run.provenance.models.at(mine.program, mine.name, MOST)
    config = run.feed.state.info.config
    by_path_to_us = run.provenance.judged_by_path_to_us().get((mine.program, mine.name), 0.0)
    time = run.provenance.function_times().get((mine.program, mine.name))
    return FunctionAnswer(
        statistics=mine,
        distribution=distribution(model, config, by_path_to_us) if model else None,
        exclusive_us=time.exclusive_us if time else 0.0,
        slept_us=time.slept_us if time else None,
    )


def _known(run: ServedRun, wanted: FunctionParameters) -> FunctionStatistics:
    rows = [row for row in run.feed.state.totals.worst_functions() if row.name == wanted.name]
    mine = next((row for row in rows if wanted.program in (None, row.program)), None)
    if mine is None:
        place = "this run" if wanted.program is None else f"program {wanted.program} in this run"
        raise Missing(f"function {wanted.name[:200]!r}: not one of {place}")
    return mine


class FunctionByRankAnswer(Answer, frozen=True, kw_only=True):
    """One function on each rank of its program that called it and whose stream has ended; the three lists
    belong together and are in the order of ranks.
    """

    program: int
    ended: int
    """Number of ranks of the program whose streams have ended, also of those that never called it."""
    ranks: list[int]
    calls: list[int]
    exclusive_us: list[float]
    """Exclusive time of all calls on each rank, in µs."""


@get("/function-by-rank")
def function_by_rank(run: ServedRun, wanted: FunctionParameters) -> FunctionByRankAnswer:
    """Return the calls and the exclusive time of one function on each rank whose stream has ended."""
    program = _known(run, wanted).program
    times = run.provenance.times_by_rank(program, wanted.name)
    called = {rank: time for rank, time in times.items() if time.calls}
    return FunctionByRankAnswer(
        program=program,
        ended=len(times),
        ranks=list(called),
        calls=[time.calls for time in called.values()],
        exclusive_us=[time.exclusive_us for time in called.values()],
    )


@get("/models.ndjson")
def models(run: ServedRun) -> Iterator[Distribution]:
    """List the newest distributions of the runtimes of all functions, one per line."""
    config = run.feed.state.info.config
    by_path_to_us = run.provenance.judged_by_path_to_us()
    for model in run.provenance.models.newest():
        yield distribution(model, config, by_path_to_us.get((model.program, model.name), 0.0))


class PathsParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Filter of call paths."""

    function: Annotated[
        Text | None,
        Meta(description="Only paths that end in this function, by its whole name, and their callers."),
    ] = None
    program: ProgramWanted = None
    rank: Annotated[
        RankText | None,
        Meta(
            description="Only calls of this rank, as `program:rank`: their times are known once its stream "
            "has ended, how runtimes are spread over all ranks together only."
        ),
    ] = None


class PathRuntimes(msgspec.Struct, frozen=True):
    """Statistics of the runtimes of a call path's calls."""

    mean_us: float
    stddev_us: float
    minimum_us: float
    maximum_us: float


class PathNode(msgspec.Struct, kw_only=True):
    """Call path: a function, called by those above it."""

    parent: int | None
    """Index of the caller in the list, before this one; null at the root."""
    program: int
    function: str
    path: int | None = None
    """Number of the path, for the filter of calls; null where none of its calls is abnormal."""
    calls: int = 0
    """Number of all calls, also of first ones and of open ones; 0 if nothing is reported for this path
    itself.
    """
    exclusive_us: float = 0.0
    """Exclusive time of these calls, all together, in µs."""
    slept_us: float | None = None
    """Part of this time that their threads slept; null where too few looks at them say so."""
    exclusive: PathRuntimes | None = None
    inclusive: PathRuntimes | None = None
    anomalies: int = 0
    severity_us: float = 0.0
    """Severity of the anomalies, all together, in µs."""


class PathsAnswer(Answer, frozen=True, kw_only=True):
    """Tree of call paths."""

    paths: list[PathNode]
    """Call paths; callers come before the functions that they call."""


class PathTree:
    """Tree of the call paths of a run, while it is built."""

    def __init__(self) -> None:
        self.nodes: list[PathNode] = []
        self._places: dict[tuple[int | None, int, str], int] = {}

    def node(self, program: int, functions: list[str]) -> PathNode:
        """Return the node of a path, outermost function first; it is made where there is none."""
        place = None
        for function in functions:
            key = place, program, function
            if key not in self._places:
                self._places[key] = len(self.nodes)
                self.nodes.append(PathNode(parent=place, program=program, function=function))
            place = self._places[key]
        assert place is not None
        return self.nodes[place]

    def add_statistics(self, statistics: PathStatistics) -> None:
        """Add statistics of the runtimes of a path."""
        node = self.node(statistics.program, statistics.functions)
        node.calls, node.exclusive_us = statistics.all_calls, statistics.total_us
        node.slept_us = statistics.slept_us
        if statistics.calls:
            node.exclusive = _runtimes(statistics, "exclusive")
            node.inclusive = _runtimes(statistics, "inclusive")

    def add_rank_path(self, program: int, path: RankPath) -> None:
        """Add the time of the calls of a path on one rank."""
        node = self.node(program, path.functions)
        node.calls, node.exclusive_us = path.calls, path.exclusive_us

    def add_total(self, total: Total) -> None:
        """Add the cost of the abnormal calls of a path."""
        if total.program is None or not total.functions:
            return  # The path of these calls is not known.
        node = self.node(total.program, total.functions)
        node.path, node.anomalies, node.severity_us = total.path, total.anomalies, total.severity_us


def _paths_statement(_: ServedRun, wanted: PathsParameters) -> str | None:
    if wanted.rank is not None:
        return None  # The paths of one rank are in another table.
    name = "" if wanted.function is None else f" AND f.name = {literal(wanted.function)}"
    return paths_statement(of_program("f", wanted.program) + name)


@get("/paths", _paths_statement)
def paths(run: ServedRun, wanted: PathsParameters) -> PathsAnswer:
    """Return the tree of call paths, over all ranks or of one, with runtimes and abnormal calls."""
    tree = PathTree()
    calls = CallFilter()
    if wanted.rank is None:
        for statistics in run.provenance.path_statistics():
            if _is_wanted(wanted, statistics.program, statistics.functions):
                tree.add_statistics(statistics)
    else:
        program, rank = parse_rank(wanted.rank)
        assert program is not None
        calls = CallFilter(program=program, rank=rank)
        for path in run.provenance.rank_paths(program, rank):
            if _is_wanted(wanted, program, path.functions):
                tree.add_rank_path(program, path)
    for total in run.provenance.calls.totals("path", calls):
        if _is_wanted(wanted, total.program, total.functions):
            tree.add_total(total)
    return PathsAnswer(paths=tree.nodes)


def _is_wanted(wanted: PathsParameters, program: int | None, functions: list[str] | None) -> bool:
    last = functions[-1] if functions else None
    return wanted.function in (None, last) and wanted.program in (None, program)


def _runtimes(statistics: PathStatistics, metric: str) -> PathRuntimes:
    return PathRuntimes(*(getattr(statistics, f"{metric}_{name}") for name in PathRuntimes.__struct_fields__))
