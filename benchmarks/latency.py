"""Milliseconds from the newest event of a live step to the labels of its calls.

Run: python benchmarks/latency.py [--transport T ...] [--rows-per-step N ...] [--steps N] [--json]

A rank in another process streams into files in memory, or over SST, with the settings of `chimbuko run`; the
newest event of a step happens when the step is written. Between it and the labels lie writing, transfer, and
analysis.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measuring import table
from streams import analyse, be_fork_server, spec_of

from chimbuko.capture.follow.space import MEMORY
from chimbuko.capture.trace.discovery import CONTACT_SUFFIX, Transport
from chimbuko.capture.trace.tausettings import application_settings

JOINING_STEPS = 3
"""The first steps find cold memory on both sides; the writer's names come with them."""


def latencies_ms(
    folder: Path, transport: Transport, rows_per_step: int, steps: int, period_s: float
) -> list[float]:
    """Of all steps but the first ones."""
    settings = application_settings(folder, folder, round(1e6 * period_s), {}, transport)
    environment = {**os.environ, **settings}
    command = [sys.executable, str(Path(__file__).with_name("ranks.py")), "--ranks", "1"]
    command += ["--rows-per-step", str(rows_per_step), "--steps", str(steps), "--period", str(period_s)]
    stream = folder / "tau-metrics-ranks-0.bp"
    with subprocess.Popen(command, env=environment) as writer:
        begun = stream.with_name(stream.name + CONTACT_SUFFIX) if transport is Transport.SST else stream
        while not begun.exists():
            if writer.poll() is not None:
                sys.exit(f"the writer ended with code {writer.returncode}")
            time.sleep(0.01)
        analysed = analyse(spec_of(stream, transport, folder), with_latencies=True)
    return analysed.latencies_ms[JOINING_STEPS:]


def as_table(results: list[tuple[Transport, int, list[float]]]) -> str:
    """Quantiles in ms."""
    rows = [
        (
            transport.value,
            f"{rows_per_step:,}",
            str(len(found)),
            *(f"{np.quantile(found, q):.1f}" for q in (0.5, 0.9, 0.99)),
        )
        for transport, rows_per_step, found in results
    ]
    return table(("transport", "rows/step", "steps", "p50", "p90", "p99"), rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    live = [Transport.FILES, Transport.SST]
    parser.add_argument("--transport", type=Transport, nargs="+", default=live, choices=live)
    parser.add_argument("--rows-per-step", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--period", type=float, default=0.2, help="seconds from one step to the next")
    parser.add_argument("--json", action="store_true", help="print all that was measured as JSON")
    options = parser.parse_args()
    be_fork_server()
    results = []
    for transport in options.transport:
        for rows_per_step in options.rows_per_step:
            with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
                found = latencies_ms(Path(folder), transport, rows_per_step, options.steps, options.period)
            results.append((transport, rows_per_step, found))
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        print("Milliseconds from the newest event of a step to the labels of its calls")
        print(as_table(results))


if __name__ == "__main__":
    main()
