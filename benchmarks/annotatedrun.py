"""How much longer a program runs of which 5,000 annotated calls a second are recorded.

    python -m benchmarks.annotatedrun [--rounds N] [--seconds S] [--json]

A program in Python and one in C++ do the same work again and again in an annotated function of 200 µs, into
trace files and the live stream. In C++ kinds take turns as runs, and a ratio is of two runs of one round.
In Python one process may be a fifth faster than the next, whatever is recorded: there the function and the
annotated function take turns within a process, half as long as a run and the other way round each time, and
a ratio is of two neighbours. Their work is the loop of the program in C++, called with the interpreter's lock
held: each of its additions waits for the one before, so that it takes as long whatever else the core does.
The last tenth of a turn is written while the process rests after it, which CPU times contain; they suffer
less from other work on the machine, too.
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
TURNS = 4
"""Of a process in Python."""
IN_PYTHON = f"""
import ctypes, sys, time
from chimbuko.annotations import critical_path

loops, calls = map(int, sys.argv[2:])
added = ctypes.PyDLL(sys.argv[1]).added
added.argtypes = (ctypes.c_long,)

def work():
    added(loops)

def timed(function, calls):
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    for _ in range(calls):
        function()
    wall_s = time.perf_counter() - begun_s
    time.sleep(0.5)
    return wall_s, time.process_time() - begun_cpu_s

annotated = critical_path(work)
timed(annotated, 1_000)
for number in range({TURNS} // 2):
    turns = (work, annotated)[:: 1 if number % 2 else -1]
    found = {{function: timed(function, calls) for function in turns}}
    print(*(with_s / without_s for with_s, without_s in zip(found[annotated], found[work])))
"""
WORK = """
extern "C" __attribute__((noinline)) void added(long loops)
{
    // Each addition waits for the one before.
    volatile double sum = 0;
    for (long n = 0; n < loops; n++)
        sum = sum + n;
}
"""
IN_CPLUSPLUS = f"""
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
{WORK}
__attribute__((annotate("@critical_path()"))) static void work(long loops)
{{
    added(loops);
}}

int main(int, char **words)
{{
    long loops = atol(words[1]), calls = atol(words[2]);
    auto begun = std::chrono::steady_clock::now();
    auto begun_cpu = std::clock();
    for (long n = 0; n < calls; n++)
        work(loops);
    printf("%f ", std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
    printf("%f\\n", double(std::clock() - begun_cpu) / CLOCKS_PER_SEC);
}}
"""


@dataclass(frozen=True)
class Kind:
    """One way to run a program."""

    is_traced: bool = False
    options: str | None = None
    """PerfFlowAspect's."""


IN_PYTHON_KINDS = {
    "file, verbose": Kind(options="log-event=Verbose"),
    "file, compact": Kind(options="log-event=Compact"),
    "stream": Kind(is_traced=True),
}
IN_CPLUSPLUS_KINDS = {
    ALONE: Kind(),
    "stream": Kind(is_traced=True),
    "stream and file": Kind(is_traced=True, options="log-event=Verbose"),
}
Figures = list[tuple[float, ...]]
"""On the clock, and in CPU time, for each pair of turns or runs."""


def run(program: Path, kind: Kind, *arguments: Path | int) -> Figures:
    """The lines of numbers that a program prints."""
    is_script = program.suffix == ".py"
    tracing = [*CHIMBUKO, "trace", *(["--annotated-only"] if is_script else [])]
    plainly = [sys.executable] if is_script else []
    environment = {name: value for name, value in os.environ.items() if name != "PERFFLOW_OPTIONS"}
    if kind.options is not None:
        environment["PERFFLOW_OPTIONS"] = kind.options
    with tempfile.TemporaryDirectory() as folder:
        environment["TAU_ADIOS2_FILENAME"] = f"{folder}/tau-metrics"
        done = subprocess.run(
            [*(tracing if kind.is_traced else plainly), program, *map(str, arguments)],
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
    return [tuple(map(float, line.split())) for line in done.stdout.splitlines()]


def in_python(folder: Path, loops: int, rounds: int, length_s: float) -> dict[str, Figures]:
    """By kind the ratios of neighbouring turns."""
    script, source, library = folder / "worker.py", folder / "work.cpp", folder / "libwork.so"
    script.write_text(IN_PYTHON)
    source.write_text(WORK)
    subprocess.run(["g++", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    calls = round(length_s * 1e6 / CALL_US / 2)
    ratios: dict[str, Figures] = {name: [] for name in IN_PYTHON_KINDS}
    for _ in range(rounds):
        for name, kind in IN_PYTHON_KINDS.items():
            ratios[name] += run(script, kind, library, loops, calls)
    return ratios


def built(folder: Path) -> tuple[Path, int]:
    """The program in C++, and how many additions take as long as a call."""
    source, program = folder / "worker.cpp", folder / "worker"
    source.write_text(IN_CPLUSPLUS)
    subprocess.run([*CHIMBUKO, "cc", "g++", "-O2", str(source), "-o", str(program)], check=True)
    ((_, trial_s),) = run(program, Kind(), 10_000, 2_000)
    return program, round(10_000 * CALL_US * 2_000 / (1e6 * trial_s))


def in_cplusplus(program: Path, loops: int, rounds: int, length_s: float) -> dict[str, Figures]:
    """By kind the ratios of a run and the one of the same round that is alone."""
    ratios: dict[str, Figures] = {name: [] for name in IN_CPLUSPLUS_KINDS if name != ALONE}
    for number in range(rounds):
        # The other way round each time, so that what comes first has no advantage.
        order = list(IN_CPLUSPLUS_KINDS.items())[:: 1 if number % 2 else -1]
        calls = round(length_s * 1e6 / CALL_US)
        taken = {name: run(program, kind, loops, calls)[0] for name, kind in order}
        for name, figures in ratios.items():
            figures.append(tuple(a / b for a, b in zip(taken[name], taken[ALONE], strict=True)))
    return ratios


def measure(rounds: int, length_s: float) -> dict[str, dict[str, float]]:
    """By language, kind and clock what it takes longer, in percent of what the program takes alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, loops = built(folder)
        found = {
            "Python": in_python(folder, loops, rounds, length_s),
            "C++": in_cplusplus(program, loops, rounds, length_s),
        }
    return {
        f"{language}, {kind}{clock}": cost_of([pair[at] for pair in figures])
        for language, kinds in found.items()
        for kind, figures in kinds.items()
        for at, clock in enumerate(CLOCKS)
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a run; of a turn half of it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.rounds, options.seconds)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    rows = [
        (name, *(f"{cost[part]:+.2f} %" for part in ("mean", "low", "high"))) for name, cost in found.items()
    ]
    load = os.getloadavg()[0]
    print(table((f"longer, at 5,000 calls a second (load {load:.1f})", "mean", "from", "to"), rows))


if __name__ == "__main__":
    main()
