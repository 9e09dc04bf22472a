"""Meaning of the names in a filter in a run: functions, call paths, nodes, recurring findings."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec
from msgspec.structs import replace
from sqlalchemy import ColumnElement, Float, String, Table, and_, cast, column, literal, select

from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.core.arrays import RankKey
from chimbuko.core.calls.functionnames import shown_name
from chimbuko.core.calls.record import judged_us
from chimbuko.core.unpacking import unpacked
from chimbuko.provenance.query.filters import CallFilter, matching_functions, matching_names
from chimbuko.provenance.query.planner import IndexScan, Resolved, of_ranks, one_of
from chimbuko.provenance.query.rows import AnyRow, AnySelect
from chimbuko.provenance.store.numbering import NO_PATH, NumberedNames
from chimbuko.provenance.store.tables import (
    CALLS,
    FUNCTIONS,
    INCIDENTS,
    PATHS,
    RECURRENCES,
    STREAM_HEALTH,
    TEXTS,
)

_FINDING = re.compile(r"R(\d{1,9})", re.ASCII)
PathRow = tuple[int, int, int]
"""Number, parent and function of a call path."""


class PathTree(msgspec.Struct):
    """Call paths of a run as a tree, as far as they are stored; read again when a number is new.

    Parameters
    ----------
    read
        Returns the paths from a number on, by number.
    """

    read: Callable[[int], Sequence[PathRow]]
    _parents: list[int] = msgspec.field(default_factory=list)
    _functions: list[int] = msgspec.field(default_factory=list)

    def refresh(self) -> None:
        """Read the paths that are new."""
        for _, parent, function in self.read(len(self._parents)):
            self._parents.append(parent)
            self._functions.append(function)

    def functions(self, path: int) -> list[int]:
        """Return the functions of a path, outermost first; none for a path that is not known."""
        if path >= len(self._parents):
            self.refresh()
        found = []
        while path != NO_PATH:
            found.append(self._functions[path])
            path = self._parents[path]
        return found[::-1]

    def ending_in(self, function: int) -> list[int]:
        """Return the paths that end in a function."""
        self.refresh()
        return [path for path, last in enumerate(self._functions) if last == function]

    def through(self, functions: Collection[int]) -> Iterator[int]:
        """Yield the paths that one of these functions is on."""
        self.refresh()
        is_found: list[bool] = []
        for number, (parent, function) in enumerate(zip(self._parents, self._functions, strict=True)):
            is_found.append(function in functions or (parent != NO_PATH and is_found[parent]))
            if is_found[-1]:
                yield number


class RunNames:
    """Names in a run, and what filters mean by them.

    Parameters
    ----------
    rows
        Runs a statement.
    run
        Returns the run's number.
    """

    def __init__(self, rows: Callable[[AnySelect], Sequence[AnyRow]], run: Callable[[], int]) -> None:
        self._rows = rows
        self._run = run
        self.functions = NumberedNames(lambda first: self._numbered(FUNCTIONS, "name", first))
        self.texts = NumberedNames(lambda first: self._numbered(TEXTS, "text", first))
        self.paths = PathTree(self._paths_from)

    def nodes(self) -> list[str]:
        """Return the names of the nodes, sorted."""
        node = STREAM_HEALTH.c.node
        rows = self._rows(select(node).where(STREAM_HEALTH.c.run == self._run()).distinct().order_by(node))
        return [name for (name,) in rows]

    def nodes_of_ranks(self) -> dict[RankKey, str]:
        """Return the node of each (program, rank)."""
        stream = STREAM_HEALTH.c
        statement = select(stream.program, stream.rank, stream.node).where(stream.run == self._run())
        return {(program, rank): node for program, rank, node in self._rows(statement)}

    def programs_of_functions(self) -> dict[int, int]:
        """Return the program of each function by the function's number."""
        function = FUNCTIONS.c
        statement = select(function.number, function.program).where(function.run == self._run())
        return {row.number: row.program for row in self._rows(statement)}

    def resolve(self, wanted: CallFilter) -> Resolved:
        """Return what the names of a filter mean; its detector is ignored."""
        functions = None if wanted.function is None else self._functions(wanted.function)
        paths = None
        if wanted.through is not None:
            paths = list(self.paths.through(set(self._functions(wanted.through))))
        ranks = None
        if wanted.node is not None:
            ranks = self._ranks_on(matching_names(wanted.node, set(self.nodes())))
        finding = self.finding(wanted)
        is_nothing = [] in (functions, paths, ranks) or (wanted.finding is not None and finding is None)
        scan = None if finding is None else finding.scan(self._run())
        resolved = Resolved(self._run(), functions, paths, ranks, finding=scan, is_nothing=is_nothing)
        return resolved if wanted.text is None else self._with_text(resolved, wanted.text.casefold())

    def finding(self, wanted: CallFilter) -> FindingCalls | None:
        """Return which calls belong to the finding that a filter names.

        None where it names none that is known.
        """
        return None if wanted.finding is None else finding_calls(wanted.finding, self._run(), self._rows)

    def _functions(self, pattern: str) -> list[int]:
        self.functions.refresh()
        names = matching_functions(pattern, set(self.functions.values()))
        return [number for number, name in self.functions.items() if name in names]

    def _ranks_on(self, nodes: Collection[str]) -> list[RankKey]:
        stream = STREAM_HEALTH.c
        statement = select(stream.program, stream.rank).where(stream.run == self._run())
        rows = self._rows(statement.where(stream.node.in_(sorted(nodes))))
        return [(program, rank) for program, rank in rows]

    def _with_text(self, resolved: Resolved, text: str) -> Resolved:
        self.functions.refresh()
        functions = [number for number, name in self.functions.items() if _has(text, name)]
        nodes = {node for node in self.nodes() if text in node.casefold()}
        return replace(
            resolved,
            text_functions=functions,
            text_paths=list(self.paths.through(set(functions))),
            text_ranks=self._ranks_on(nodes) if nodes else (),
            is_nothing=resolved.is_nothing or not (functions or nodes),
        )

    def _numbered(self, table: Table, name: str, first: int) -> list[tuple[int, str]]:
        columns = table.c
        statement = select(columns.number, columns[name])
        rows = self._rows(statement.where(columns.run == self._run(), columns.number >= first))
        return [(number, name) for number, name in rows]

    def _paths_from(self, first: int) -> list[PathRow]:
        path = PATHS.c
        statement = select(path.number, path.parent, path.function).order_by(path.number)
        rows = self._rows(statement.where(path.run == self._run(), path.number >= first))
        return [(number, parent, function) for number, parent, function in rows]


