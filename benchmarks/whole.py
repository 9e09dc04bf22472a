"""What a whole command costs, with all of its processes: one command against another, in turns.

Run: python -m benchmarks.whole [--rounds N] [--json]                        (a run, by parts)
     python -m benchmarks.whole NAME='COMMAND' NAME='COMMAND' ... [--rounds N] [--json]

CPU-seconds are user and system time of all processes below the command, also of those that outlive their
parents, as the kernel counts them. Memory is the most that all have had at a time, proportional (what they
share is counted once). ``{folder}`` in a command is a new folder each time, and what is left in it counts.
Without commands, ``chimbuko run --trace`` on made-up traces of one rank, and the start and stop of a run.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.generate import SyntheticTrace, write_trace
from benchmarks.measuring import TICKS_PER_S, table
from chimbuko.ad.warmup import warm_kernels

SAMPLE_S = 0.1
MEMORY_EVERY = 5
"""Samples; to look through the memory of a process takes a millisecond."""
STUDENT_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Two-sided 95 % quantiles of Student's t distribution, from one degree of freedom on."""
ROWS = 4_000_000
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Case:
    """A command to measure."""

    name: str
    command: str
    """For the shell."""
    events: int = 0
    """That it works through; 0 where that is no matter."""


@dataclass
class Cost:
    """Of one execution."""

    cpu_s: float
    wall_s: float
    pss_mb: float
    left_bytes: int
    cpu_s_by_process: dict[str, float]


@dataclass
class Result:
    """Of all executions of one case."""

    case: Case
    costs: list[Cost] = field(default_factory=list)

    def values(self, of: Callable[[Cost], float]) -> list[float]:
        """One number of each execution, in their order."""
        return [of(cost) for cost in self.costs]


