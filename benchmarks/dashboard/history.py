"""The history of a large run: a step of each rank in each second, written in bulk, and its abnormal calls.

Through the store's writer 36 million steps would take half an hour; here they take a minute. Coarser levels
and histograms are made beside them; a test compares them with the writer's own.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from sqlalchemy import Engine

from benchmarks.madestore import CALLS_PER_STEP, LOST_US, PERIOD_US, START_US, MadeStore
from benchmarks.store import record
from chimbuko.core.calls.recordarrays import HEAD, PackedRecords
from chimbuko.core.config import AnalysisConfig
from chimbuko.provenance.store.coarserlevels import LEVELS, MOST_SHOWN, lost_code
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.store.statements import insert
from chimbuko.provenance.store.tables import ALL_RANKS, SPENT, STEP_HISTOGRAMS, STEP_LEVELS, STEPS
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import FunctionStatistics, RecordBatch, RunStatistics
from chimbuko.runtime.runs.directory import RunDirectory, RunInfo, new_run

PROGRAM = 0
RUN_NUMBER = 1
RANKS_AT_ONCE = 100
BYTES_PER_STEP = 50
"""In the store, with its share of the coarser levels."""
BYTES_PER_CALL = 500
RUNTIMES_US = 900.0, 60.0, 500.0, 9e4, 1e3, 1e5
"""Of each function: of exclusive ones mean, standard deviation, minimum and maximum, of inclusive ones mean
and maximum."""

Counts = npt.NDArray[np.int64]
Row = tuple[Any, ...]


class MadeHistory(msgspec.Struct, frozen=True):
    """How large it is."""

    ranks: int = 10_000
    steps: int = 3_600
    anomalies: int = 100_000

    @property
    def size_bytes(self) -> int:
        """About what its store takes."""
        return BYTES_PER_STEP * self.ranks * self.steps + BYTES_PER_CALL * self.anomalies

    def make(self, folder: Path, is_running: bool = False) -> RunDirectory:
        """Make the run's folder with its store.

        Raises
        ------
        SystemExit
            There is no room for it.
        """
        free_bytes = shutil.disk_usage(folder.parent).free
        needed_gb, free_gb = 2 * self.size_bytes / 1e9, free_bytes / 1e9
        if free_gb < needed_gb:
            raise SystemExit(f"{folder.parent}: {needed_gb:.1f} GB are needed, {free_gb:.1f} are free")
        directory = new_run(folder, ["srun", "-n", str(self.ranks), "./made-up"], AnalysisConfig(), None)
        info = self._info(directory, is_running)
        directory.write_info(info)
        engine = open_for_writing(info.store_url)
        try:
            writer = Writer(engine, info.id)
            writer.write_run(info)
            writer.write_statistics(RunStatistics({PROGRAM: "made-up"}))
            counts = self._write_calls(writer)
            write_steps(engine, counts)
        finally:
            close(engine)
        return directory

    def _info(self, directory: RunDirectory, is_running: bool) -> RunInfo:
        info = directory.read_info()
        if is_running:
            # So its steps, which are older than the run, are those of a recorded trace.
            return info
        ended_us = START_US + self.steps * PERIOD_US
        return msgspec.structs.replace(
            info, state="finished", exit_code=0, started_us=START_US, ended_us=ended_us
        )

    def _write_calls(self, writer: Writer) -> Counts:
        """Abnormal calls, totals of streams and functions; returns the anomalies, i8[ranks, steps]."""
        made = MadeStore(self.anomalies, self.ranks, steps=self.steps)
        counts = np.zeros((self.ranks, self.steps), np.int64)
        by_function = np.zeros(made.functions, np.int64)
        batches: list[RecordBatch] = []
        for rank, records, anomalies in made.records(record(0)):
            counts[rank] = anomalies
            by_function += _anomalies_by_function(records, made.functions)
            health = made.health(rank, int(anomalies.sum()))
            batches.append(RecordBatch(f"{PROGRAM}:{rank}", 1, records, [], [], health, {}))
            if len(batches) == RANKS_AT_ONCE:
                writer.write(batches)
                batches = []
        writer.write(batches)
        calls = CALLS_PER_STEP * self.ranks * self.steps // made.functions
        names = map(made.function_name, range(made.functions))
        writer.write_statistics(
            RunStatistics(
                functions=[
                    FunctionStatistics(PROGRAM, name, calls, n, LOST_US * n, *RUNTIMES_US)
                    for name, n in zip(names, by_function.tolist(), strict=True)
                ]
            )
        )
        return counts


def write_steps(engine: Engine, counts: Counts) -> None:
    """Write steps with so many anomalies, i8[ranks, steps], and what is made of them, into an empty store."""
    for table, rows in (
        (STEPS, _steps(counts)),
        (STEP_LEVELS, _levels(counts)),
        (STEP_HISTOGRAMS, _histograms(counts)),
    ):
        # The time of threads is left at its default, 0.
        columns = [column.name for column in table.columns if column.name not in SPENT]
        while some := list(itertools.islice(rows, RANKS_AT_ONCE)):
            with engine.begin() as connection:
                for of_rank in some:
                    insert(connection, table, columns, of_rank)


def _steps(counts: Counts) -> Iterator[list[Row]]:
    """Of each rank, in the order in which the table keeps them."""
    steps = range(counts.shape[1])
    starts_us = [START_US + step * PERIOD_US for step in steps]
    ends_us = [start_us + PERIOD_US for start_us in starts_us]
    same = [itertools.repeat(value) for value in (RUN_NUMBER, PROGRAM, CALLS_PER_STEP, 0.0)]
    run, program, calls, score = same
    for rank, anomalies in enumerate(counts):
        lost_us = (LOST_US * anomalies).tolist()
        columns = (run, program, itertools.repeat(rank), steps, starts_us, ends_us)
        yield list(zip(*columns, calls, anomalies.tolist(), lost_us, score, strict=False))


def _levels(counts: Counts) -> Iterator[list[Row]]:
    """Sums over all ranks, then over 8, 64... steps of each rank, without the bucket that is not full."""
    ranks, steps = counts.shape
    totals, most = counts.sum(axis=0), counts.max(axis=0)
    for level in (0, *LEVELS):
        yield _buckets(level, ALL_RANKS, totals, most, np.zeros((-(-steps // 8**level), 0)), ranks)
        full = (steps - 1) // 8**level
        for rank in range(ranks if level and full else 0):
            yield _buckets(level, rank, counts[rank], counts[rank], _eighths(counts[rank], level, full), 1)


def _eighths(anomalies: Counts, level: int, buckets: int) -> Counts:
    """The most anomalies of a step in each eighth of a bucket, i8[buckets, 8]."""
    eighths: Counts = anomalies[: buckets * 8**level].reshape(buckets, 8, -1).max(axis=2)
    return eighths


def _peaks(most: npt.NDArray[np.integer]) -> list[int]:
    """Of each eighth one more than it had, a byte each; 0 where there are no eighths."""
    if most.shape[1] == 0:
        return [0] * len(most)
    peaks: list[int] = (most + 1).astype(np.uint8).view("<i8").ravel().tolist()
    return peaks


def _buckets(
    level: int, rank: int, anomalies: Counts, most: Counts, eighths: Counts, ranks: int
) -> list[Row]:
    """One for each row of ``eighths``."""
    steps = min(len(anomalies), len(eighths) * 8**level)
    firsts = np.arange(0, steps, 8**level)
    totals = np.add.reduceat(anomalies[:steps], firsts)
    highest = np.maximum.reduceat(most[:steps], firsts)
    rows = []
    peaks, lost_peaks = _peaks(np.minimum(eighths, MOST_SHOWN)), _peaks(lost_code(LOST_US * eighths))
    numbers = zip(firsts.tolist(), totals.tolist(), highest.tolist(), peaks, lost_peaks, strict=True)
    for bucket, (first, total, largest, shown, shown_lost) in enumerate(numbers):
        end = min(first + 8**level, steps)
        of_bucket = ranks * (end - first)
        key = RUN_NUMBER, level, PROGRAM, rank, bucket
        times_us = START_US + first * PERIOD_US, START_US + end * PERIOD_US
        rows.append(
            (
                *key,
                of_bucket,
                *times_us,
                CALLS_PER_STEP * of_bucket,
                total,
                LOST_US * total,
                0.0,
                largest,
                shown,
                LOST_US * largest,
                shown_lost,
            )
        )
    return rows


def _histograms(counts: Counts) -> Iterator[list[Row]]:
    for rank, anomalies in enumerate(counts):
        from_last = anomalies[::-1]
        values, first, steps = np.unique(from_last, return_index=True, return_counts=True)
        last_steps = len(anomalies) - 1 - first
        cells = zip(values.tolist(), steps.tolist(), last_steps.tolist(), strict=True)
        yield [(RUN_NUMBER, PROGRAM, rank, n, of_n, LOST_US * n * of_n, last) for n, of_n, last in cells]


def _anomalies_by_function(records: PackedRecords, functions: int) -> Counts:
    heads = np.frombuffer(records.heads, HEAD)
    return np.bincount(heads["function"][heads["is_anomaly"].astype(bool)], minlength=functions)
