"""What a command costs, with all of its processes: one command against another, in turns.

Run: python -m benchmarks.whole [--only PART ...] [--rounds N] [--processes] [--json]    (runs of our own)
     python -m benchmarks.whole NAME='COMMAND' NAME='COMMAND' ... [--rounds N] [--json]

CPU-seconds are user and system time of all processes below the command, also of those that outlive their
parents, as the kernel counts them. Memory is the most that all have had at a time, proportional (what they
share is counted once). Processes of a live program count for neither. ``{folder}`` in a command is a new
folder each time, and what is left in it counts.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.measuring import table
from benchmarks.whole.cases import PARTS, Case
from benchmarks.whole.costs import Cost, measure

STUDENT_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Two-sided 95 % quantiles of Student's t distribution, from one degree of freedom on."""


@dataclass
class Result:
    """Of all executions of one case."""

    case: Case
    costs: list[Cost] = field(default_factory=list)

    def values(self, of: Callable[[Cost], float]) -> list[float]:
        """One number of each execution, in their order."""
        return [of(cost) for cost in self.costs]

    @property
    def cpu_s(self) -> list[float]:
        """Of each execution."""
        return self.values(lambda cost: cost.cpu_s)


def median_and_range(values: Sequence[float], digits: int) -> str:
    """As text."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def difference(mine: Sequence[float], its: Sequence[float]) -> str:
    """Mean of what one cost more in each round, with its 95 % interval; as text."""
    differences = [a - b for a, b in zip(mine, its, strict=True)]
    if len(differences) < 2:
        return ""
    quantile = STUDENT_95[min(len(differences) - 2, len(STUDENT_95) - 1)]
    margin = quantile * statistics.stdev(differences) / math.sqrt(len(differences))
    return f"{statistics.mean(differences):+.2f} ± {margin:.2f}"


def as_tables(results: list[Result], with_processes: bool = False) -> str:
    """Costs of all cases beside those of the first one, of a unit of work, and perhaps of each process."""
    named = {result.case.name: result for result in results}
    texts = [_whole_table(results)]
    if beyond := [_beyond(result, named[result.case.base]) for result in results if result.case.base]:
        texts.append(table(("command", "beyond", "of it", "CPU time"), beyond))
    if with_processes:
        by_process = [row for result in results for row in _by_process(result)]
        texts.append(table(("command", "process", "CPU s", "PSS MB"), by_process))
    return "\n\n".join(texts)


def _whole_table(results: list[Result]) -> str:
    rows = []
    for result in results:
        began_s = [cost.began_s for cost in result.costs if cost.began_s is not None]
        rows.append(
            (
                result.case.name,
                median_and_range(result.cpu_s, 2),
                "" if result is results[0] else difference(result.cpu_s, results[0].cpu_s),
                median_and_range(result.values(lambda cost: cost.wall_s), 2),
                median_and_range(began_s, 2) if began_s else "",
                median_and_range(result.values(lambda cost: cost.pss_mb), 0),
                f"{statistics.median(result.values(lambda cost: cost.left_bytes)) / 1e6:.2f}",
            )
        )
    heads = ("command", "CPU s", "more than the first", "wall s", "program runs after s", "PSS MB", "left MB")
    return table(heads, rows)


def _beyond(result: Result, base: Result) -> tuple[str, ...]:
    """What the work costs that is more than that of another case."""
    work = result.case.work - base.case.work
    each_s = [(mine - its) / work for mine, its in zip(result.cpu_s, base.cpu_s, strict=True)]
    texts = {
        "events": lambda: median_and_range([1e-6 / one for one in each_s if one > 0], 2) + " M per CPU-s",
        "epochs": lambda: median_and_range([1e3 * one for one in each_s], 2) + " ms each",
        "seconds": lambda: median_and_range([100 * one for one in each_s], 2) + " % of a core",
    }
    unit = result.case.unit
    return result.case.name, base.case.name, f"{work:,.0f} {unit}", texts[unit]()


def _by_process(result: Result) -> list[tuple[str, ...]]:
    names = Counter(name for cost in result.costs for name in cost.cpu_s_by_process)
    medians = {
        name: (
            statistics.median(cost.cpu_s_by_process.get(name, 0.0) for cost in result.costs),
            statistics.median(cost.pss_mb_by_process.get(name, 0.0) for cost in result.costs),
        )
        for name in names
    }
    return [
        (result.case.name, name, f"{seconds:.2f}", f"{pss_mb:.1f}")
        for name, (seconds, pss_mb) in sorted(medians.items(), key=lambda item: item[1], reverse=True)
        if seconds >= 0.01 or pss_mb >= 1.0
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("commands", nargs="*", metavar="NAME=COMMAND")
    parser.add_argument("--only", metavar="PART", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", action="store_true", help="also print whose all this was")
    parser.add_argument("--json", action="store_true", help="print all that was measured as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        given = [Case(*command.split("=", 1)) for command in options.commands]
        ours = [case for part in options.only if not given for case in PARTS[part](Path(name))]
        results = [Result(case) for case in given or ours]
        for _ in range(options.rounds):
            for result in results:
                result.costs.append(measure(result.case))
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        print(f"Median of {options.rounds} rounds, with the range; differences with a 95 % interval")
        print(as_tables(results, options.processes))


if __name__ == "__main__":
    main()
