"""Reading of grids from the store, in as few rows as will do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chimbuko.core.arrays import RankKey
from chimbuko.core.calls.record import StepCount
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.query.steps import Peaks, step_peaks
from chimbuko.provenance.store.coarserlevels import LEVELS
from chimbuko.provenance.store.tables import NEVER_US
from chimbuko.viz.live.grid import FINEST, MOST_COLUMNS, Grid, Grouping, Picture, Shown

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
