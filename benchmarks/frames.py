"""CPU time and memory that a DataFrame of many calls takes, beside one made of an object per call.

Run: python -m benchmarks.frames [--calls N]

The store is made of one recorded call, copied with other times, ranks and severities.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pandas as pd

from benchmarks.store import HEALTH, RUN, record
from chimbuko.core.calls.recordarrays import pack
from chimbuko.provenance.export.frames import Run, open_frames
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.store.tables import CALLS
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RecordBatch

RANKS = 100
CHANGED = {
    "rank": f"i % {RANKS}",
    "begin_row": "i",
    "begin_step": "i / 1000",
    "step": "i / 1000",
    "entry_us": "entry_us + 1000 * i",
    "severity_us": "severity_us + i * 7919 % 10007",
}
"""Columns in which the copies differ."""


def make_store(url: str, calls: int) -> None:
    """A store with ``calls`` copies of a call."""
    engine = open_for_writing(url)
    writer = Writer(engine, "frames")
    writer.write_run(msgspec.structs.replace(RUN, id="frames"))
    writer.write([RecordBatch(f"0:{HEALTH.rank}", 1, pack([record(0)]), [], [], HEALTH, {})])
    names = [column.name for column in CALLS.columns if column.name != "id"]
    values = [CHANGED.get(name, name) for name in names]
    with engine.begin() as connection:
        connection.exec_driver_sql(
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {calls - 1}) "
            f"INSERT INTO calls ({', '.join(names)}) SELECT {', '.join(values)} FROM n, calls WHERE id = 1"
        )
    close(engine)


def naive(run: Run, calls: int) -> pd.DataFrame:
    """Through an object for each call."""
    page = run.provenance.calls.page(CallFilter(label=None), limit=calls)
    return pd.DataFrame([msgspec.structs.asdict(call) for call in page.calls])


def peak_mb() -> float:
    """Most memory that this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=1_000_000)
    calls = parser.parse_args().calls
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'provenance.sqlite'}"
        make_store(url, calls)
        with open_frames(url) as run:
            ways: dict[str, Callable[[], pd.DataFrame]] = {
                "column by column": lambda: run.calls(limit=calls),
                "object by object": lambda: naive(run, calls),
            }
            print(f"{'':16}  {'µs per call':>11}  {'more peak memory':>16}  {'DataFrame':>9}")
            for name, way in ways.items():
                before_mb, before_s = peak_mb(), time.process_time()
                frame = way()
                spent_us = (time.process_time() - before_s) / calls * 1e6
                assert len(frame) == calls
                size_mb = frame.memory_usage(deep=True).sum() / 1e6
                print(f"{name:16}  {spent_us:11.1f}  {peak_mb() - before_mb:13.0f} MB  {size_mb:6.0f} MB")


if __name__ == "__main__":
    main()
