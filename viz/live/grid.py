"""Grid of all ranks over all steps in little memory: the most anomalies, and the most time lost. Pure.

A column is a power of two of steps; when there are too many columns, pairs of them merge. So memory follows
the number of ranks only: 2 kB each. A row shows one or more ranks, of which the one with the largest count is
seen; the layout says which ranks share a row.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Int64Array, RankKey, UInt8Array
from chimbuko.core.calls.record import Silence, StepCount
from chimbuko.provenance.query.steps import Peaks
from chimbuko.provenance.store.coarserlevels import MOST_SHOWN, lost_code


class ProgramRows(msgspec.Struct, frozen=True):
    """Rows of one program, or of some of its ranks."""

    program: int
    first_row: int
    rows: int
    first_place: int
    """Place of the first rank here, among all ranks in order of program and rank."""
    ranks: list[tuple[int, int]]
    """First rank and length of each range of consecutive ranks."""
    ranks_per_row: int


class Grouping(msgspec.Struct, frozen=True):
    """How ranks share rows."""

    most_rows: int
    ranks_per_node: int = 1
    """Number of consecutive ranks on each node: rows are of whole nodes where that leaves enough of them."""
    opened: tuple[int, int] | None = None
    """First and last place of ranks that are shown in rows of fewer ranks, in up to half of the rows."""

    def per_row(self, counts: Sequence[int], most_rows: int, few_nodes: int) -> int:
        """Return the fewest ranks per row with which groups of so many ranks fit into so many rows.

        From ``few_nodes`` on, rows are of whole nodes, even if there is room for more rows.
        """
        fewest = max(1, -(-sum(counts) // max(1, most_rows)))
        largest = max(counts, default=1)
        found = next(
            (n for n in range(fewest, largest) if sum(-(-count // n) for count in counts) <= most_rows),
            max(fewest, largest),
        )
        per_node = self.ranks_per_node
        if found > 1 and (found > per_node or sum(counts) // per_node >= few_nodes):
            return -(-found // per_node) * per_node
        return found


@dataclass(frozen=True)
class Layout:
    """Rows of ranks, limited in number; each is of one program."""

    programs: list[ProgramRows]
    ranks_per_row: int
    """The most of any row."""
    rows: int
    members: npt.NDArray[np.int64]
    """Indexes of the ranks of each row, i8[ranks_per_row, rows]; -1 if a row has fewer."""


def arranged(ranks: Sequence[RankKey], first_place: int, grouping: Grouping) -> Layout:
    """Put ranks, in order of program and rank, into rows; the first of them is at ``first_place``.

    If there are more programs than rows, each still has one.
    """
    parts: list[tuple[int, list[int], bool]] = []
    opened = grouping.opened or (-1, -1)
    places = enumerate(ranks, first_place)
    for (program, is_open, _), keys in groupby(places, lambda one: _part_of(one[0], one[1], opened)):
        parts.append((program, [rank for _, (_, rank) in keys], is_open))
    of_open, of_closed = (
        [len(numbers) for _, numbers, is_open in parts if is_open is of] for of in (True, False)
    )
    per_open = grouping.per_row(of_open, grouping.most_rows // 2, 2)
    rows_open = sum(-(-count // per_open) for count in of_open)
    per_closed = grouping.per_row(of_closed, grouping.most_rows - rows_open, FEW_NODES)
    ranks_per_row = max(per_open if of_open else 1, per_closed if of_closed else 1)
    programs: list[ProgramRows] = []
    first_row = index = 0
    members = [np.empty((0, ranks_per_row), np.int64)]
    for program, numbers, is_open in parts:
        per_row = per_open if is_open else per_closed
        rows = -(-len(numbers) // per_row)
        programs.append(ProgramRows(program, first_row, rows, first_place + index, _runs(numbers), per_row))
        of_rows = np.full((rows, ranks_per_row), -1)
        where = np.arange(index, index + rows * per_row)
        index += len(numbers)
        first_row += rows
        of_rows[:, :per_row] = np.where(where < index, where, -1).reshape(rows, per_row)
        members.append(of_rows)
    return Layout(programs, ranks_per_row, first_row, np.ascontiguousarray(np.concatenate(members).T))


def _part_of(place: int, rank: RankKey, opened: tuple[int, int]) -> tuple[int, bool, bool]:
    """Return the program of a rank, whether its row is opened, and whether it is after those that are."""
    return rank[0], opened[0] <= place <= opened[1], place > opened[1]


def ranks_per_node(ranks: Sequence[RankKey], nodes: Mapping[RankKey, str]) -> int:
    """Return how many consecutive ranks each node has; 1 where nodes have different numbers, or none."""
    runs = [(node, sum(1 for _ in keys)) for node, keys in groupby(ranks, lambda rank: nodes.get(rank, ""))]
    sizes = {size for _, size in runs[:-1]}
    is_even = len(sizes) == 1 and runs[-1][1] <= max(sizes) and len({node for node, _ in runs}) == len(runs)
    return sizes.pop() if is_even else 1


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == sum(runs[-1]):
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((number, 1))
    return runs


Shown = Literal["worst", "sum", "p99"]
"""Number that a row shows for its ranks, each with its worst step: the largest of these numbers, their
sum, or the one that 99 of 100 ranks do not exceed.
"""
FEW_NODES = 8
"""Number of nodes from which on a row that is not opened is of whole nodes."""
MOST_ROWS = 512
MOST_COLUMNS = 1024
MOST_REPORTED = 2_500
"""Most cells in one update, 10 kB, anomalies and times together; the others are reported the next time."""
LAYERS = 2
"""Number of layers of each cell: anomalies, and the code of the time lost."""

FINEST = Grouping(MOST_ROWS)

_NEVER = np.iinfo(np.int64).max


class GridUpdate(msgspec.Struct, frozen=True):
    """Changes of the grid since the last update."""

    layout: int
    """Number of the layout; where it has changed, the whole grid is to be read anew."""
    steps_per_column: int
    columns: int
    cells: bytes
    """Cells that have grown, as little-endian u4: row << 18 | column << 8 | value."""
    lost: bytes
    """Codes of lost times that have grown, in the form of ``cells``."""
    starts: list[tuple[int, int]]
    """Columns whose start is known now, or is earlier than was reported, each with its start."""


class Picture(msgspec.Struct, frozen=True):
    """Picture of a grid, or of a piece of it, at one time."""

    programs: list[ProgramRows]
    ranks_per_row: int
    rows: int
    first_step: int
    steps_per_column: int
    columns: int
    start_us: list[int]
    """Start of each column, in µs since the epoch; 0 if it is not known."""
    cells: bytes
    """Most anomalies that one rank had in one step, u1[rows, columns], up to 254; 255 where no step was
    analysed. Of sums, codes as those of times.
    """
    lost: bytes
    """Code of the most time that one rank lost in one step, u1[rows, columns]; 255 where no step was
    analysed.
    """


class ShownGrid(msgspec.Struct, frozen=True):
    """Grid of all ranks, or a piece of it, as it is shown."""

    version: int
    layout: int
    """Number that differs where rows of the whole grid stand for other ranks, or other ranks are silent."""
    picture: Picture
    silent: list[tuple[int, RankKey, Silence]]
    """Ranks that report no step, each with its place in the order of ranks."""
    nodes: list[str]
    """Nodes of each row, where rows are of whole nodes; else empty."""


class Grid:
    """Counts by rank and column. Not locked: the owner has to lock.

    Cells only grow, so what is reported twice, or late, does no harm.

    Parameters
    ----------
    steps
        First and last step wanted, of whole columns; others are not taken. None for all, from 0 on.
    steps_per_column
        At first; a power of two.
    """

    def __init__(self, steps: tuple[int, int] | None = None, steps_per_column: int = 1) -> None:
        self._limits = steps
        self._first_step = steps[0] if steps else 0
        self.steps_per_column = steps_per_column
        self.columns = 0
        self._at: dict[RankKey, int] = {}
        # Ordered by layer and column, since news are of few columns and many ranks. 0 is unknown, all else
        # one more.
        self._most = np.zeros((LAYERS, MOST_COLUMNS, 64), np.uint8)
        self._starts = np.zeros(MOST_COLUMNS, np.int64)
        self._silent: frozenset[RankKey] = frozenset()
        self._is_arranged = False
        self._ranks: list[RankKey] = []
        self._order = np.empty(0, np.int64)
        self._members = np.empty((1, 0), np.int64)
        self._layout = self._reported_layout = 0
        self._reported = np.zeros((LAYERS, MOST_COLUMNS, 0), np.uint8)
        self._reported_starts = self._starts.copy()
        self._touched: set[int] = set()

    @property
    def ranks(self) -> list[RankKey]:
        """All ranks, in order: a rank's place is its index."""
        self._arrange()
        return self._ranks

    @property
    def layout(self) -> int:
        """Number that differs where rows stand for other ranks, or others are silent; the same in all
        processes.
        """
        self._arrange()
        return self._layout

    def name(self, ranks: Iterable[RankKey]) -> None:
        """Add ranks, whether they reported steps or not."""
        known = len(self._at)
        for rank in ranks:
            self._at.setdefault(rank, len(self._at))
        if len(self._at) == known:
            return
        self._is_arranged = False
        held = self._most.shape[2]
        # The last place stays empty: it stands for ranks that a row lacks.
        if len(self._at) >= held:
            # Only columns that are used are touched: of 100,000 ranks all take 200 MB.
            most = np.zeros((LAYERS, MOST_COLUMNS, max(len(self._at) + 1, 2 * held)), np.uint8)
            most[:, : self.columns, :held] = self._most[:, : self.columns]
            self._most = most

    def note_silent(self, ranks: frozenset[RankKey]) -> None:
        """Note the ranks that report no step."""
        self._is_arranged = self._is_arranged and ranks == self._silent
        self._silent = ranks

    def add_steps(self, steps: Sequence[StepCount]) -> None:
        """Add steps of any ranks."""
        if not steps:
            return
        keys = [(step.program, step.rank) for step in steps]
        self.name(keys)
        at = np.array([self._at[key] for key in keys], np.int64)
        numbers = np.array([step.step for step in steps], np.int64)
        most = np.array([min(step.anomalies, MOST_SHOWN) for step in steps], np.uint8)
        lost = lost_code([step.severity_us for step in steps])
        self._add(at, numbers, np.stack([most, lost]) + np.uint8(1))
        self.add_starts((step.step, step.start_us) for step in steps)

    def add_peaks(self, peaks: Peaks) -> None:
        """Add stretches of steps of any ranks."""
        while self.steps_per_column < peaks.length:
            self._merge_pairs()
        of_ranks, which = np.unique(peaks.programs << 32 | peaks.ranks, return_inverse=True)
        keys = [(key >> 32, key & 0xFFFFFFFF) for key in of_ranks.tolist()]
        self.name(keys)
        at = np.array([self._at[key] for key in keys], np.int64)[which]
        lengths = peaks.length * np.arange(peaks.most.shape[1])
        most = np.stack([peaks.most, peaks.lost])
        if len(at) and (peaks.steps == peaks.steps[0]).all():
            self._add_block(at, peaks.steps[0] + lengths, most)
        else:
            numbers = peaks.steps[:, None] + lengths
            self._add(np.repeat(at, len(lengths)), numbers.ravel(), most.reshape(LAYERS, -1))

    def add_starts(self, starts: Iterable[tuple[int, int]]) -> None:
        """Add the starts of steps that were added; 0 if one is not known."""
        for step, start_us in starts:
            column = (step - self._first_step) // self.steps_per_column
            if start_us and 0 <= column < self.columns:
                known = int(self._starts[column])
                self._starts[column] = min(known or start_us, start_us)
                self._touched.add(column)

    def changes(self) -> GridUpdate | None:
        """Return the changes since the last call; None if there are none."""
        if self.layout != self._reported_layout:
            self.forget_changes()
            return GridUpdate(self.layout, self.steps_per_column, self.columns, b"", b"", [])
        if not self._touched:
            return None
        grown: list[list[npt.NDArray[np.uint32]]] = [[] for _ in range(LAYERS)]
        starts: list[tuple[int, int]] = []
        left = MOST_REPORTED
        for column in sorted(self._touched):
            if self._starts[column] != self._reported_starts[column]:
                self._reported_starts[column] = self._starts[column]
                starts.append((column, int(self._starts[column])))
            shown = self._shown(self._most[:, column : column + 1])[:, 0]
            is_left = False
            for layer, most in enumerate(shown):
                all_rows = np.flatnonzero(most > self._reported[layer, column])
                rows = all_rows[:left]
                self._reported[layer, column, rows] = most[rows]
                told = rows << 18 | column << 8 | (most[rows].astype(np.int64) - 1)
                grown[layer].append(told.astype("<u4"))
                left -= len(rows)
                is_left |= len(rows) < len(all_rows)
            if not is_left:
                self._touched.discard(column)
        cells, lost = (np.concatenate(of_layer).tobytes() for of_layer in grown)
        if not (cells or lost or starts):
            return None
        return GridUpdate(self.layout, self.steps_per_column, self.columns, cells, lost, starts)

    def forget_changes(self) -> None:
        """Forget all changes, as readers will read the whole grid."""
        shown = self._shown(self._most[:, : self.columns])
        self._reported = np.zeros((LAYERS, MOST_COLUMNS, shown.shape[2]), np.uint8)
        self._reported[:, : self.columns] = shown
        self._reported_starts = self._starts.copy()
        self._reported_layout = self.layout
        self._touched.clear()

    def picture(
        self,
        places: tuple[int, int] | None = None,
        steps: tuple[int, int] | None = None,
        grouping: Grouping | None = None,
        most_columns: int = MOST_COLUMNS,
        show: Shown = "worst",
    ) -> Picture:
        """Return the grid, or the piece between these places and steps, both included, in whole columns."""
        first, last = places or (0, len(self._at) - 1)
        layout = arranged(self.ranks[first : last + 1], first, grouping or FINEST)
        begin, columns, wide = self._columns(steps, most_columns)
        end = begin + columns * wide
        by_rank = self._most[:, begin:end].reshape(LAYERS, columns, wide, self._most.shape[2]).max(axis=2)
        most = _of_rows(by_rank, _slots(layout.members, self._order[first : last + 1]), show)
        # Unknown cells become 255.
        cells, lost = ((of_layer.T - np.uint8(1)).tobytes() for of_layer in most)
        starts = np.where(self._starts == 0, _NEVER, self._starts)[begin:end]
        earliest = starts.reshape(columns, wide).min(axis=1)
        return Picture(
            programs=layout.programs,
            ranks_per_row=layout.ranks_per_row,
            rows=layout.rows,
            first_step=self._first_step + begin * self.steps_per_column,
            steps_per_column=wide * self.steps_per_column,
            columns=columns,
            start_us=np.where(earliest == _NEVER, 0, earliest).tolist(),
            cells=cells,
            lost=lost,
        )

    def _columns(self, steps: tuple[int, int] | None, most: int) -> tuple[int, int, int]:
        """Return the first column of these steps, the number of columns, and how many of them become one."""
        begin, end = 0, self.columns
        if steps is not None:
            begin, last = ((step - self._first_step) // self.steps_per_column for step in steps)
            begin, end = max(0, begin), min(self.columns, last + 1)
        wide = 1
        while end > begin and (end - 1) // wide - begin // wide + 1 > most:
            wide *= 2
        # Whole columns: a cell stands for all of its steps.
        return begin // wide * wide, max(0, -(-end // wide) - begin // wide), wide

    def _add(self, at: Int64Array, steps: Int64Array, most: UInt8Array) -> None:
        taken = most[0] > 0
        if self._limits is not None:
            taken &= (steps >= self._limits[0]) & (steps <= self._limits[1])
        if not taken.all():
            at, steps, most = at[taken], steps[taken], most[:, taken]
        if not len(steps):
            return
        offsets = steps - self._first_step
        while int(offsets.max()) // self.steps_per_column >= MOST_COLUMNS:
            self._merge_pairs()
        columns = offsets // self.steps_per_column
        for kept, new in zip(self._most, most, strict=True):
            np.maximum.at(kept.reshape(-1), columns * kept.shape[1] + at, new)
        self._touched.update(np.unique(columns).tolist())
        self.columns = max(self.columns, int(columns.max()) + 1)

    def _add_block(self, at: Int64Array, steps: Int64Array, most: UInt8Array) -> None:
        """Add the same steps of several ranks, u1[layers, ranks, steps], in order: most steps of a long run
        are such.
        """
        is_reported = most[0].any(axis=0)
        if self._limits is not None:
            is_reported &= (steps >= self._limits[0]) & (steps <= self._limits[1])
        steps, most = steps[is_reported], most[:, :, is_reported]
        if not len(steps):
            return
        offsets = steps - self._first_step
        while int(offsets[-1]) // self.steps_per_column >= MOST_COLUMNS:
            self._merge_pairs()
        columns, begins = np.unique(offsets // self.steps_per_column, return_index=True)
        place = np.ix_(columns, at)
        for kept, new in zip(self._most, most, strict=True):
            kept[place] = np.maximum(kept[place], np.maximum.reduceat(new, begins, axis=1).T)
        self._touched.update(columns.tolist())
        self.columns = max(self.columns, int(columns[-1]) + 1)

    def _merge_pairs(self) -> None:
        used = self.columns + self.columns % 2
        for cells in (*self._most, *self._reported):
            cells[: used // 2] = np.maximum(cells[0:used:2], cells[1:used:2])
            cells[used // 2 : used] = 0
        for starts in (self._starts, self._reported_starts):
            one, other = starts[0::2], starts[1::2]
            is_one_unknown = (one == 0) | (other == 0)
            starts[: MOST_COLUMNS // 2] = np.where(is_one_unknown, one + other, np.minimum(one, other))
            starts[MOST_COLUMNS // 2 :] = 0
        self._touched = {column // 2 for column in self._touched}
        self.columns = -(-self.columns // 2)
        self.steps_per_column *= 2

    def _shown(self, most: UInt8Array) -> UInt8Array:
        """Return the columns of rows, u1[layers, columns, rows], from columns of ranks."""
        self._arrange()
        shown: UInt8Array = most[:, :, self._members].max(axis=2)
        return shown

    def _arrange(self) -> None:
        if self._is_arranged:
            return
        self._is_arranged = True
        self._ranks = sorted(self._at)
        self._order = np.array([self._at[rank] for rank in self._ranks], np.int64)
        self._members = _slots(arranged(self._ranks, 0, FINEST).members, self._order)
        self._layout = zlib.crc32(repr((self._ranks, sorted(self._silent))).encode())


def _of_rows(by_rank: UInt8Array, slots: Int64Array, show: Shown) -> UInt8Array:
    """Return what rows show of their ranks, u1[layers, columns, rows], from cells that are one more each."""
    if show == "worst":
        worst: UInt8Array = by_rank[:, :, slots].max(axis=2)
        return worst
    made = np.zeros((*by_rank.shape[:2], slots.shape[1]), np.uint8)
    # A row at a time: of 100,000 ranks, numbers of all at once would take 4 GB.
    for layer, values in enumerate((_COUNTS, _LOST_US)):
        for row, members in enumerate(slots.T):
            cells = by_rank[layer][:, members]
            known = np.count_nonzero(cells, axis=1)
            if show == "sum":
                shown = lost_code(values[cells].sum(axis=1)) + np.uint8(1)
            else:
                # So many are above: of fewer than a hundred ranks none, and it is the worst.
                places = cells.shape[1] - 1 - known // 100
                ordered = np.partition(cells, np.unique(places), axis=1)
                shown = np.take_along_axis(ordered, places[:, None], axis=1)[:, 0]
            made[layer, :, row] = np.where(known > 0, shown, 0)
    return made


_COUNTS = np.maximum(np.arange(256) - 1, 0).astype(np.float32)
"""Numbers of anomalies by cell; 0 is unknown."""
_LOST_US = np.where(np.arange(256) < 2, 0, 2.0 ** ((np.arange(256) - 1.5) / 3)).astype(np.float32)
"""Times lost by cell: the middle of what a code stands for."""


def _slots(members: Int64Array, order: Int64Array) -> Int64Array:
    """Return the indexes of the cells of the members of rows; the last place is nobody's."""
    return np.append(order, -1)[members]
