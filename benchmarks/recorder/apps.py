"""What recording costs programs of others: alone, compiled with hooks, recorded, and with the analysis."""

from __future__ import annotations

import shlex
import statistics
import sys
from collections.abc import Mapping, Sequence

from benchmarks.measuring import table
from benchmarks.whole.cases import Case
from benchmarks.whole.costs import measure

CHIMBUKO = shlex.join([sys.executable, "-m", "chimbuko"])
TRACE = f"{CHIMBUKO} trace"
RUN = f"{CHIMBUKO} run --no-dashboard --output {{folder}} --"
KINDS = ("alone", "hooks", "recorder", "with analysis")
STARTING = "start and stop"


def commands(plain: str, hooked: str) -> dict[str, str]:
    """The command of each kind. ``{trace}`` is where ``chimbuko trace`` belongs; else it comes first."""

    def traced(command: str, trace: str) -> str:
        placed = command if "{trace}" in command else f"{{trace}} {command}"
        return placed.replace("{trace}", trace).strip()

    # What a trace leaves is not to be in the folder of whoever measures.
    recorded = f"mkdir -p {{folder}} && export TAU_ADIOS2_FILENAME={{folder}}/tau && {traced(hooked, TRACE)}"
    analysed = f"{RUN} {traced(hooked, TRACE)}"
    return dict(zip(KINDS, (traced(plain, ""), traced(hooked, ""), recorded, analysed), strict=True))


def apps(programs: Sequence[tuple[str, str, str]], rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Medians of CPU and wall time in s, by program and kind, in interleaved rounds.

    What our processes take to start and to stop, as with a program that does nothing, is a row of its own.
    """
    of_programs = {STARTING: commands("true", "true")}
    of_programs |= {name: commands(plain, hooked) for name, plain, hooked in programs}
    taken: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for name, of_kinds in of_programs.items():
            for kind, command in of_kinds.items():
                cost = measure(Case(f"{name}, {kind}", command))
                taken.setdefault((name, kind), []).append((cost.cpu_s, cost.wall_s))
    return {
        name: {
            kind: {
                "cpu_s": statistics.median(cpu_s for cpu_s, _ in taken[name, kind]),
                "wall_s": statistics.median(wall_s for _, wall_s in taken[name, kind]),
            }
            for kind in of_kinds
        }
        for name, of_kinds in of_programs.items()
    }


def apps_table(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """CPU time of each kind, and what it is beyond the program alone, without our start and stop."""
    starting = found[STARTING]
    rows = []
    for name, kinds in found.items():
        row = [name]
        for kind in KINDS:
            cpu_s = kinds[kind]["cpu_s"]
            beyond = cpu_s - starting[kind]["cpu_s"] - kinds["alone"]["cpu_s"]
            percent = f" ({100 * beyond / kinds['alone']['cpu_s']:+.1f} %)" if kind != "alone" else ""
            row.append(f"{cpu_s:.2f}{percent if name != STARTING else ''}")
        row.append(" / ".join(f"{kinds[kind]['wall_s']:.2f}" for kind in KINDS))
        rows.append(row)
    return table(("CPU-seconds", *KINDS, "wall, s"), [tuple(row) for row in rows])
