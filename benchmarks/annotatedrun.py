"""How much longer a program runs of which 5,000 annotated calls a second are recorded.

    python -m benchmarks.annotatedrun [--rounds N] [--seconds S] [--json]

A program in Python and one in C++ do the same work again and again in an annotated function of 200 µs:
alone, into trace files, and into the live stream. All kinds take turns; a ratio is of two runs of one round,
from the first call to the end of the last, or until the file is whole. On a machine that has other work the
times are no figures; CPU times of the program's own threads suffer less.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import cost_of, table

CALL_US = 200.0
CLOCKS = ("", ", CPU time")
CHIMBUKO = (sys.executable, "-m", "chimbuko")
ALONE = "alone"
IN_PYTHON = """
import sys, time
from itertools import repeat
from chimbuko.annotations import aspects, critical_path

loops, calls = map(int, sys.argv[1:])

@critical_path
def work():
    # It makes no objects and reads no memory, so that where those lie is no part of a difference.
    for _ in repeat(None, loops):
        pass

begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
for _ in range(calls):
    work()
if aspects._file: aspects._file.close()
print(time.perf_counter() - begun_s, time.process_time() - begun_cpu_s)
"""
IN_CPLUSPLUS = """
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

__attribute__((annotate("@critical_path()"))) static double work(long loops)
{
    volatile double sum = 0;
    for (long n = 0; n < loops; n++)
        sum = sum + n;
    return sum;
}

int main(int, char **words)
{
    long loops = atol(words[1]), calls = atol(words[2]);
    auto begun = std::chrono::steady_clock::now();
    auto begun_cpu = std::clock();
    for (long n = 0; n < calls; n++)
        work(loops);
    printf("%f ", std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
    printf("%f\\n", double(std::clock() - begun_cpu) / CLOCKS_PER_SEC);
}
"""


@dataclass(frozen=True)
class Kind:
    """One way to run a program."""

    is_traced: bool = False
    options: str | None = None
    """PerfFlowAspect's."""


KINDS = {
    "Python": {
        ALONE: Kind(),
        "file, verbose": Kind(options="log-event=Verbose"),
        "file, compact": Kind(options="log-event=Compact"),
        "stream": Kind(is_traced=True),
    },
    "C++": {
        ALONE: Kind(),
        "stream": Kind(is_traced=True),
        "stream and file": Kind(is_traced=True, options="log-event=Verbose"),
    },
}


def seconds(program: list[str], kind: Kind, loops: int, calls: int) -> tuple[float, float]:
    """Time of the calls, as the program says, and CPU time of its threads meanwhile."""
    tracing = [*CHIMBUKO, "trace", *(["--annotated-only"] if program[0].endswith(".py") else [])]
    words = [*tracing, *program] if kind.is_traced else program
    if program[0].endswith(".py") and not kind.is_traced:
        words = [sys.executable, *program]
    environment = {name: value for name, value in os.environ.items() if name != "PERFFLOW_OPTIONS"}
    if kind.options is not None:
        environment["PERFFLOW_OPTIONS"] = kind.options
    with tempfile.TemporaryDirectory() as folder:
        environment["TAU_ADIOS2_FILENAME"] = f"{folder}/tau-metrics"
        done = subprocess.run(
            [*words, str(loops), str(calls)],
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
    wall_s, cpu_s = map(float, done.stdout.split())
    return wall_s, cpu_s


def programs(folder: Path) -> dict[str, list[str]]:
    """Command lines by language, without the arguments."""
    script, source, program = folder / "worker.py", folder / "worker.cpp", folder / "worker"
    script.write_text(IN_PYTHON)
    source.write_text(IN_CPLUSPLUS)
    subprocess.run([*CHIMBUKO, "cc", "g++", "-O2", str(source), "-o", str(program)], check=True)
    return {"Python": [str(script)], "C++": [str(program)]}


def measure(rounds: int, length_s: float) -> dict[str, dict[str, dict[str, float]]]:
    """By language and kind what it takes longer, in percent of what the program takes alone."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    calls = round(length_s * 1e6 / CALL_US)
    with tempfile.TemporaryDirectory() as folder:
        for language, program in programs(Path(folder)).items():
            kinds = KINDS[language]
            trial_us = 1e6 * seconds(program, Kind(), 10_000, 2_000)[1] / 2_000
            loops = round(10_000 * CALL_US / trial_us)
            ratios: dict[str, list[float]] = {
                f"{name}{clock}": [] for name in kinds if name != ALONE for clock in CLOCKS
            }
            for number in range(rounds):
                # The other way round each time, so that what comes first has no advantage.
                order = list(kinds.items())[:: 1 if number % 2 else -1]
                taken = {name: seconds(program, kind, loops, calls) for name, kind in order}
                for name in set(kinds) - {ALONE}:
                    for at, clock in enumerate(CLOCKS):
                        ratios[f"{name}{clock}"].append(taken[name][at] / taken[ALONE][at])
            found[language] = {name: cost_of(values) for name, values in ratios.items()}
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a run")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.rounds, options.seconds)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    rows = [
        (f"{language}, {name}", *(f"{cost[part]:+.2f} %" for part in ("mean", "low", "high")))
        for language, costs in found.items()
        for name, cost in costs.items()
    ]
    load = os.getloadavg()[0]
    print(table((f"longer, at 5,000 calls a second (load {load:.1f})", "mean", "from", "to"), rows))


if __name__ == "__main__":
    main()
