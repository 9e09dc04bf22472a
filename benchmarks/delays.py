"""How long the application's steps take while the analysis beside it is killed, stopped and slowed down.

Run: python -m benchmarks.delays [--streams N] [--seconds S] [--json]

A stand-in for TAU writes steps of 4.4 MB over SST at the settings of ``chimbuko run``, from the thread that
computes: what a step takes, the application waits. Steps of 5 MB shall never take more than 100 ms, except
where the whole agent is stopped while its readers join their streams: nobody makes them go on then.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.measuring import table
from tests.integration.beside import (
    Application,
    begin,
    kill_readers,
    slow_readers,
    stop_agent,
    stop_agent_while_readers_join,
    stop_joining_readers,
    stop_reader,
)
from tests.integration.conftest import Run

ROUNDS_PER_TICK_S = 120
"""For a period of 1 s; of 368 bytes, a hundred ticks a second: 4.4 MB per step."""
PERIOD_S = 0.25
LONG_PERIOD_S = 2.0
"""So long does a reader wait to be let in."""
SCENARIOS: dict[str, tuple[Callable[[Application], None], float]] = {
    "undisturbed": (lambda application: None, PERIOD_S),
    "readers killed": (kill_readers, PERIOD_S),
    "reader stopped": (stop_reader, PERIOD_S),
    "readers slow": (slow_readers, PERIOD_S),
    "whole agent stopped for 3 s": (stop_agent, PERIOD_S),
    "joining readers stopped": (stop_joining_readers, LONG_PERIOD_S),
    "whole agent stopped for 3 s while readers join": (stop_agent_while_readers_join, LONG_PERIOD_S),
}


@dataclass(frozen=True)
class Delays:
    """What the steps of one scenario took."""

    scenario: str
    steps: int
    step_bytes: int
    median_ms: float
    p99_ms: float
    worst_ms: float
    close_ms: float
    """The longest wait at the end of a stream."""
    unseen: int
    """Steps that the analysis missed."""


def measure(scenario: str, streams: int, seconds: float) -> Delays:
    """Run one scenario."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)

        def start(*arguments: str | Path, environment: dict[str, str] | None = None) -> Run:
            return Run(folder / "run", *arguments, environment=environment)

        disturb, period_s = SCENARIOS[scenario]
        settings = {"STAND_IN_CALLS": str(round(ROUNDS_PER_TICK_S / period_s))}
        application = begin(start, folder, streams, seconds, period_s, environment=settings)
        disturb(application)
        measured = application.measured()
        health = application.run.health
    # The last step is smaller, and nobody waits for it but the end.
    step_s = np.concatenate([process["step_s"][:-1] for process in measured])
    return Delays(
        scenario=scenario,
        steps=len(step_s),
        step_bytes=max(stream.largest_step_bytes for stream in health),
        median_ms=1e3 * statistics.median(step_s),
        p99_ms=1e3 * float(np.quantile(step_s, 0.99)),
        worst_ms=1e3 * float(step_s.max()),
        close_ms=1e3 * max(process["close_s"] for process in measured),
        unseen=sum(process["steps"] for process in measured) - sum(stream.steps for stream in health),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", type=int, default=2, help="processes of the application")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each scenario lasts")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    results = [measure(scenario, options.streams, options.seconds) for scenario in SCENARIOS]
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
        return
    heads = ("scenario", "steps", "MB/step", "median ms", "p99 ms", "worst ms", "close ms", "steps not seen")
    rows = [
        (
            result.scenario,
            f"{result.steps}",
            f"{result.step_bytes / 1e6:.1f}",
            *(f"{ms:.1f}" for ms in (result.median_ms, result.p99_ms, result.worst_ms, result.close_ms)),
            f"{result.unseen}",
        )
        for result in results
    ]
    print(table(heads, rows))


if __name__ == "__main__":
    main()
