"""Milliseconds to the answers of a run's page, with 1,000,000 abnormal calls of 1,000 ranks in the store.

Run: python -m benchmarks.millionrun [--anomalies N] [--ranks N] [--steps N] [--rounds N] [--kept FOLDER]

Two such runs are made, which takes some minutes, the dashboard of one is started, and what its pages ask is
asked again and again, over HTTP. The comparison is that with the other run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from benchmarks.dashboard.figures import load_now, quantile
from benchmarks.dashboard.history import MadeHistory
from benchmarks.dashboard.serving import TOKEN, Dashboard
from benchmarks.measuring import table
from chimbuko.runtime.runs.directory import RunDirectory

ASKED = {
    "run": "run",
    "first page of calls": "calls",
    "calls of a rank": "calls?rank=517",
    "calls by score": "calls?sort=score",
    "calls of 60 s": "calls?time_min_us=1700000100000000&time_max_us=1700000160000000",
    "points": "points",
    "sums by function": "totals?by=function",
    "sums by rank": "totals?by=rank",
    "functions": "functions",
    "ranks": "ranks",
    "incidents": "incidents",
    "budget": "budget",
    "health": "health",
    "steps of a rank": "steps?rank=0:517",
    "heat map": "grid",
    "nodes": "nodes",
    "comparison": "comparison?with=before",
}
"""What is asked, by its name."""
TIMEOUT_S = 120.0


@contextmanager
def made(kept: Path | None, history: MadeHistory) -> Iterator[RunDirectory]:
    """Make two runs, or take those that were kept; yield the later one."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = kept or Path(scratch)
        folder.mkdir(exist_ok=True)
        for name in ("before", "after"):
            if not (folder / name).exists():
                began_s = time.monotonic()
                history.make(folder / name)
                print(f"{name} was made in {time.monotonic() - began_s:.0f} s", flush=True)
        yield RunDirectory(folder / "after")


def ask(base: str, path: str) -> tuple[float, int]:
    """Ask once; return milliseconds and bytes."""
    request = Request(f"{base}api/v1/{path}", headers={"Authorization": f"Bearer {TOKEN}"})
    began_s = time.perf_counter()
    with urlopen(request, timeout=TIMEOUT_S) as answer:
        data = answer.read()
    return (time.perf_counter() - began_s) * 1e3, len(json.dumps(json.loads(data)))


def main() -> None:
    """Make the runs, ask, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--anomalies", type=int, default=1_000_000)
    parser.add_argument("--ranks", type=int, default=1_000)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--kept", type=Path, help="Folder where the runs stay, for the next time.")
    options = parser.parse_args()
    history = MadeHistory(ranks=options.ranks, steps=options.steps, anomalies=options.anomalies)
    rows = []
    with made(options.kept, history) as run, Dashboard(run) as dashboard:
        for name, path in ASKED.items():
            # The first one is of somebody who comes when nothing is in memory.
            first_ms, size = ask(dashboard.base, path)
            began_s = dashboard.cpu_s()
            times_ms = [ask(dashboard.base, path)[0] for _ in range(options.rounds)]
            cpu_ms = (dashboard.cpu_s() - began_s) * 1e3 / options.rounds
            row = first_ms, quantile(times_ms, 0.5), quantile(times_ms, 0.95), cpu_ms
            rows.append((name, *(f"{value:,.0f}" for value in row), f"{size:,}"))
    print(f"{options.anomalies:,} abnormal calls of {options.ranks:,} ranks, {load_now()}")
    print(table(("asked", "first ms", "median ms", "p95 ms", "CPU ms", "bytes"), rows))


if __name__ == "__main__":
    main()
