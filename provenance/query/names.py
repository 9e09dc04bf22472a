"""What the names in a filter mean in a run: functions, call paths, nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Table, select

from chimbuko.arrays import RankKey
from chimbuko.provenance.query.filters import CallFilter, matching_names
from chimbuko.provenance.query.findings import FindingCalls, finding_calls
from chimbuko.provenance.query.planner import Resolved
from chimbuko.provenance.query.rows import AnyRow, AnySelect
from chimbuko.provenance.store.numbering import NO_PATH, NumberedNames
from chimbuko.provenance.store.tables import FUNCTIONS, PATHS, STREAM_HEALTH, TEXTS

PathRow = tuple[int, int, int]
"""Number, parent and function of a call path."""


@dataclass
class PathTree:
    """The call paths of a run, as far as they are stored; asked for again when a number is new.

    Parameters
    ----------
    read
        Gives those from a number on, by number.
    """

    read: Callable[[int], Sequence[PathRow]]
    _parents: list[int] = field(default_factory=list)
    _functions: list[int] = field(default_factory=list)

    def refresh(self) -> None:
        """Take in what is new."""
        for _, parent, function in self.read(len(self._parents)):
            self._parents.append(parent)
            self._functions.append(function)

    def functions(self, path: int) -> list[int]:
        """The functions of a path, outermost first; none of a path that is not known."""
        if path >= len(self._parents):
            self.refresh()
        found = []
        while path != NO_PATH:
            found.append(self._functions[path])
            path = self._parents[path]
        return found[::-1]

    def through(self, functions: Collection[int]) -> Iterator[int]:
        """Paths that one of these functions is on."""
        self.refresh()
        is_found: list[bool] = []
        for number, (parent, function) in enumerate(zip(self._parents, self._functions, strict=True)):
            is_found.append(function in functions or (parent != NO_PATH and is_found[parent]))
            if is_found[-1]:
                yield number


class RunNames:
    """All that has a name in a run, and what filters mean by it.

    Parameters
    ----------
    rows
        Runs a statement.
    run
        Gives the run's number.
    """

    def __init__(self, rows: Callable[[AnySelect], Sequence[AnyRow]], run: Callable[[], int]) -> None:
        self._rows = rows
        self._run = run
        self.functions = NumberedNames(lambda first: self._numbered(FUNCTIONS, "name", first))
        self.texts = NumberedNames(lambda first: self._numbered(TEXTS, "text", first))
        self.paths = PathTree(self._paths_from)

    def nodes(self) -> list[str]:
        """Names of the nodes, sorted."""
        node = STREAM_HEALTH.c.node
        rows = self._rows(select(node).where(STREAM_HEALTH.c.run == self._run()).distinct().order_by(node))
        return [name for (name,) in rows]

    def nodes_of_ranks(self) -> dict[RankKey, str]:
        """(Program, rank) to node."""
        stream = STREAM_HEALTH.c
        statement = select(stream.program, stream.rank, stream.node).where(stream.run == self._run())
        return {(program, rank): node for program, rank, node in self._rows(statement)}

    def programs_of_functions(self) -> dict[int, int]:
        """Number of each function to its program."""
        function = FUNCTIONS.c
        statement = select(function.number, function.program).where(function.run == self._run())
        return {row.number: row.program for row in self._rows(statement)}

    def resolve(self, wanted: CallFilter) -> Resolved:
        """What a filter means; its detector is not looked at."""
        functions = None if wanted.function is None else self._functions(wanted.function)
        paths = None
        if wanted.through is not None:
            paths = list(self.paths.through(set(self._functions(wanted.through))))
        ranks = None
        if wanted.node is not None:
            ranks = self._ranks_on(matching_names(wanted.node, set(self.nodes())))
        finding = self.finding(wanted)
        is_nothing = [] in (functions, paths, ranks) or (wanted.finding is not None and finding is None)
        place = None if finding is None else finding.place(self._run())
        resolved = Resolved(self._run(), functions, paths, ranks, finding=place, is_nothing=is_nothing)
        return resolved if wanted.text is None else self._with_text(resolved, wanted.text.casefold())

    def finding(self, wanted: CallFilter) -> FindingCalls | None:
        """Which calls belong to the finding that a filter names; None where it names none that is known."""
        return None if wanted.finding is None else finding_calls(wanted.finding, self._run(), self._rows)

    def _functions(self, pattern: str) -> list[int]:
        self.functions.refresh()
        names = matching_names(pattern, set(self.functions.values()))
        return [number for number, name in self.functions.items() if name in names]

    def _ranks_on(self, nodes: Collection[str]) -> list[RankKey]:
        stream = STREAM_HEALTH.c
        statement = select(stream.program, stream.rank).where(stream.run == self._run())
        rows = self._rows(statement.where(stream.node.in_(sorted(nodes))))
        return [(program, rank) for program, rank in rows]

    def _with_text(self, resolved: Resolved, text: str) -> Resolved:
        self.functions.refresh()
        functions = [number for number, name in self.functions.items() if text in name.casefold()]
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
