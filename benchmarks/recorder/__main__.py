"""What our recorder costs an MPI program: ns per call beside an empty wrapper and beside TAU, and part of a
halo's run time, alone and with the whole analysis on the same cores.

    python -m benchmarks.recorder [--only events|hooks|openmp|halo] [--rounds N] [--json]
    python -m benchmarks.recorder --apps NAME COMMAND 'COMMAND WITH HOOKS' [--apps ...] [--rounds N]
    python -m benchmarks.recorder --delays NAME 'COMMAND WITH HOOKS' [--delays ...] [--rounds N] [--seed N]

Needs an mpicc: that of the mpich wheel, or another one on the PATH. TAU is measured where a tau_exec for
this MPI is on the PATH. Kinds take turns, so that other work on the machine falls on all alike. On a quiet
machine it takes some ten minutes. The halo program runs 2 ranks; where less than two cores are free its run
time says more of the machine than of the recorder, and the CPU time of the drains says more.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from benchmarks.measuring import cost_of, processes
from benchmarks.recorder.apps import apps, apps_table
from benchmarks.recorder.delays import as_json, delays, delays_table
from chimbuko.capture.follow.space import MEMORY

HERE = Path(__file__).resolve().parent
BESIDE_PYTHON = str(Path(sys.executable).parent)
TRACE = [sys.executable, "-m", "chimbuko", "trace"]
CHIMBUKO = [sys.executable, "-m", "chimbuko"]
TAU = ["tau_exec", "-T", "mpi,pthread", "-adios2_trace"]
KINDS = ("function", "MPI call", "MPI call with messages")
ITERATIONS, SWEEPS = 40_000, 4
DRAIN = "chimbuko.instrument.recorder.drain"
LOOK_PERIOD_S = 0.2


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("events", "hooks", "openmp", "halo"))
    parser.add_argument(
        "--apps",
        nargs=3,
        action="append",
        metavar=("NAME", "COMMAND", "HOOKED"),
        help="measure a program instead, without and with hooks; {trace} is where 'chimbuko trace' goes",
    )
    parser.add_argument(
        "--delays",
        nargs=2,
        action="append",
        metavar=("NAME", "HOOKED"),
        help="inject delays into a program, which begins the command, and see how many of them are found",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the places of delays")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", dest="as_json")
    options = parser.parse_args()
    if options.apps:
        of_apps = apps(options.apps, options.rounds)
        print(json.dumps(of_apps) if options.as_json else apps_table(of_apps))
        return 0
    if options.delays:
        of_delays = delays(options.delays, options.rounds, options.seed)
        print(as_json(of_delays) if options.as_json else delays_table(of_delays))
        return 0
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="chimbuko-recorder-") as name:
        folder = Path(name)
        if options.only in (None, "events"):
            found["events_ns"] = events(folder, options.rounds)
        if options.only in (None, "hooks"):
            found["hooks_ns"] = hooks(folder, options.rounds)
        if options.only in (None, "openmp"):
            found["openmp_ns"] = openmp(folder, options.rounds)
        if options.only in (None, "halo"):
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
    """The numbers that a program prints, in a line with nothing else."""
    command, environment = list(map(str, words)), {**os.environ, **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} has failed: {done.stderr}")
    for line in done.stdout.splitlines():
        with suppress(ValueError):
            if numbers := [float(word) for word in line.split()]:
                return numbers
    sys.exit(f"{words[0]} has printed no numbers: {done.stdout}")


def events(folder: Path, rounds: int) -> dict[str, dict[str, float]]:
    """ns per call: medians over rounds, of medians of bursts."""
    program = build("events.c", folder / "events", "-finstrument-functions")
    empty = build("emptywrapper.c", folder / "empty.so", "-shared", "-fPIC")
    streams = {"TAU_ADIOS2_FILENAME": str(folder / "tau-metrics")}
    # Without a launcher TAU does not know that the program uses MPI.
    launched = [tool("mpirun"), "-n", "1"]
    commands: dict[str, tuple[list[str | Path], dict[str, str]]] = {
        "plain": ([*launched, program], {}),
        "empty wrapper": ([*launched, "env", f"LD_PRELOAD={empty}", program], {}),
        # All calls are wanted: the program does nothing else.
        "recorder": ([*launched, *TRACE, "--overhead", "100%", program], streams),
    }
    if shutil.which(TAU[0]):
        tau = {
            "TAU_THROTTLE": "0",
            "TAU_PROFILE": "0",
            "TAU_ADIOS2_ENGINE": "BPFile",
            "TAU_ADIOS2_PERIODIC": "1",
        }
        commands["TAU"] = ([*launched, *TAU, program], {**streams, **tau})
    taken: dict[str, list[list[float]]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, (words, variables) in commands.items():
            taken[name].append(output(words, **variables)[::2])
    return {
        kind: {name: statistics.median(row[at] for row in rows) for name, rows in taken.items()}
        for at, kind in enumerate(KINDS)
    }


def hooks(folder: Path, rounds: int) -> dict[str, float]:
    """ns per hook: of the C library's, which do nothing, and of ours for a function that is left out."""
    program = build("hooks.c", folder / "hooks", "-ldl")
    streams = {"TAU_ADIOS2_FILENAME": str(folder / "tau-hooks")}
    taken = [(output([program])[0], output([*TRACE, program], **streams)[0]) for _ in range(rounds)]
    empty, left_out = (statistics.median(values) for values in zip(*taken, strict=True))
    return {"empty": empty, "left out": left_out}


