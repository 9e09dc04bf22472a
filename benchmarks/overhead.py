"""What tracing and analysis cost programs, as 'chimbuko overhead' measures it: a row for each.

    python -m benchmarks.overhead [--rounds N]

The programs are the MPI program of benchmarks.recorder on two ranks, under the recorder and, where a tau_exec
for this MPI is on the PATH, under TAU; and one in Python. A quarter of an hour on a machine that does nothing
else.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measuring import table
from benchmarks.recorder.__main__ import CHIMBUKO, ITERATIONS, SWEEPS, TAU, TRACE, build, tool
from chimbuko.plan.overhead import LEAST_ROUNDS

PYTHON = """
def relax(cells):
    return [0.5 * (left + right) for left, right in zip(cells, cells[1:] + cells[:1])]

def step(cells):
    return relax(relax(cells))

cells = [float(number % 7) for number in range(2_000)]
for _ in range(50_000):
    cells = step(cells)
"""
"""Some 28,000 calls a second, for ten seconds."""
HEADS = ("program", "alone, s", "traced, s", "analysed, s", "tracing adds", "both add", "analysis alone", "p")


def main() -> None:
    """Measure all programs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chimbuko-benchmark-") as name:
        found = {
            program: measured(command, options.rounds) for program, command in programs(Path(name)).items()
        }
    print(f"Mean ± standard deviation of {options.rounds} rounds; added shares with a 95 % interval\n")
    print(table(HEADS, [row(program, one) for program, one in found.items()]))


def programs(folder: Path) -> dict[str, list[str]]:
    """Names, and commands as they are given to ``chimbuko run``."""
    halo = str(build("halo.c", folder / "halo", "-finstrument-functions"))
    script = folder / "relax.py"
    script.write_text(PYTHON)
    words = [halo, str(ITERATIONS), str(SWEEPS)]
    launched = [tool("mpirun"), "-n", "2"]
    found = {"MPI, 2 ranks, recorder": [*launched, *TRACE, *words]}
    if shutil.which(TAU[0]):
        found["MPI, 2 ranks, TAU"] = [*launched, *TAU, *words]
    return {**found, "Python": [*TRACE, str(script)]}


def measured(command: list[str], rounds: int) -> dict[str, Any]:
    """What the verb finds."""
    words = [*CHIMBUKO, "overhead", "--json", "--rounds", str(rounds), "--", *command]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: ended with code {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def row(program: str, found: dict[str, Any]) -> tuple[str, ...]:
    """Of the table."""
    times = [found[kind] for kind in ("application", "traced", "analysed")]
    added = [found[kind] for kind in ("tracing", "both", "analysis")]
    return (
        program,
        *(f"{one['mean_s']:.2f} ± {one['deviation_s']:.2f}" for one in times),
        *(map(_share, added)),
        f"{added[-1]['p']:.2g}",
    )


def _share(added: dict[str, Any]) -> str:
    low, high = (100 * end for end in added["interval"])
    return f"{100 * added['share']:+.1f} % ({low:+.1f} to {high:+.1f})"


if __name__ == "__main__":
    main()
