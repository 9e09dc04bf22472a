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
_PROGRAM = 1 << 32


@dataclass(frozen=True)
class Peaks:
    """Stretches of steps; those of a row follow each other."""

    length: int
    """Steps of a stretch."""
    programs: Int64Array
    """i8[n]"""
    ranks: Int64Array
    steps: Int64Array
    """i8[n]: where the first stretch of the row begins."""
    most: UInt8Array
    """u1[n, stretches]: 0 where no step was analysed, else one more than the most anomalies, up to 255."""


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
        for of in range(level, -1, -1):
            statement, values = self._statement(of, of < level, ranks, steps)
            with store_errors(self._engine), self._engine.connect() as connection:
                found = connection.exec_driver_sql(
                    statement.replace("?", placeholder(connection)), tuple(values)
                )
                # The driver's own rows: ours take as long again.
                cursor = found.cursor
                while cursor is not None and (rows := cursor.fetchmany(ROWS_AT_ONCE)):
                    yield _peaks(of, np.fromiter(chain.from_iterable(rows), np.int64, 4 * len(rows)))

    def _statement(
        self,
        level: int,
        is_rest: bool,
        ranks: tuple[RankKey, RankKey] | None,
        steps: tuple[int, int] | None,
    ) -> tuple[str, list[int]]:
        """Reads program, rank, bucket or step, and value; of a rest only what the level above does not hold.

        For each rank a look at its key: otherwise all buckets are read where only some are wanted.
        """
        if level:
            table, number, value, of_level = "step_levels", "bucket", "t.peaks", f"t.level = {level} AND "
        else:
            table, number, of_level = "steps", "step", ""
            value = f"CASE WHEN t.anomalies < {MOST_SHOWN} THEN t.anomalies ELSE {MOST_SHOWN} END + 1"
        conditions = ""
        values = [self._run]
        if ranks is not None:
            # As a number: of two columns SQLite would conclude something for the other table, and look there.
            conditions += f" AND s.program * {_PROGRAM} + s.rank BETWEEN ? AND ?"
            values += [program * _PROGRAM + rank for program, rank in ranks]
        if steps is not None:
            # The sign keeps SQLite from beginning there, and not after what the level above holds.
            conditions += f" AND {'+' if is_rest else ''}t.{number} >= ? AND t.{number} <= ?"
            values += [step // 8**level for step in steps]
        if is_rest:
            above = (
                f"SELECT MAX(a.bucket) FROM step_levels AS a WHERE a.run = s.run AND a.level = {level + 1} "
                "AND a.program = s.program AND a.rank = s.rank"
            )
            conditions += f" AND t.{number} >= 8 * (COALESCE(({above}), -1) + 1)"
        statement = (
            f"SELECT t.program, t.rank, t.{number}, {value} FROM stream_health AS s CROSS JOIN {table} AS t "
            f"WHERE s.run = ? AND {of_level}t.run = s.run AND t.program = s.program AND t.rank = s.rank"
            f"{conditions}"
        )
        return statement, values


def _peaks(level: int, flat: Int64Array) -> Peaks:
    programs, ranks, numbers, values = flat.reshape(-1, 4).T
    if not level:
        return Peaks(1, programs, ranks, numbers, values.astype(np.uint8)[:, None])
    stretches = np.ascontiguousarray(values, "<i8").view(np.uint8).reshape(-1, 8)
    return Peaks(8 ** (level - 1), programs, ranks, numbers * 8**level, stretches)
