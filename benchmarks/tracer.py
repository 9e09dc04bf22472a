"""What tracing costs a Python program: ns per call, traced and not, measured side by side.

    python benchmarks/tracer.py [--json]

Each figure is the median of rounds in which all kinds take turns, so that other work on the machine
falls on all of them alike. The cost of a kind is its time less that of the same loop without it.

``whole program`` is what a user pays: the wall time of a program of a million calls, from its start to its
end, with the process beside it that writes its stream, less that of the same program alone; for each call.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import token
from collections.abc import Callable
from pathlib import Path

from chimbuko import tracer
from chimbuko.instrument.recorder.overhead import OVERHEAD_VARIABLE
from chimbuko.instrument.tracer import session

CALLS = 20_000
ALL, NONE = "1", "1e-7"
"""Budgets of all calls, and of none."""
ROUNDS = 15
WHOLE_CALLS, WHOLE_ROUNDS = 1_000_000, 5
WHOLE_PROGRAM = f"""
def empty():
    pass

def main():
    for _ in range({WHOLE_CALLS}):
        empty()

main()
"""


def empty() -> None:
    pass


@tracer.traced
def decorated() -> None:
    pass


@tracer.untraced
def calls() -> None:
    for _ in range(CALLS):
        empty()


@tracer.untraced
def calls_of_others() -> None:
    for _ in range(CALLS):
        token.ISEOF(1)


@tracer.untraced
def decorated_calls() -> None:
    for _ in range(CALLS):
        decorated()


@tracer.untraced
def regions() -> None:
    for _ in range(CALLS):
        with tracer.region("region"):
            pass


@tracer.untraced
def messages() -> None:
    for _ in range(CALLS):
        tracer.send(1, 2, 3)


@tracer.untraced
def counters() -> None:
    for _ in range(CALLS):
        tracer.counter("counter", 5.0)


HOOKED: dict[str, tuple[Callable[[], None], str]] = {
    "function call": (calls, ALL),
    "left out": (calls, NONE),
    "of others": (calls_of_others, ALL),
}
"""With functions of the program recorded as far as a budget goes; those of others are not."""
NAMED: dict[str, Callable[[], None]] = {
    "decorated call": decorated_calls,
    "region": regions,
    "message": messages,
    "counter": counters,
}
KINDS = {kind: loop for kind, (loop, _) in HOOKED.items()} | NAMED


def ns_per_call(loop: Callable[[], None]) -> float:
    start = time.perf_counter_ns()
    loop()
    return (time.perf_counter_ns() - start) / CALLS


def measure() -> dict[str, dict[str, float]]:
    """For each kind ns without a tracer, ns with it, and their ratio."""
    without: dict[str, list[float]] = {kind: [] for kind in KINDS}
    active: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(ROUNDS):
        for kind, loop in KINDS.items():
            without[kind].append(ns_per_call(loop))
        for kind, (loop, budget) in HOOKED.items():
            os.environ[OVERHEAD_VARIABLE] = budget
            tracer.start("benchmark", 0)
            session.trace_functions((), with_builtins=False)
            active[kind].append(ns_per_call(loop))
            tracer.stop()
        tracer.start("benchmark", 0)
        for kind, loop in NAMED.items():
            active[kind].append(ns_per_call(loop))
        tracer.stop()
    del os.environ[OVERHEAD_VARIABLE]
    medians = {kind: (statistics.median(without[kind]), statistics.median(active[kind])) for kind in KINDS}
    return {
        kind: {"untraced_ns": plain, "traced_ns": traced, "cost_ns": traced - plain, "ratio": traced / plain}
        for kind, (plain, traced) in medians.items()
    }


def measure_whole(folder: Path) -> dict[str, float]:
    """As ``measure`` for one kind, of whole programs."""
    program = folder / "program.py"
    program.write_text(WHOLE_PROGRAM)
    commands = [sys.executable], [sys.executable, "-m", "chimbuko", "trace"]
    times_ns: list[list[float]] = [[], []]
    for _ in range(WHOLE_ROUNDS):
        for command, times in zip(commands, times_ns, strict=True):
            start = time.perf_counter_ns()
            subprocess.run([*command, str(program)], check=True, cwd=folder)
            times.append((time.perf_counter_ns() - start) / WHOLE_CALLS)
    plain, traced = map(statistics.median, times_ns)
    return {"untraced_ns": plain, "traced_ns": traced, "cost_ns": traced - plain, "ratio": traced / plain}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TAU_ADIOS2_FILENAME"] = os.path.join(folder, "tau-metrics")
        results = measure() | {"whole program": measure_whole(Path(folder))}
    if options.json:
        print(json.dumps(results, indent=2))
        return
    print(f"{'':16}{'untraced':>10}{'traced':>10}{'cost':>10}   ns per call, median of {ROUNDS} rounds")
    for kind, result in results.items():
        print(
            f"{kind:16}{result['untraced_ns']:10.0f}{result['traced_ns']:10.0f}{result['cost_ns']:10.0f}"
            f"   {result['ratio']:.1f} times"
        )


if __name__ == "__main__":
    main()
