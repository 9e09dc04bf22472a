"""What it takes to copy a store of a run while it is written, onto storage that other nodes share.

Run: python -m benchmarks.storecopies [--megabytes N] [--rounds N] [--to FOLDER]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.madestore import MadeStore
from benchmarks.store import record
from chimbuko.provenance.store.encode import warm_kernels
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.storecopies import PERIOD_S, SHARE, StoreCopies
from chimbuko.provenance.write.writer import Writer

BYTES_PER_ANOMALY = 460
RANKS, STEPS = 100, 600


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--to", type=Path, help="folder for the copies; default a temporary one")
    options = parser.parse_args()
    warm_kernels()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir=options.to) as shared:
        store, copy = Path(folder) / "provenance.sqlite", Path(shared) / "provenance.sqlite"
        engine = open_for_writing(f"sqlite:///{store}")
        anomalies = 1_000_000 * options.megabytes // BYTES_PER_ANOMALY
        MadeStore(anomalies, RANKS, steps=STEPS).write(Writer(engine, "made up"), record(0))
        measured = []
        for _ in range(options.rounds):
            copies = StoreCopies(copy)
            began_s, began_cpu_s = time.perf_counter(), time.process_time()
            assert copies.keep_up(engine, is_wanted=True)
            measured.append((time.perf_counter() - began_s, time.process_time() - began_cpu_s))
        close(engine)
        size_mb = copy.stat().st_size / 1e6
    for name, values in (("wall", [wall for wall, _ in measured]), ("CPU", [cpu for _, cpu in measured])):
        print(f"{name:5} {statistics.median(values):6.2f} s ({min(values):.2f}-{max(values):.2f})")
    wall_s, cpu_s = (statistics.median(column) for column in zip(*measured, strict=True))
    between_s = max(PERIOD_S, wall_s / SHARE)
    print(
        f"{size_mb:.0f} MB, every {between_s + wall_s:.0f} s: {cpu_s / (between_s + wall_s):.2%} of a core, "
        f"{8 * size_mb / (between_s + wall_s):.1f} Mbit/s of the network on average"
    )


if __name__ == "__main__":
    main()
