"""The most anomalies of a step, by stretches of the steps of single ranks: what a map of all ranks shows.

A row of ``step_levels`` holds eight stretches, so an hour of 10,000 ranks is read as 560,000 rows, with eight
steps in a stretch. What buckets do not hold yet is read from the levels below, and at last from the steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from chimbuko.provenance.questions import Questions
from chimbuko.provenance.stepwriter import MOST_SHOWN
from chimbuko.provenance.store import store_errors
from chimbuko.provenance.upsert import placeholder

Int64Array = npt.NDArray[np.int64]
UInt8Array = npt.NDArray[np.uint8]
RankKey = tuple[int, int]

ROWS_AT_ONCE = 50_000
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
    """u1[n, stretches]: 0 where no step was analysed, or another row tells of it; else one more than the most
    anomalies, up to 255."""


class PeakQueries(Questions):
    """The most anomalies of a step."""

    def step_peaks(
        self,
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
            First and last step wanted; their neighbours in a bucket are told too. None for all.
        """
        yield from self._whole_buckets(level, ranks, steps)
        for of in range(level - 1, -1, -1):
            number, value = ("bucket", "t.peaks") if of else ("step", _SHOWN)
            what = f"t.program, t.rank, t.{number}, {value}"
            for table in self._read(of, what, ranks, steps, is_rest=True):
                yield _peaks(of, table)

    def _whole_buckets(
        self, level: int, ranks: tuple[RankKey, RankKey] | None, steps: tuple[int, int] | None
    ) -> Iterator[Peaks]:
        """Those of a level, with a row for each rank.

        Most buckets are quiet. They are counted only: to read each of them takes three times as long.
        """
        what = "s.program, s.rank, MIN(t.bucket), MAX(t.bucket), COUNT(*)"
        counted = list(self._read(level, what, ranks, steps, end=" GROUP BY s.program, s.rank"))
        if not counted:
            return
        table = np.concatenate(counted)
        programs, numbers, firsts, lasts, counts = table[np.lexsort((table[:, 1], table[:, 0]))].T
        keys, has_gaps = programs * _PROGRAM + numbers, counts <= lasts - firsts
        wanted = f"t.peaks <> {QUIET}"
        if has_gaps.any():
            wanted += f" OR {_KEY} IN ({', '.join(map(str, keys[has_gaps].tolist()))})"
        begin = int(firsts.min())
        buckets = np.arange(begin, lasts.max() + 1)
        is_quiet = (buckets >= firsts[:, None]) & (buckets <= lasts[:, None]) & ~has_gaps[:, None]
        peaks = np.where(is_quiet, np.int64(QUIET), np.int64(0))
        what = f"{_KEY}, t.bucket, t.peaks"
        for rows in self._read(level, what, ranks, steps, f" AND ({wanted})"):
            # What was written since they were counted is told with what is new.
            of_ranks, at_buckets, values = rows[np.isin(rows[:, 0], keys) & np.isin(rows[:, 1], buckets)].T
            peaks[np.searchsorted(keys, of_ranks), at_buckets - begin] = values
        yield Peaks(
            8 ** (level - 1), programs, numbers, np.full(len(keys), begin * 8**level), _eighths(peaks)
        )

    def _read(
        self,
        level: int,
        what: str,
        ranks: tuple[RankKey, RankKey] | None,
        steps: tuple[int, int] | None,
        condition: str = "",
        end: str = "",
        is_rest: bool = False,
    ) -> Iterator[Int64Array]:
        """Numbers of buckets or steps, i8[n, numbers], in pieces.

        For each rank a look at its key: otherwise all buckets are read where only some are wanted.

        Parameters
        ----------
        what
            Numbers of the streams ``s``, and of the buckets or steps ``t``.
        condition, end
            Of the statement.
        is_rest
            Whether only what the level above does not hold is wanted.
        """
        table, number = ("step_levels", "bucket") if level else ("steps", "step")
        values = [self._run]
        if level:
            condition += f" AND t.level = {level}"
        if ranks is not None:
            # As a number: of two columns SQLite would conclude something for the other table, and look there.
            condition += f" AND {_KEY} BETWEEN ? AND ?"
            values += [program * _PROGRAM + rank for program, rank in ranks]
        if steps is not None:
            # The sign keeps SQLite from beginning there, and not after what the level above holds.
            condition += f" AND {'+' if is_rest else ''}t.{number} >= ? AND t.{number} <= ?"
            values += [step // 8**level for step in steps]
        if is_rest:
            above = (
                f"SELECT MAX(a.bucket) FROM step_levels AS a WHERE a.run = s.run AND a.level = {level + 1} "
                "AND a.program = s.program AND a.rank = s.rank"
            )
            condition += f" AND t.{number} >= 8 * (COALESCE(({above}), -1) + 1)"
        statement = (
            f"SELECT {what} FROM stream_health AS s CROSS JOIN {table} AS t "
            f"WHERE s.run = ? AND t.run = s.run AND t.program = s.program AND t.rank = s.rank{condition}{end}"
        )
        with store_errors(self._engine), self._engine.connect() as connection:
            found = connection.exec_driver_sql(statement.replace("?", placeholder(connection)), tuple(values))
            # The driver's own rows: ours take as long again.
            cursor = found.cursor
            while cursor is not None and (rows := cursor.fetchmany(ROWS_AT_ONCE)):
                shape = len(rows), len(rows[0])
                yield np.fromiter(chain.from_iterable(rows), np.int64, shape[0] * shape[1]).reshape(shape)


def _peaks(level: int, rows: Int64Array) -> Peaks:
    programs, ranks, numbers, values = rows.T
    if not level:
        return Peaks(1, programs, ranks, numbers, values.astype(np.uint8)[:, None])
    return Peaks(8 ** (level - 1), programs, ranks, numbers * 8**level, _eighths(values[:, None]))


def _eighths(peaks: Int64Array) -> UInt8Array:
    """Of buckets, i8[n, buckets], those of their eighths, u1[n, 8 * buckets]."""
    return np.ascontiguousarray(peaks, "<i8").view(np.uint8)
