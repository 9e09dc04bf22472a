"""Which ranks stand together in a row where all are shown. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec

from chimbuko.viz.tally import RankKey


class ProgramRows(msgspec.Struct, frozen=True):
    """The rows of a program."""

    program: int
    first_row: int
    rows: int
    first_place: int
    """Place of its first rank here, among all ranks in order of program and rank."""
    ranks: list[tuple[int, int]]
    """First of each run of consecutive ranks, and how many they are."""


@dataclass(frozen=True)
class Layout:
    """Rows of ranks, at most so many; each is of one program."""

    programs: list[ProgramRows]
    ranks_per_row: int
    firsts: list[int]
    """Index of the first rank of each row."""


def arranged(ranks: Sequence[RankKey], first_place: int, most_rows: int) -> Layout:
    """Put ranks, in order of program and rank, into rows; the first of them is at ``first_place``.

    Where there are more programs than rows, each has one all the same.
    """
    of_programs = [
        (program, [rank for _, rank in keys]) for program, keys in groupby(ranks, lambda key: key[0])
    ]
    ranks_per_row = _ranks_per_row([len(numbers) for _, numbers in of_programs], most_rows)
    programs: list[ProgramRows] = []
    firsts: list[int] = []
    index = 0
    for program, numbers in of_programs:
        rows = -(-len(numbers) // ranks_per_row)
        programs.append(ProgramRows(program, len(firsts), rows, first_place + index, _runs(numbers)))
        firsts.extend(range(index, index + len(numbers), ranks_per_row))
        index += len(numbers)
    return Layout(programs, ranks_per_row, firsts)


def _ranks_per_row(counts: Sequence[int], most_rows: int) -> int:
    """The fewest with which all fit."""
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