def openmp(folder: Path, rounds: int) -> dict[str, dict[str, float]]:
    """ns of CPU time that a region and a loop cost a thread, by the compiler that is there."""
    streams = {"TAU_ADIOS2_FILENAME": str(folder / "tau-openmp")}
    found = {}
    for compiler in filter(shutil.which, ("gcc", "clang")):
        program = folder / f"openmp-{compiler}"
        words = [compiler, "-O2", "-fopenmp", str(HERE / "openmp.c"), "-o", str(program)]
        if subprocess.run(words, capture_output=True).returncode:
            continue
        taken = [
            (output([program]), output([*TRACE, "--overhead", "100%", program], **streams))
            for _ in range(rounds)
        ]
        costs = [[own - plain for plain, own in zip(*pair, strict=True)] for pair in taken]
        found[compiler] = {
            what: statistics.median(cost[at] for cost in costs) for at, what in enumerate(("region", "loop"))
        }
    return found


def halo(folder: Path, rounds: int) -> dict[str, Any]:
    """Run time with the recorder, and with the analysis beside it, over that without; the rate of calls."""
    program = build("halo.c", folder / "halo", "-finstrument-functions")
    launch = [tool("mpirun"), "-n", "2"]
    size = [str(ITERATIONS), str(SWEEPS)]
    recorded, analysed, rates, drains = [], [], [], []
    for number in range(rounds):
        plain_s, calls = output([*launch, program, *size])
        rates.append(calls / plain_s)
        # In memory, where followed files of a run are.
        with (
            tempfile.TemporaryDirectory(prefix="chimbuko-halo-", dir=MEMORY) as streams,
            DrainClock() as clock,
        ):
            variables = {"TAU_ADIOS2_FILENAME": f"{streams}/tau-halo", "TAU_ADIOS2_PERIOD": "1000000"}
            recorded_s, _ = output([*launch, *TRACE, program, *size], **variables)
        drains.append(clock.cpu_s / recorded_s)
        recorded.append(recorded_s / plain_s)
        run = [*CHIMBUKO, "run", "--no-dashboard", "--output", folder / f"run{number}", "--"]
        analysed.append(output([*run, *launch, *TRACE, program, *size])[0] / plain_s)
    return {
        "recorder": cost_of(recorded),
        "with_analysis": cost_of(analysed),
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


def table(found: Mapping[str, object]) -> str:
    lines = []
    if isinstance(measured := found.get("events_ns"), dict):
        names = list(next(iter(measured.values())))
        costs = [name for name in names if name in ("recorder", "TAU")]
        heads = [*names, *(f"cost of {'the recorder' if name == 'recorder' else name}" for name in costs)]
        lines += [f"| ns per call | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
        for kind, row in measured.items():
            beside = row["plain"] if kind == "function" else row["empty wrapper"]
            values = [*(row[name] for name in names), *(row[name] - beside for name in costs)]
            lines.append(f"| {kind} | {' | '.join(f'{value:.0f}' for value in values)} |")
    if isinstance(of_hooks := found.get("hooks_ns"), dict):
        lines += ["", ", ".join(f"{name}: {ns:.1f} ns a hook" for name, ns in of_hooks.items())]
    if isinstance(of_openmp := found.get("openmp_ns"), dict):
        for compiler, costs in of_openmp.items():
            told = ", ".join(f"{ns:.0f} ns a {what}" for what, ns in costs.items())
            lines += ["", f"OpenMP of {compiler}, for each thread: {told}"]
    if isinstance(cost := found.get("halo"), dict):
        cores, load, rounds = os.cpu_count(), os.getloadavg()[0], cost["rounds"]
        rate = f"{cost['calls_per_second']:,.0f}"
        lines += [
            "",
            f"| halo, 2 ranks, {rate} calls/s each | % of its run time | 95 % interval |",
            "|---|---:|---:|",
            f"| recorder and its drains | {percent(cost['recorder'])} |",
            f"| with the whole analysis on the same cores | {percent(cost['with_analysis'])} |",
            "",
            f"The drains took {cost['drains_percent']:.2f} % of a core ({rounds} rounds, {cores} cores, "
            f"load {load:.1f}).",
        ]
    return "\n".join(lines)


def percent(cost: Mapping[str, float]) -> str:
    return f"{cost['mean']:+.2f} | {cost['low']:+.2f} to {cost['high']:+.2f}"


if __name__ == "__main__":
    sys.exit(main())