class FindingCalls(msgspec.Struct, frozen=True):
    """Conditions that a call must meet to belong to a finding."""

    program: int
    function: int = -1
    """Number of its function; -1 if any will do."""
    ranks: Sequence[int] = ()
    """Ranks of the finding; empty if any will do."""
    judged_us: float = 0.0
    """Least runtime, of the kind that is judged; 0 if any will do."""
    short_us: float = 0.0
    """Cost below which the incident must be whose only call it is; 0 if any will do."""

    def scan(self, run: int) -> IndexScan:
        """Return the index scan that finds such calls."""
        call = CALLS.c
        if self.short_us:
            return IndexScan("ix_calls_incident_id", (call.incident_id.in_(self._short(run)),))
        if self.ranks:
            ranks = [(self.program, rank) for rank in self.ranks]
            return IndexScan("ix_calls_rank", (one_of(call.rank, self.ranks), of_ranks(ranks)))
        of_function = call.function == self.function
        if not self.judged_us:
            return IndexScan("ix_calls_function", (of_function,), True)
        # An open call belongs to no mode yet.
        has_ended = call.is_open.is_(False)
        is_slow = judged_us(call.expected_us, call.severity_us) >= self.judged_us
        return IndexScan("ix_calls_function", (of_function, has_ended, is_slow), True)

    def sql(self) -> str:
        """Return the same as a readable condition on the views of calls."""
        if self.short_us:
            return (
                "incident_id IN (SELECT 'I' || number FROM incidents WHERE run = :run AND merged_into = 0 "
                f"AND NOT is_gone AND program = {self.program} AND flags = 1 AND cost_us < {self.short_us!r})"
            )
        if self.ranks:
            return f"program = {self.program} AND rank IN ({', '.join(map(str, self.ranks))})"
        name = f"SELECT name FROM functions WHERE run = :run AND number = {self.function}"
        of_function = f"program = {self.program} AND function = ({name})"
        if not self.judged_us:
            return of_function
        runtime = judged_us(column("expected_us", Float), column("severity_us", Float))
        return f"{of_function} AND NOT is_open AND {runtime} >= {self.judged_us!r}"

    def _short(self, run: int) -> AnySelect:
        columns = INCIDENTS.c
        return select(literal("I").concat(cast(columns.number, String))).where(
            is_current(run),
            columns.program == self.program,
            columns.flags == 1,
            columns.cost_us < self.short_us,
        )


def _has(text: str, function: str) -> bool:
    """Return whether a function's name, stored or shown, contains a text, whatever the case."""
    return text in function.casefold() or text in shown_name(function).casefold()


def finding_calls(
    finding: str, run: int, rows: Callable[[AnySelect], Sequence[AnyRow]]
) -> FindingCalls | None:
    """Return which calls belong to a finding of a run, by its id; None if there is no such finding.

    Calls of a slow mode take at least as long as its shortest; those of a drift, and of slow threads, are
    all of the function; those of slow ranks, and of a deadlock, are all on these; short delays are calls that
    are alone in their incidents.

    Parameters
    ----------
    rows
        Runs a statement.
    """
    match = _FINDING.fullmatch(finding)
    columns = RECURRENCES.c
    statement = select(columns.function, columns.details).where(
        columns.run == run, columns.number == (int(match[1]) if match else 0)
    )
    for function, details in rows(statement):
        found = msgspec.json.decode(unpacked(details), type=Recurrence)
        match found.kind:
            case RecurrenceKind.INTERRUPTIONS:
                return FindingCalls(found.program, short_us=found.longest_us)
            case RecurrenceKind.SLOW_RANKS:
                return FindingCalls(found.program, ranks=found.ranks)
            case RecurrenceKind.SLOW_THREADS:
                return FindingCalls(found.program, function)
            case RecurrenceKind.DEADLOCK:
                return FindingCalls(found.program, ranks=found.ranks)
            case RecurrenceKind.LATE_THREADS:
                return FindingCalls(found.program, function, ranks=found.ranks)
            case RecurrenceKind.DRIFT:
                return FindingCalls(found.program, function)
            case RecurrenceKind.SLOW_MODE:
                return FindingCalls(found.program, function, judged_us=found.shortest_us + found.usual_us)
    return None


def is_current(run: int) -> ColumnElement[bool]:
    """Return the condition that an incident of a run is no part of others, and has flagged calls."""
    columns = INCIDENTS.c
    return and_(columns.run == run, columns.merged_into == 0, columns.is_gone.is_(False))
