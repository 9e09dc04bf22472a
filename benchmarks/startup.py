"""Seconds from the start of an agent to its first analysed step, with compiled kernels in the cache.

Run: python benchmarks/startup.py [--rounds N] [--json]

The agent's process as `chimbuko run` starts it, with a broker, on a recorded stream that is there
already. CPU time is that of all its processes, until the step is in the spool.
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
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
from generate import SyntheticTrace, write_trace
from measuring import cpu_of, descendants, table

from chimbuko.ad.orders import AgentSpec, RecordedStream
from chimbuko.ad.warmup import warm_kernels
from chimbuko.broker import BROKER_VARIABLE, PrivateBroker
from chimbuko.config import AnalysisConfig

ROWS_PER_STEP = 20_000
STEPS = 50
POLL_S = 0.001
TIMEOUT_S = 60.0


@dataclass
class Result:
    """Of one start, in seconds."""

    ready: float
    """Until the agent could read streams."""
    first_step: float
    cpu: float


def measure(folder: Path, trace: Path, broker: PrivateBroker) -> Result:
    """Start an agent and stop it again."""
    spec = AgentSpec(
        agent="agent-0",
        index=0,
        count=1,
        node="node",
        scratch=str(folder / "scratch"),
        config=AnalysisConfig(),
        recorded=[RecordedStream(str(trace), "app", 0, 0)],
    )
    path = folder / "spec.json"
    path.write_bytes(msgspec.json.encode(spec))
    environment = {**os.environ, BROKER_VARIABLE: broker.url, "OPENBLAS_NUM_THREADS": "1"}
    began = time.monotonic()
    agent = subprocess.Popen(
        [sys.executable, "-m", "chimbuko.ad.service", str(path)], stdout=subprocess.PIPE, env=environment
    )
    try:
        assert agent.stdout is not None
        agent.stdout.readline()
        ready_s = time.monotonic() - began
        while not any(segment.stat().st_size for segment in (folder / "scratch").rglob("*.spool")):
            if time.monotonic() - began > TIMEOUT_S:
                sys.exit("no step was analysed")
            time.sleep(POLL_S)
        return Result(
            ready_s, time.monotonic() - began, cpu_of([agent.pid, *(p.pid for p in descendants(agent.pid))])
        )
    finally:
        agent.kill()
        agent.wait()


def as_table(results: list[Result]) -> str:
    """Median and worst."""
    rows = []
    for name, pick in (("median", statistics.median), ("worst", max)):
        columns = ([r.ready for r in results], [r.first_step for r in results], [r.cpu for r in results])
        rows.append((name, *(f"{pick(column):.2f}" for column in columns)))
    return table(("", "ready", "first step", "CPU"), rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print all that was measured as JSON")
    options = parser.parse_args()
    warm_kernels()
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = folder / "tau-metrics-app-0.bp"
        write_trace(trace, SyntheticTrace(ROWS_PER_STEP), STEPS)
        for number in range(options.rounds):
            work = folder / str(number)
            work.mkdir()
            with PrivateBroker(work / "broker.log") as broker:
                results.append(measure(work, trace, broker))
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        print("Seconds from the start of an agent")
        print(as_table(results))


if __name__ == "__main__":
    main()
