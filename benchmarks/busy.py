"""Programs that work, however it looks: whether one of them is ever called stuck, or in a deadlock.

``python -m benchmarks.busy`` runs each scenario of ``examples/scenarios`` again and again under a monitor
that samples its ranks every 0.1 s, until that has taken as many samples as in ten minutes at its usual
second. What it takes for a standstill, five samples without anything done, is half a second then instead of
five, so that this is the harder test. Then as many rounds go on under ``chimbuko run``, which finds ranks
that spin in MPI by calls that do not end, from five seconds on. All 23 take 50 minutes on a quiet machine.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from benchmarks import nodecauses
from evaluation import causes

PERIOD_S = 0.1
PERIODS = 600
"""In ten minutes of usual samples."""
FIRST_ROUNDS = 4
SAMPLED = (" threads (", " want to run)")
"""Parts of the line that the monitor prints each period."""
STANDS_STILL = ("sleep still for", "stand still for", "deadlock")
LONGEST_S = 900
CHIMBUKO = nodecauses.BIN / "chimbuko"


class Watched(NamedTuple):
    """What was said of a scenario's runs."""

    periods: int
    """That were sampled."""
    alarms: list[str]
    """Lines that say that it does not go on."""


def watched(arguments: Sequence[str | Path], ranks: int, folder: Path, periods: int = PERIODS) -> Watched:
    """Run a program until so many periods have been sampled, and as often under a live run.

    Parameters
    ----------
    arguments
        The program with its own.
    folder
        For what the runs leave.
    """
    monitor = ["monitor", "--heartbeat", "--period", f"{round(1000 * PERIOD_S)}ms", "--"]
    seen, rounds, done = Watched(0, []), FIRST_ROUNDS, 0
    while seen.periods < periods:
        said = _said([*_on_ranks(ranks), CHIMBUKO, *monitor, *arguments], rounds)
        now = sum(all(part in line for part in SAMPLED) for line in said)
        seen = Watched(seen.periods + now, seen.alarms + _alarms(said))
        done += rounds
        rounds = math.ceil(done * max(periods - seen.periods, 1) / max(seen.periods, 1))
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        alerts = Path(temporary) / "alerts"
        alerts.touch()
        # No call loses an hour; that ranks are in a deadlock is reported all the same.
        alert = ["--alert", "3600s", "--alert-command", f"tee -a {alerts}"]
        run = [CHIMBUKO, "run", "--no-dashboard", "-o", f"{temporary}/run", *alert, "--"]
        said = _said([*run, *_on_ranks(ranks), CHIMBUKO, "trace", *arguments], done)
        return Watched(seen.periods, seen.alarms + _alarms([*said, *alerts.read_text().splitlines()]))


def _on_ranks(ranks: int) -> list[str | Path]:
    return [nodecauses.BIN / "mpirun", "-n", str(ranks)]


def _alarms(said: Iterable[str]) -> list[str]:
    return [line for line in said if any(words in line for words in STANDS_STILL)]


def _said(command: Sequence[str | Path], rounds: int) -> list[str]:
    """Lines that a command printed."""
    done = subprocess.run(
        command,
        env={**os.environ, "ROUNDS": str(rounds)},
        check=True,
        timeout=LONGEST_S,
        capture_output=True,
        text=True,
    )
    return (done.stdout + done.stderr).splitlines()


def scenarios() -> Iterator[tuple[str, int]]:
    """All of them by name, with the number of ranks."""
    yield from ((name, 2) for name in nodecauses.SCENARIOS)
    yield from ((name, causes.RANKS) for name in causes.SCENARIOS)


def main() -> None:
    """Print a table: of each scenario how often it was sampled, and how often it was called stuck."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--periods", type=int, default=PERIODS, help="samples of each scenario")
    parser.add_argument("scenarios", nargs="*", default=[name for name, _ in scenarios()])
    options = parser.parse_args()
    print("| scenario | ranks | samples | called stuck |\n|---|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        programs = {2: Path(temporary) / "node", causes.RANKS: Path(temporary) / "scenarios"}
        nodecauses.build(programs[2])
        causes.build(programs[causes.RANKS])
        for name, ranks in scenarios():
            if name not in options.scenarios:
                continue
            with ExitStack() as stack:
                arguments: list[str | Path] = [programs[ranks], name]
                if name in nodecauses.SCENARIOS:
                    arguments.append(Path(temporary))
                if name == nodecauses.LIMITED:
                    try:
                        arguments.append(stack.enter_context(nodecauses.limited_group()))
                    except OSError as error:
                        print(f"| {name} | {ranks} | | left out: {error} |", flush=True)
                        continue
                seen = watched(arguments, ranks, Path(temporary), options.periods)
            row = f"| {name} | {ranks} | {seen.periods} | {len(seen.alarms)} |"
            print(row, *seen.alarms, sep="\n", flush=True)


if __name__ == "__main__":
    main()
