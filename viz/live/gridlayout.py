"""Layout of the grid: the ranks that share a row where all are shown. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import RankKey


class ProgramRows(msgspec.Struct, frozen=True):
    """Rows of one program."""

    program: int
    first_row: int
    rows: int
    first_place: int
    """Place of the program's first rank here, among all ranks in order of program and rank."""
    ranks: list[tuple[int, int]]
    """First rank and length of each range of consecutive ranks."""


@dataclass(frozen=True)
class Layout:
    """Rows of ranks, limited in number; each is of one program."""

    programs: list[ProgramRows]
    ranks_per_row: int
    rows: int
    members: npt.NDArray[np.int64]
    """Indexes of the ranks of each row, i8[ranks_per_row, rows]; -1 where a row has fewer."""


def arranged(ranks: Sequence[RankKey], first_place: int, most_rows: int) -> Layout:
    """Put ranks, in order of program and rank, into rows; the first of them is at ``first_place``.

    If there are more programs than rows, each still has one.
    """
    of_programs = [
        (program, [rank for _, rank in keys]) for program, keys in groupby(ranks, lambda key: key[0])
    ]
    ranks_per_row = _ranks_per_row([len(numbers) for _, numbers in of_programs], most_rows)
    programs: list[ProgramRows] = []
    first_row = index = 0
    members = [np.empty((0, ranks_per_row), np.int64)]
    for program, numbers in of_programs:
        rows = -(-len(numbers) // ranks_per_row)
        programs.append(ProgramRows(program, first_row, rows, first_place + index, _runs(numbers)))
        places = np.arange(index, index + rows * ranks_per_row)
        index += len(numbers)
        first_row += rows
        members.append(np.where(places < index, places, -1).reshape(rows, ranks_per_row))
    return Layout(programs, ranks_per_row, first_row, np.ascontiguousarray(np.concatenate(members).T))


def _ranks_per_row(counts: Sequence[int], most_rows: int) -> int:
    """Return the fewest ranks per row with which all ranks fit."""
    fewest = max(1, -(-sum(counts) // most_rows))
    largest = max(counts, default=1)
    return next(
        (n for n in range(fewest, largest) if sum(-(-count // n) for count in counts) <= most_rows),
        max(fewest, largest),
    )


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == sum(runs[-1]):
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((number, 1))
    return runs
