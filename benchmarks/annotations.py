"""What an annotated call costs in Python, beside PerfFlowAspect and VizTracer where they are installed.

    python benchmarks/annotations.py [--rounds N] [--json]

Each kind runs in processes of its own, which take turns: a loop of calls of an empty function, to the end of
the loop and until the file is written. The cost of a kind is its median less that of the function that is
not annotated.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass

CALLS = 50_000
LOOP = f"""
import time
def loop(function):
    begun_ns = time.perf_counter_ns()
    for _ in range({CALLS}):
        function()
    return (time.perf_counter_ns() - begun_ns) / {CALLS}
def empty(): pass
"""


@dataclass(frozen=True)
class Kind:
    """One way to note a call."""

    program: str
    """Sets ``begun_ns`` and ``in_loop``, the ns per call of its loop."""
    options: str | None = None
    package: str = "chimbuko"


OURS = """
from chimbuko.annotations import aspects, critical_path
begun_ns = time.perf_counter_ns()
in_loop = loop(critical_path(empty))
if aspects._file: aspects._file.close()
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
PRINT = f"print(in_loop, (time.perf_counter_ns() - begun_ns) / {CALLS})"
KINDS = {
    "not annotated": Kind("begun_ns = time.perf_counter_ns()\nin_loop = loop(empty)"),
    "annotated, nobody watches": Kind(OURS),
    "verbose": Kind(OURS, ""),
    "compact": Kind(OURS, "log-event=Compact"),
    "with CPU and memory": Kind(OURS, "log-event=Compact:cpu-mem-usage=True"),
    "PerfFlowAspect, verbose": Kind(THEIRS, "", "perfflowaspect"),
    "PerfFlowAspect, compact": Kind(THEIRS, "log-event=Compact", "perfflowaspect"),
    "VizTracer": Kind(VIZTRACER, None, "viztracer"),
}


def measured(kind: Kind) -> tuple[float, float]:
    """ns per call in the loop, and until the file is written."""
    environment = {name: value for name, value in os.environ.items() if name != "PERFFLOW_OPTIONS"}
    if kind.options is not None:
        environment["PERFFLOW_OPTIONS"] = kind.options
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", f"{LOOP}\n{kind.program}\n{PRINT}"],
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
    in_loop, in_all = map(float, done.stdout.split())
    return in_loop, in_all


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    kinds = {name: kind for name, kind in KINDS.items() if importlib.util.find_spec(kind.package)}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
    for _ in range(options.rounds):
        for name, kind in kinds.items():
            found[name].append(measured(kind))
    medians = {name: [statistics.median(each) for each in zip(*found[name], strict=True)] for name in kinds}
    plain_ns = medians["not annotated"][0]
    costs = {
        name: {"loop_ns": in_loop - plain_ns, "whole_ns": in_all - plain_ns}
        for name, (in_loop, in_all) in medians.items()
    }
    if options.json:
        print(json.dumps(costs, indent=2))
        return
    print(f"{'ns per call beyond an empty one':34}{'in the loop':>12}{'until written':>15}")
    for name, cost in costs.items():
        print(f"{name:34}{cost['loop_ns']:12.0f}{cost['whole_ns']:15.0f}")
    for name in KINDS.keys() - kinds.keys():
        print(f"{name}: not measured, as the package {KINDS[name].package} is not installed")


if __name__ == "__main__":
    main()
