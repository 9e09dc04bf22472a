"""Grids as pages read them: from the store, in as few rows as will do, and of a run that goes on, while
they grow.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from msgspec import structs

from chimbuko.core.arrays import RankKey
from chimbuko.core.calls.record import StepCount
from chimbuko.core.errors import ChimbukoError
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.query.steps import Peaks, step_peaks
from chimbuko.provenance.store.coarserlevels import LEVELS
from chimbuko.provenance.store.tables import NEVER_US
from chimbuko.runtime.protocol.messages import Frame
from chimbuko.viz.live.grid import (
    FINEST,
    MOST_COLUMNS,
    Grid,
    GridUpdate,
    Grouping,
    Picture,
    Shown,
    ShownGrid,
    ranks_per_node,
)
from chimbuko.viz.live.totals import Totals

MOST_READ = 600_000
"""Most rows of the store for one grid: as many as an hour of 10,000 ranks takes by eight steps."""

Steps = tuple[int, int]
"""First and last step."""


@dataclass(frozen=True)
class Stored:
    """Steps of a grid that were read from the store."""

    peaks: list[Peaks]
    starts: list[tuple[int, int]]
    """Some of the steps, each with the time of the first event of any rank in it, or in those that follow."""

    def add_to(self, grid: Grid) -> None:
        """Add the steps to a grid."""
        for peaks in self.peaks:
            grid.add_peaks(peaks)
        grid.add_starts(self.starts)


@dataclass(frozen=True)
class Piece:
    """Wanted part of the grid, and the number of cells into which it shall fit."""

    places: tuple[int, int] | None = None
    """Places of the first and last rank; None for all."""
    steps: Steps | None = None
    columns: int = MOST_COLUMNS
    grouping: Grouping = FINEST
    show: Shown = "worst"


def read_stored(
    provenance: Provenance, ranks: int, steps: Steps, width: int, among: tuple[RankKey, RankKey] | None = None
) -> Stored:
    """Read steps in stretches of at most ``width`` of them, or of more where that would be too many rows.

    Parameters
    ----------
    ranks
        Number of all ranks.
    among
        First and last rank wanted; None for all.
    """
    level = _level(ranks, steps, width)
    peaks = list(step_peaks(provenance.reader, level, among, steps))
    sums = provenance.steps.sums(max(of for of in (0, *LEVELS) if 8**of <= width), steps=steps)
    return Stored(peaks, [(of.step, of.start_us) for of in sums if of.start_us < NEVER_US])


def read_piece(
    provenance: Provenance, ranks: list[RankKey], recent: Iterable[StepCount], wanted: Piece, last_step: int
) -> Picture:
    """Read a piece of the grid in more detail than is kept.

    Parameters
    ----------
    ranks
        All, in their order.
    recent
        Steps that the store may not have yet.
    last_step
        Newest of all.
    """
    first, last = wanted.places or (0, len(ranks) - 1)
    among = ranks[first : last + 1]
    width = width_of(wanted, len(ranks), last_step)
    begin, end = wanted.steps or (0, last_step)
    steps = begin // width * width, (min(end, last_step) // width + 1) * width - 1
    grid = Grid(steps, width)
    grid.name(ranks)
    if among:
        read_stored(provenance, len(among), steps, width, (among[0], among[-1])).add_to(grid)
        grid.add_steps([step for step in recent if among[0] <= (step.program, step.rank) <= among[-1]])
    return grid.picture(wanted.places, steps, wanted.grouping, wanted.columns, wanted.show)


def width_of(wanted: Piece, ranks: int, last_step: int) -> int:
    """Return the number of steps in a column of a piece that is read from the store, of a run of so many
    ranks.
    """
    first, last = wanted.places or (0, ranks - 1)
    begin, end = wanted.steps or (0, last_step)
    end = min(end, last_step)
    width = width_for(begin, end, wanted.columns)
    level = _level(max(0, min(last, ranks - 1) - first + 1), (begin, end), width)
    return max(width, 1 << 3 * (level - 1))


def width_for(first_step: int, last_step: int, most_columns: int) -> int:
    """Return the smallest power of two of steps of which so many columns hold these steps."""
    width = 1
    while last_step // width - first_step // width >= most_columns:
        width *= 2
    return width


def _level(ranks: int, steps: Steps, width: int) -> int:
    """Return the coarsest level whose stretches are no longer than ``width``, or a coarser one with fewer
    rows.
    """
    fine = max(level for level in LEVELS if 8 ** (level - 1) <= width)
    cells = ranks * (steps[1] - steps[0] + 1)
    few = next((level for level in LEVELS if cells // 8**level <= MOST_READ), LEVELS[-1])
    return max(fine, few)


class LiveGrid:
    """Grid of all ranks and steps, for any thread.

    It is no value that is replaced, as all else that pages read: of 10,000 ranks a copy has 20 MB.
    """

    def __init__(self, provenance: Provenance, totals: Totals) -> None:
        self._provenance = provenance
        self._grid = Grid()
        self._totals = totals
        self._has_read = False
        self._nodes: dict[RankKey, str] = {}
        self._ranks_per_node = 1
        self._ranks_placed = 0
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        """Lock held while the grid is read from the store for the first time."""

    def follow(self, totals: Totals) -> None:
        """Take the totals as they are from now on: they say which ranks there are, and which are silent."""
        with self._lock:
            self._totals = totals

    def add_frames(self, frames: Iterable[Frame]) -> None:
        """Add the steps in new frames."""
        with self._lock:
            for frame in frames:
                self._grid.add_steps(frame.steps)

    def changes(self) -> GridUpdate | None:
        """Return the changes since the last call; None if there are none."""
        with self._lock:
            self._name_ranks()
            return self._grid.changes()

    def begin(self) -> None:
        """Read the grid from the store; if that fails, the next reader of the grid tries again."""
        with suppress(ChimbukoError):
            self._read_once()

    def read(self, since: int) -> None:
        """Add the steps from ``since`` on that are in the store, where those before have been read."""
        if self._has_read:
            self._read(since)

    def shown(self, wanted: Piece) -> ShownGrid:
        """Return the grid, or a piece of it; finer pieces than are kept are read from the store.

        Raises
        ------
        StoreError
            The store cannot be read.
        """
        self._read_once()
        if wanted.show != "worst":
            wanted = replace(wanted, grouping=self._of_nodes(wanted.grouping))
        with self._lock:
            self._name_ranks()
            totals, ranks, layout = self._totals, self._grid.ranks, self._grid.layout
            last_step = totals.sums.last_step or 0
            is_kept = width_of(wanted, len(ranks), last_step) >= self._grid.steps_per_column
            if is_kept:
                picture = self._grid.picture(
                    wanted.places, wanted.steps, wanted.grouping, wanted.columns, wanted.show
                )
        if not is_kept:
            picture = read_piece(self._provenance, ranks, totals.recent, wanted, last_step)
        silent = [(bisect_left(ranks, rank), rank, silence) for rank, silence in totals.sums.silent.items()]
        return ShownGrid(totals.version, layout, picture, silent, self._names(picture, ranks))

    def _of_nodes(self, grouping: Grouping) -> Grouping:
        """Return the grouping with rows of whole nodes; the store says where new ranks are."""
        with self._lock:
            self._name_ranks()
            ranks = self._grid.ranks
        if self._ranks_placed < len(ranks):
            self._nodes = self._provenance.reader.names.nodes_of_ranks()
            self._ranks_per_node = ranks_per_node(ranks, self._nodes)
            self._ranks_placed = len(ranks)
        return structs.replace(grouping, ranks_per_node=self._ranks_per_node)

    def _names(self, picture: Picture, ranks: list[RankKey]) -> list[str]:
        """Return the nodes of each row, where rows are of nodes; else an empty list."""
        per_node = self._ranks_per_node
        if per_node == 1 or picture.ranks_per_row % per_node:
            return []
        names = []
        for of in picture.programs:
            end = of.first_place + sum(count for _, count in of.ranks)
            for place in range(of.first_place, end, of.ranks_per_row):
                ends = ranks[place], ranks[min(place + of.ranks_per_row, end) - 1]
                first, last = (self._nodes.get(rank, "") for rank in ends)
                names.append(first if first == last else f"{first} to {last}")
        return names

    def _read_once(self) -> None:
        with self._reading:
            if not self._has_read:
                self._read(0)
                self._has_read = True

    def _read(self, since: int) -> None:
        with self._lock:
            sums = self._totals.sums
            width = self._grid.steps_per_column
        last_step = sums.last_step
        if last_step is None:
            return
        width = max(width, width_for(0, last_step, MOST_COLUMNS))
        stored = read_stored(self._provenance, sums.ranks, (since, last_step), width)
        with self._lock:
            stored.add_to(self._grid)
            # New readers of the grid get it with this; pages that have it already are told to read it again.
            self._grid.forget_changes()

    def _name_ranks(self) -> None:
        """Tell the grid all ranks, as it also shows those that report no steps."""
        self._grid.name(self._totals.health)
        self._grid.name(self._totals.ranks)
        self._grid.note_silent(frozenset(self._totals.sums.silent))
