"""What our recorder costs an MPI program: ns per call beside an empty wrapper, and of a halo's run time.

    python -m benchmarks.recorder [--only events|halo] [--rounds N] [--json]

Needs an mpicc: that of the mpich wheel, or another one on the PATH. Kinds take turns, so that other work on
the machine falls on all alike. The halo program runs 2 ranks; where less than two cores are free its run time
says more of the machine than of the recorder, and the CPU time of the drains says more.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from benchmarks.measuring import processes

HERE = Path(__file__).resolve().parent
BESIDE_PYTHON = str(Path(sys.executable).parent)
TRACE = [sys.executable, "-m", "chimbuko", "trace"]
KINDS = ("function", "MPI call", "MPI call with messages")
ITERATIONS, SWEEPS = 10_000, 4
RESAMPLES = 2000
DRAIN = "chimbuko.recorder.drain"
LOOK_PERIOD_S = 0.2


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("events", "halo"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", dest="as_json")
    options = parser.parse_args()
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="chimbuko-recorder-") as name:
        folder = Path(name)
        if options.only != "halo":
            found["events_ns"] = events(folder, options.rounds)
        if options.only != "events":
            found["halo"] = halo(folder, options.rounds)
    print(json.dumps(found) if options.as_json else table(found))
    return 0


def tool(name: str) -> str:
    """A command of the MPI to be measured with."""
    path = os.pathsep.join((BESIDE_PYTHON, os.environ["PATH"]))
    found = shutil.which(name, path=path)
    if found is None:
        sys.exit(f"no {name}: install the mpich wheel, or put an MPI on the PATH")
    return found


def build(source: str, target: Path, *flags: str) -> Path:
    subprocess.run([tool("mpicc"), "-O2", *flags, str(HERE / source), "-o", str(target)], check=True)
    return target


def output(words: list[str | Path], **variables: str) -> list[float]:
    """The numbers that a program prints."""
    done = subprocess.run(
        list(map(str, words)), env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True, check=True
    )
    return [float(word) for word in done.stdout.split()]


def events(folder: Path, rounds: int) -> dict[str, dict[str, float]]:
    """ns per call: medians over rounds, of medians of bursts."""
    program = build("events.c", folder / "events", "-finstrument-functions")
    empty = build("emptywrapper.c", folder / "empty.so", "-shared", "-fPIC")
    streams = {"TAU_ADIOS2_FILENAME": str(folder / "tau-metrics")}
    taken: dict[str, list[list[float]]] = {"plain": [], "empty wrapper": [], "recorder": []}
    for _ in range(rounds):
        taken["plain"].append(output([program])[::2])
        taken["empty wrapper"].append(output([program], LD_PRELOAD=str(empty))[::2])
        taken["recorder"].append(output([*TRACE, program], **streams)[::2])
    return {
        kind: {name: statistics.median(row[at] for row in rows) for name, rows in taken.items()}
        for at, kind in enumerate(KINDS)
    }


def halo(folder: Path, rounds: int) -> dict[str, float]:
    """Run time with the recorder and its drains over that without, its interval, and the rate of calls."""
    program = build("halo.c", folder / "halo", "-finstrument-functions")
    launch = [tool("mpirun"), "-n", "2"]
    size = [str(ITERATIONS), str(SWEEPS)]
    streams = {"TAU_ADIOS2_FILENAME": str(folder / "tau-halo"), "TAU_ADIOS2_PERIOD": "1000000"}
    ratios, rates, drains = [], [], []
    for _ in range(rounds):
        kinds = ("plain", "recorded")
        seconds = {}
        for kind in kinds:
            words = launch + (TRACE if kind == "recorded" else []) + [str(program), *size]
            with DrainClock() as clock:
                seconds[kind], calls = output(list(words), **streams)
            rates.append(calls / seconds[kind])
        drains.append(clock.cpu_s / seconds["recorded"])
        ratios.append(seconds["recorded"] / seconds["plain"])
    low, high = interval(ratios)
    return {
        "cost_percent": 100 * (statistics.fmean(ratios) - 1),
        "low_percent": 100 * (low - 1),
        "high_percent": 100 * (high - 1),
        "drains_percent": 100 * statistics.median(drains),
        "calls_per_second": statistics.median(rates),
        "rounds": rounds,
    }


class DrainClock:
    """CPU time of all drains on this machine while they live, after they have begun to drain."""

    def __enter__(self) -> Self:
        self.cpu_s = 0.0
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.cpu_s = sum(self._last[pid] - self._first[pid] for pid in self._last)

    def _look(self) -> None:
        while not self._stop.wait(LOOK_PERIOD_S):
            for process in processes().values():
                if DRAIN in process.command:
                    # What it takes to begin is before the program does.
                    self._first.setdefault(process.pid, process.cpu_s)
                    self._last[process.pid] = process.cpu_s


def interval(values: list[float]) -> tuple[float, float]:
    """95 % interval of the mean, by resampling."""
    draw = random.Random(1)
    means = sorted(statistics.fmean(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return means[RESAMPLES // 40], means[-RESAMPLES // 40]


def table(found: Mapping[str, object]) -> str:
    lines = []
    if isinstance(measured := found.get("events_ns"), dict):
        lines += ["| ns per call | plain | empty wrapper | recorder | cost |", "|---|---:|---:|---:|---:|"]
        for kind, row in measured.items():
            beside = row["plain"] if kind == "function" else row["empty wrapper"]
            values = " | ".join(f"{row[name]:.0f}" for name in ("plain", "empty wrapper", "recorder"))
            lines.append(f"| {kind} | {values} | {row['recorder'] - beside:.0f} |")
    if isinstance(cost := found.get("halo"), dict):
        low, high, rounds = cost["low_percent"], cost["high_percent"], cost["rounds"]
        cores, load = os.cpu_count(), os.getloadavg()[0]
        lines += [
            "",
            f"Halo, 2 ranks, {cost['calls_per_second']:,.0f} calls/s each:",
            f"{cost['cost_percent']:+.2f} % of the run time ({low:+.2f} to {high:+.2f}, {rounds} rounds);",
            f"the drains take {cost['drains_percent']:.2f} % of a core ({cores} cores, load {load:.1f})",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
