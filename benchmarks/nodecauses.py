"""Programs that their node, or they themselves, delay by a known cause: which cause is found.

``python -m benchmarks.nodecauses`` runs each scenario of ``examples/scenarios/node.c`` several times under
``chimbuko run``, two ranks each, with five delays in a run, and each of ``examples/scenarios/python.py``, one
process with three delays, whose names begin with ``python-``. With ``--load N`` so many others compute
meanwhile.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from chimbuko.causes.kinds.registry import IN_NODE
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from evaluation.causes import losses

CLEAN = "clean"
SCENARIOS: dict[str, str | None] = {
    "stopped": "stopped",
    "stolen": "waited for core",
    "shared_core": "waited for core",
    "page_faults": "page faults",
    "held_lock": "held lock",
    "slow_disk": "storage",
    "system_calls": "system time",
    "migrations": "migration",
    "memory_limit": "memory pressure",
    "computes": "own code",
    "sleeps": "asleep",
    "polls": "asleep",
    "child": "waited for process",
    "condition": "waited for thread",
    CLEAN: None,
    "python-computes": "own code",
    "python-sleeps": "asleep",
    "python-child": "waited for process",
    "python-queue": "waited for thread",
    "python-lock": "waited for lock",
    "python-gil": "waited for interpreter",
    "python-gc": "garbage collection",
    "python-import": "import",
}
"""What each is delayed by."""
PYTHON = "python-"
PYTHON_SOURCE = Path(__file__).parents[1] / "examples" / "scenarios" / "python.py"
LIMITED = "memory_limit"
LIMIT_BYTES = 48 << 20
"""Half of the file that the scenario reads."""
GROUPS = (
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
    (Path("/sys/fs/cgroup"), "memory.max"),
)
"""Where groups of memory are made, and the name of their limit, in both versions of control groups."""
DELAYED = 1
"""The rank; the other one waits for it. In a Python program it is the only one."""
DELAYED_FUNCTIONS = "kernel", "step", "prepare"
"""Where the delays are. One that has the interpreter in Python may hold up who has started it."""
LEAST_US = 60_000
"""Of the delays of 200 ms; shorter ones are the machine's."""
BIN = Path(sys.executable).parent
SOURCE = Path(__file__).parents[1] / "examples" / "scenarios" / "node.c"


@dataclass
class Found:
    """What runs are said to have lost time by."""

    delays: Counter[str] = field(default_factory=Counter)
    """By the main cause of each."""
    lost_us: Counter[str] = field(default_factory=Counter)
    """In these delays, and in what waited for them."""

    def add(self, other: Found) -> None:
        """Count what another one has, too."""
        self.delays += other.delays
        self.lost_us += other.lost_us

    def not_explained(self) -> float:
        """Share of what was lost; undefined where nothing was."""
        whole_us = self.lost_us.total()
        return self.lost_us["not explained"] / whole_us if whole_us else float("nan")


def build(program: Path) -> None:
    """Compile the scenarios."""
    flags = ["-g", "-O1", "-finstrument-functions", "-pthread"]
    subprocess.run([BIN / "mpicc", *flags, SOURCE, "-o", program], check=True)


@contextmanager
def limited_group() -> Iterator[Path]:
    """A control group that may hold ``LIMIT_BYTES``.

    Raises
    ------
    OSError
        None can be made here.
    """
    root, limit = next((one for one in GROUPS if (one[0] / "cgroup.procs").exists()), GROUPS[1])
    group = root / f"chimbuko-scenario-{os.getpid()}"
    group.mkdir()
    try:
        (group / limit).write_text(str(LIMIT_BYTES))
        yield group
    finally:
        group.rmdir()


def causes(program: Path, scenario: str, folder: Path) -> Found:
    """What the delays of one run were caused by.

    Raises
    ------
    OSError
        The scenario needs a control group, and none can be made here.
    """
    if scenario == LIMITED:
        with limited_group() as group:
            return _causes(program, scenario, folder, group)
    return _causes(program, scenario, folder)


def _causes(program: Path, scenario: str, folder: Path, *more: Path) -> Found:
    run = RunDirectory(folder / "run")
    analysis: list[str | Path] = ["--no-dashboard", "--period", "0.5", "-o", run.path]
    traced = [BIN / "mpirun", "-n", "2", BIN / "chimbuko", "trace", program, scenario, folder, *more]
    if scenario.startswith(PYTHON):
        traced = [BIN / "chimbuko", "trace", PYTHON_SOURCE, scenario.removeprefix(PYTHON), folder]
    subprocess.run(
        [BIN / "chimbuko", "run", *analysis, "--", *traced], check=True, timeout=300, capture_output=True
    )
    with open_run(run) as provenance:
        found = Incidents(provenance.reader)
        listed = [found.one(one.id).incident for one in found.page(limit=1000, with_short=True).incidents]
    if scenario == CLEAN:
        return Found(Counter(one.kind for one in listed if one.excess_us >= LEAST_US))
    delayed = Found()
    for one in listed:
        is_delayed = one.rank == (0 if scenario.startswith(PYTHON) else DELAYED)
        is_delayed &= one.function.split(" [")[0] in DELAYED_FUNCTIONS
        if is_delayed and one.excess_us >= LEAST_US:
            # Calls that lost a core to the same process are one incident.
            delayed.delays[one.kind] += 1 + sum(hit.kind == one.kind for hit in one.waited)
            for kind, lost_us in losses(one):
                delayed.lost_us[kind] += round(lost_us)
    return delayed


@contextmanager
def load(processes: int) -> Iterator[None]:
    """So many processes compute meanwhile."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def is_right(scenario: str, found: Counter[str]) -> bool:
    """Whether a run is explained as it is known to be."""
    wanted = SCENARIOS[scenario]
    if wanted is None:
        # Where others use the machine, too, a rank may really have to wait for its core.
        return not found.keys() & (IN_NODE - {"waited for core"})
    return bool(found) and found.most_common(1)[0][0] == wanted


def main() -> None:
    """Print a table: of each scenario how many delays have the right cause, and what the others have."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--load", type=int, default=0, help="processes that compute meanwhile")
    parser.add_argument("scenarios", nargs="*", default=list(SCENARIOS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, load(options.load):
        program = Path(temporary) / "node"
        build(program)
        print("| scenario | runs with the right top cause | delays with it | others | not explained |")
        print("|---|---:|---:|---|---:|")
        for scenario in options.scenarios:
            right, total = 0, Found()
            for number in range(options.rounds):
                folder = Path(temporary) / f"{scenario}-{number}"
                folder.mkdir()
                try:
                    found = causes(program, scenario, folder)
                except OSError as error:
                    print(f"| {scenario} | | | left out: {error} | |", flush=True)
                    break
                right += is_right(scenario, found.delays)
                total.add(found)
            else:
                known = total.delays.pop(wanted, 0) if (wanted := SCENARIOS[scenario]) else 0
                others = ", ".join(f"{count} {kind}" for kind, count in total.delays.most_common())
                share = f"{total.not_explained():.1%}" if total.lost_us else "-"
                print(f"| {scenario} | {right}/{options.rounds} | {known} | {others} | {share} |", flush=True)


if __name__ == "__main__":
    main()