def measure(case: Case) -> Cost:
    """Execute a command, wait for all of its processes, and see what they have cost.

    Raises
    ------
    SystemExit
        It failed.
    """
    folder = Path(tempfile.mkdtemp(prefix="chimbuko-whole-"))
    # What outlives its parent becomes this process's child, and is waited for.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    samples = _Samples(os.getpid())
    began_s = time.monotonic()
    with open(folder / "output", "wb") as output:
        process = subprocess.Popen(
            case.command.format(folder=shlex.quote(str(folder / "left"))),
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    code, wall_s, cpu_s = 0, 0.0, 0.0
    with samples:
        while True:
            try:
                pid, status, usage = os.wait4(-1, 0)
            except ChildProcessError:
                break
            cpu_s += usage.ru_utime + usage.ru_stime
            if pid == process.pid:
                code, wall_s = os.waitstatus_to_exitcode(status), time.monotonic() - began_s
                process.returncode = code
    if code:
        sys.exit(f"{case.name}: ended with code {code}\n{(folder / 'output').read_text(errors='replace')}")
    left = sum(path.stat().st_size for path in (folder / "left").rglob("*") if path.is_file())
    shutil.rmtree(folder)
    named = dict(samples.cpu_s_by_name())
    named["short-lived"] = max(cpu_s - sum(named.values()), 0.0)
    return Cost(cpu_s, wall_s, samples.most_pss_mb, left, named)


class _Samples:
    """Looks again and again at all processes below one: whose the CPU time is, and what memory they take."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._seen: dict[int, tuple[str, float]] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.most_pss_mb = 0.0

    def __enter__(self) -> _Samples:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._is_over.set()
        self._thread.join()

    def cpu_s_by_name(self) -> Counter[str]:
        """CPU-seconds of processes that lived for a while, by what they are."""
        found: Counter[str] = Counter()
        for name, cpu_s in self._seen.values():
            found[name] += cpu_s
        return found

    def _look(self) -> None:
        number = 0
        while not self._is_over.wait(SAMPLE_S):
            pids = _below(self._root)
            for pid in pids:
                try:
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
                except OSError:
                    continue
                cpu_s = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
                self._seen[pid] = _name_of(words), cpu_s
            if number % MEMORY_EVERY == 0:
                self.most_pss_mb = max(self.most_pss_mb, sum(map(_pss_mb, pids)))
            number += 1


def _below(root: int) -> list[int]:
    """All processes below one."""
    found: list[int] = []
    for task in Path(f"/proc/{root}/task").glob("*/children"):
        try:
            children = list(map(int, task.read_text().split()))
        except OSError:
            continue
        for child in children:
            found += [child, *_below(child)]
    return found


def _pss_mb(pid: int) -> float:
    try:
        found = re.search(r"^Pss: +(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


def _name_of(words: Sequence[str]) -> str:
    """What a process is: its module, or its program."""
    if "-m" in words[:-1]:
        module = words[words.index("-m") + 1]
        verb = words[words.index("-m") + 2 : words.index("-m") + 3] if module == "chimbuko" else []
        return " ".join([module, *verb])
    names = [Path(word).name for word in words[:2] if word and not word.startswith("-")]
    return names[-1] if names and names[0].startswith("python") else (names[0] if names else "?")


def cases_of_a_run(folder: Path) -> list[Case]:
    """``chimbuko run`` on traces that are made up in a folder, and with next to nothing to do."""
    run = f"{shlex.quote(sys.executable)} -m chimbuko run --no-dashboard -o {{folder}}"
    cases = [Case("run -- true", f"{run} -- true")]
    for name, rows, steps in (
        ("one step", 10_000, 1),
        ("100,000 a step", 100_000, ROWS // 100_000),
        ("10,000 a step", 10_000, ROWS // 10_000),
    ):
        path = folder / f"{rows}-{steps}" / "tau-metrics-app-0.bp"
        path.parent.mkdir()
        write_trace(path, SyntheticTrace(rows), steps)
        cases.append(Case(name, f"{run} --trace {shlex.quote(str(path))}", rows * steps))
    return cases


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


def as_tables(results: list[Result]) -> str:
    """Costs of all cases beside those of the first one, and whose the CPU time was."""
    first = results[0].values(lambda cost: cost.cpu_s)
    rows, by_process = [], []
    for result in results:
        cpu_s = result.values(lambda cost: cost.cpu_s)
        wall_s = result.values(lambda cost: cost.wall_s)
        rows.append(
            (
                result.case.name,
                f"{result.case.events:,}" if result.case.events else "",
                median_and_range(cpu_s, 2),
                "" if result is results[0] else difference(cpu_s, first),
                median_and_range(wall_s, 2),
                median_and_range(result.values(lambda cost: cost.pss_mb), 0),
                f"{statistics.median(result.values(lambda cost: cost.left_bytes)) / 1e6:.2f}",
            )
        )
        names = Counter(name for cost in result.costs for name in cost.cpu_s_by_process)
        medians = {
            name: statistics.median(cost.cpu_s_by_process.get(name, 0.0) for cost in result.costs)
            for name in names
        }
        by_process += [
            (result.case.name, name, f"{seconds:.2f}")
            for name, seconds in sorted(medians.items(), key=lambda item: -item[1])
            if seconds >= 0.01
        ]
    heads = ("command", "events", "CPU s", "more than the first", "wall s", "PSS MB", "left MB")
    return f"{table(heads, rows)}\n\n{table(('command', 'process', 'CPU s'), by_process)}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("commands", nargs="*", metavar="NAME=COMMAND")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print all that was measured as JSON")
    options = parser.parse_args()
    warm_kernels()
    with tempfile.TemporaryDirectory() as name:
        given = [Case(*command.split("=", 1)) for command in options.commands]
        results = [Result(case) for case in given or cases_of_a_run(Path(name))]
        for _ in range(options.rounds):
            for result in results:
                result.costs.append(measure(result.case))
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        print(f"Median of {options.rounds} rounds, with the range; differences with a 95 % interval")
        print(as_tables(results))


if __name__ == "__main__":
    main()
