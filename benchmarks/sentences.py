"""Seconds from an abnormal call to the sentence that explains it, in live runs under our recorder.

Run: python -m benchmarks.sentences [--rounds N] [--json] [SCENARIO ...]

Programs of examples/scenarios/ run under `chimbuko run`, and their stores are looked into twenty times a
second: when each abnormal call is there, and when it belongs to an incident, which has its sentence then.
Beside that stands the time from the end of the call itself, with what tracing, flagging and delivery take.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.measuring import table
from chimbuko.core.errors import ChimbukoError
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from evaluation import causes

LOOK_S = 0.05
MOST_CALLS = 1000
"""Of a run."""
QUANTILES = (0.5, 0.95, 1.0)


@dataclass
class Times:
    """Of the abnormal calls of a run, in s since 1970, by id."""

    ended: dict[str, float]
    flagged: dict[str, float]
    """When it was seen in the store."""
    explained: dict[str, float]

    def from_flag_s(self) -> list[float]:
        """To its sentence, of each call that has one."""
        return [time_s - self.flagged[call] for call, time_s in self.explained.items()]

    def from_end_s(self) -> list[float]:
        """The same from the end of the call; of calls that had ended when they were seen."""
        return [time_s - self.ended[call] for call, time_s in self.explained.items() if self.ended[call]]


def watch(program: Path, scenario: str, output: Path) -> Times:
    """Run a scenario, and look into its store meanwhile."""
    times = Times({}, {}, {})
    command = causes.command(program, scenario, output, ["--no-relabel"])
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            time.sleep(LOOK_S)
            try:
                _look(RunDirectory(output), process, times)
            except ChimbukoError:
                # The run has no store yet.
                continue
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return times


def _look(run: RunDirectory, process: subprocess.Popen[bytes], times: Times) -> None:
    with open_run(run) as provenance:
        while process.poll() is None:
            now_s = time.time()
            for call in provenance.calls.page(CallFilter(), limit=MOST_CALLS).calls:
                times.ended[call.id] = call.exit_us / 1e6
                times.flagged.setdefault(call.id, now_s)
                if call.incident_id:
                    times.explained.setdefault(call.id, now_s)
            time.sleep(LOOK_S)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenarios", nargs="*", default=["late_sender", "chain", "late_at_collective"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chimbuko-sentences-") as temporary:
        program = causes.build(Path(temporary) / "scenarios")
        found = {
            scenario: [
                watch(program, scenario, Path(temporary) / f"{scenario}-{number}")
                for number in range(options.rounds)
            ]
            for scenario in options.scenarios
        }
    rows = [row for scenario, runs in found.items() for row in _rows(scenario, runs)]
    if options.json:
        print(json.dumps([dict(zip(HEADS, row, strict=True)) for row in rows], indent=1))
    else:
        print(table(HEADS, rows))


HEADS = ("scenario", "from", "calls", "without a sentence", "median s", "95 % s", "longest s")


def _rows(scenario: str, runs: Sequence[Times]) -> list[tuple[str, ...]]:
    without = str(sum(len(run.flagged) - len(run.explained) for run in runs))
    both = {
        "flag in the store": [one for run in runs for one in run.from_flag_s()],
        "end of the call": [one for run in runs for one in run.from_end_s()],
    }
    return [
        (scenario, begin, str(len(all_s)), without, *(f"{np.quantile(all_s, q):.2f}" for q in QUANTILES))
        for begin, all_s in both.items()
        if all_s
    ]


if __name__ == "__main__":
    main()
