"""The most anomalies of a step, and the most time lost, by stretches of the steps of single ranks.

A row of ``step_levels`` holds eight stretches, so an hour of 10,000 ranks is read as 560,000 rows, with eight
steps in a stretch. What buckets do not hold yet is read from the levels below, and at last from the steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from chimbuko.core.arrays import Int64Array, RankKey, UInt8Array
from chimbuko.provenance.query.reader import RunReader
from chimbuko.provenance.store.levels import MOST_SHOWN, lost_code_sql

QUIET = 0x01_01_01_01_01_01_01_01
"""``peaks`` of a bucket all of whose eighths were analysed and had no anomaly."""
_PROGRAM = 1 << 32
_KEY = f"s.program * {_PROGRAM} + s.rank"
_SHOWN = f"CASE WHEN t.anomalies < {MOST_SHOWN} THEN t.anomalies ELSE {MOST_SHOWN} END + 1"


@dataclass(frozen=True)
class Peaks:
    """Stretches of steps; those of a row follow each other. Rows of a rank begin at different steps."""

    length: int
    """Steps of a stretch."""
    programs: Int64Array
    """i8[n]"""
    ranks: Int64Array
    steps: Int64Array
    """i8[n]: where the first stretch of the row begins."""
    most: UInt8Array
    """u1[n, stretches]: 0 where no step was analysed, or another row covers it; else one more than the most
    anomalies, up to 255."""
    lost: UInt8Array
    """u1[n, stretches]: the same of the code of the most time that was lost in a step."""


def step_peaks(
    reader: RunReader,
    level: int,
    ranks: tuple[RankKey, RankKey] | None = None,
    steps: tuple[int, int] | None = None,
) -> Iterator[Peaks]:
    """In stretches of 8 ** (``level`` - 1) steps, and in shorter ones where the last are not complete.

    Parameters
    ----------
    level
        1 to 4.
    ranks
        First and last (program, rank) wanted; None for all.
    steps
        First and last step wanted; their neighbours in a bucket are reported too. None for all.
    """
    wanted = _Wanted(reader.run, ranks, steps)
    yield from _whole_buckets(reader, level, wanted)
    for of in range(level - 1, 0, -1):
        yield _peaks(
            of, _read(reader, ("t.program", "t.rank", "t.bucket", "t.peaks", "t.lost_peaks"), wanted.rest(of))
        )
    # Single steps, put into buckets as those of the first level are.
    peaks = (
        f"SUM(CAST({shown} AS BIGINT) << 8 * (t.step - t.step / 8 * 8))"
        for shown in (_SHOWN, f"{lost_code_sql('t.severity_us')} + 1")
    )
    grouped = f"{wanted.rest(0)} GROUP BY t.program, t.rank, t.step / 8"
    yield _peaks(1, _read(reader, ("t.program", "t.rank", "t.step / 8", *peaks), grouped))


def _whole_buckets(reader: RunReader, level: int, wanted: _Wanted) -> Iterator[Peaks]:
    """Those of a level, with a row for each rank.

    Most buckets are quiet. They are counted only: to read each of them takes three times as long.
    """
    of_rank = f"FROM step_levels AS t WHERE {wanted.steps_of(level)}"
    first, last, count = (f"(SELECT {of}(t.bucket) {of_rank})" for of in ("MIN", "MAX", "COUNT"))
    counts_of = _KEY, f"COALESCE({first}, 0)", f"COALESCE({last}, 0)", count
    table = _read(reader, counts_of, f"FROM stream_health AS s WHERE {wanted.streams}")
    table = table[table[:, 3] > 0]
    if not len(table):
        return
    keys, firsts, lasts, counts = table[np.argsort(table[:, 0])].T
    has_gaps = counts <= lasts - firsts
    begin = int(firsts.min())
    buckets = np.arange(begin, lasts.max() + 1)
    is_quiet = (buckets >= firsts[:, None]) & (buckets <= lasts[:, None]) & ~has_gaps[:, None]
    peaks = np.where(is_quiet, np.int64(QUIET), np.int64(0))
    lost_peaks = peaks.copy()
    condition = f"t.peaks <> {QUIET}"
    if has_gaps.any():
        condition += f" OR {_KEY} IN ({', '.join(map(str, keys[has_gaps].tolist()))})"
    rows = _read(
        reader, (_KEY, "t.bucket", "t.peaks", "t.lost_peaks"), f"{wanted.all(level)} AND ({condition})"
    )
    # What was written since they were counted is reported with what is new.
    of_ranks, at, *values = rows[np.isin(rows[:, 0], keys) & np.isin(rows[:, 1], buckets)].T
    place = np.searchsorted(keys, of_ranks), at - begin
    peaks[place], lost_peaks[place] = values
    places = np.full(len(keys), begin * 8**level)
    yield Peaks(
        8 ** (level - 1), keys // _PROGRAM, keys % _PROGRAM, places, _eighths(peaks), _eighths(lost_peaks)
    )


def _read(reader: RunReader, columns: Sequence[str], of: str) -> Int64Array:
    """Whole numbers, i8[rows, columns], of what follows the columns of a statement."""
    named = ", ".join(f"{column} AS c{number}" for number, column in enumerate(columns))
    row = " || ' ' || ".join(f"c{number}" for number in range(len(columns)))
    with reader.connected() as connection:
        # As one text, which the database makes alone: for each row the driver would wait its turn with
        # the threads that answer pages, for a second in all.
        together = "GROUP_CONCAT" if reader.is_sqlite else "STRING_AGG"
        statement = f"SELECT {together}({row}, ' ') FROM (SELECT {named} {of}) AS found"
        text: str | None = connection.exec_driver_sql(statement).scalar()
    return np.fromstring(text or "", np.int64, sep=" ").reshape(-1, len(columns))


@dataclass(frozen=True)
class _Wanted:
    """Which streams ``s``, and which of their buckets or steps ``t``, as parts of a statement."""

    run: int
    ranks: tuple[RankKey, RankKey] | None
    steps: tuple[int, int] | None

    @property
    def streams(self) -> str:
        """Condition that they meet."""
        if self.ranks is None:
            return f"s.run = {self.run}"
        # As a number: of two columns SQLite would conclude something for the other table, and look there.
        first, last = (program * _PROGRAM + rank for program, rank in self.ranks)
        return f"s.run = {self.run} AND {_KEY} BETWEEN {first} AND {last}"

    def steps_of(self, level: int, sign: str = "") -> str:
        """Condition that the buckets of a stream meet, or at level 0 its steps."""
        condition = "t.run = s.run AND t.program = s.program AND t.rank = s.rank"
        if level:
            condition += f" AND t.level = {level}"
        if self.steps is not None:
            first, last = (step // 8**level for step in self.steps)
            number = "t.bucket" if level else "t.step"
            condition += f" AND {sign}{number} >= {first} AND {number} <= {last}"
        return condition

    def all(self, level: int, sign: str = "") -> str:
        """All of a level: for each rank a look at its key, otherwise all are read where some are wanted."""
        table = "step_levels" if level else "steps"
        return (
            f"FROM stream_health AS s CROSS JOIN {table} AS t "
            f"WHERE {self.streams} AND {self.steps_of(level, sign)}"
        )

    def rest(self, level: int) -> str:
        """Those of a level that the one above does not hold."""
        above = (
            f"SELECT MAX(a.bucket) FROM step_levels AS a WHERE a.run = s.run AND a.level = {level + 1} "
            "AND a.program = s.program AND a.rank = s.rank"
        )
        number = "t.bucket" if level else "t.step"
        # The sign keeps SQLite from beginning at the first step, and not after what the level above holds.
        return f"{self.all(level, '+')} AND {number} >= 8 * (COALESCE(({above}), -1) + 1)"


def _peaks(level: int, rows: Int64Array) -> Peaks:
    programs, ranks, buckets, *peaks = rows.T
    most, lost = (_eighths(of[:, None]) for of in peaks)
    return Peaks(8 ** (level - 1), programs, ranks, buckets * 8**level, most, lost)


def _eighths(peaks: Int64Array) -> UInt8Array:
    """Of buckets, i8[n, buckets], those of their eighths, u1[n, 8 * buckets]."""
    return np.ascontiguousarray(peaks, "<i8").view(np.uint8)
