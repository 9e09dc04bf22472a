"""What an annotated call costs in Python, beside PerfFlowAspect and VizTracer.

    python -m benchmarks.annotations [--rounds N] [--json]

Each kind runs in processes of its own, which take turns: a loop of calls of an empty function, to the end of
the loop (on the clock, and in CPU time of the thread that calls), and until all of it is written. The cost of
a kind is its median less that of the function that is not annotated. The two other packages are installed
from PyPI into an environment of their own, of the same Python, that goes again with the end.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import table

CALLS = 50_000
PEERS = ("perfflowaspect==0.1.0", "viztracer==1.1.1")
LOOP = f"""
import time
def loop(function):
    begun_ns, begun_cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
    for _ in range({CALLS}):
        function()
    return (time.perf_counter_ns() - begun_ns) / {CALLS}, (time.thread_time_ns() - begun_cpu_ns) / {CALLS}
def empty(): pass
"""


@dataclass(frozen=True)
class Kind:
    """One way to note a call."""

    program: str
    """Sets ``begun_ns`` and ``in_loop``, the ns per call of its loop and of its thread's CPU time."""
    options: str | None = None
    is_peer: bool = False


OURS = """
from chimbuko.annotations import aspects, critical_path
begun_ns = time.perf_counter_ns()
in_loop = loop(critical_path(empty))
if aspects._file: aspects._file.close()
"""
STREAM = """
from chimbuko import tracer
tracer.start()
from chimbuko.annotations import critical_path
begun_ns = time.perf_counter_ns()
in_loop = loop(critical_path(empty))
tracer.stop()
"""
THEIRS = """
from perfflowaspect.aspect import critical_path
begun_ns = time.perf_counter_ns()
in_loop = loop(critical_path()(empty))
"""
VIZTRACER = f"""
from viztracer import VizTracer
tracer = VizTracer(verbose=0, tracer_entries={3 * CALLS})
tracer.start()
begun_ns = time.perf_counter_ns()
in_loop = loop(empty)
tracer.stop()
tracer.save("viztracer.json")
"""
PLAIN = "not annotated"
PRINT = f"print(*in_loop, (time.perf_counter_ns() - begun_ns) / {CALLS})"
KINDS = {
    PLAIN: Kind("begun_ns = time.perf_counter_ns()\nin_loop = loop(empty)"),
    "annotated, nobody watches": Kind(OURS),
    "verbose": Kind(OURS, ""),
    "compact": Kind(OURS, "log-event=Compact"),
    "with CPU and memory": Kind(OURS, "log-event=Compact:cpu-mem-usage=True"),
    "live stream": Kind(STREAM),
    "PerfFlowAspect, verbose": Kind(THEIRS, "log-event=Verbose", is_peer=True),
    "PerfFlowAspect, compact": Kind(THEIRS, "log-event=Compact", is_peer=True),
    "VizTracer": Kind(VIZTRACER, is_peer=True),
}


@contextmanager
def peers() -> Iterator[str | None]:
    """A Python that has the other packages, for as long as it is wanted; None where they cannot be had."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = f"{folder}/bin/python"
        words = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PEERS]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or [f"pip ended with {done.returncode}"])[-1]
            print(f"{' and '.join(PEERS)} cannot be installed: {reason}", file=sys.stderr)
        yield None if done.returncode else python


def measured(kind: Kind, python: str) -> tuple[float, ...]:
    """ns per call in the loop, of its CPU time, and until all is written."""
    environment = {name: value for name, value in os.environ.items() if name != "PERFFLOW_OPTIONS"}
    if kind.options is not None:
        environment["PERFFLOW_OPTIONS"] = kind.options
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "program.py"
        script.write_text(f"{LOOP}\n{kind.program}\n{PRINT}")
        words = [python, str(script)]
        done = subprocess.run(
            words, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
        )
    return tuple(map(float, done.stdout.split()))


def measure(rounds: int) -> dict[str, tuple[float, ...]]:
    """By kind what a call costs beyond one that nobody notes, as ``measured`` has it."""
    with peers() as python_of_peers:
        kinds = {name: kind for name, kind in KINDS.items() if python_of_peers or not kind.is_peer}
        found: dict[str, list[tuple[float, ...]]] = {name: [] for name in kinds}
        for _ in range(rounds):
            for name, kind in kinds.items():
                python = python_of_peers if kind.is_peer and python_of_peers else sys.executable
                found[name].append(measured(kind, python))
    medians = {name: [*map(statistics.median, zip(*values, strict=True))] for name, values in found.items()}
    plain = medians[PLAIN]
    # Nothing of the plain loop is written.
    base = plain[0], plain[1], plain[0]
    return {
        name: tuple(cost - own for cost, own in zip(costs, base, strict=True))
        for name, costs in medians.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    costs = measure(options.rounds)
    names = "loop_ns", "loop_cpu_ns", "whole_ns"
    if options.json:
        print(
            json.dumps({name: dict(zip(names, cost, strict=True)) for name, cost in costs.items()}, indent=2)
        )
        return
    heads = ("ns per call beyond a plain one", "in the loop", "CPU of its thread", "until written")
    print(table(heads, [(name, *(f"{ns:,.0f}" for ns in cost)) for name, cost in costs.items()]))


if __name__ == "__main__":
    main()
