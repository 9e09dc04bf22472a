"""Memory of an agent's processes, and the share of a core that they take, beside ranks that stream.

Run: python benchmarks/memory.py [--ranks N ...] [--rows-per-step N ...] [--period S] [--json]

`chimbuko run` with a program of many ranks (ranks.py). Memory is proportional: what processes share is
divided by their number. CPU time is that of the agent with its fork server and the processes of its
streams, over the second half of the run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from measuring import cpu_of, descendants, table

STARTED_S = 60.0
"""How long the run may take until each rank has its reader."""
SETTLED_STEPS = 10
"""Steps after which buffers have their size."""


@dataclass
class Result:
    """What was measured in one run; memory in MB, CPU as a share of one core."""

    ranks: int
    rows_per_step: int
    child_pss: float
    """Median over the streams' processes."""
    child_private: float
    fork_server_pss: float
    agent_pss: float
    children_cpu: float
    agent_cpu: float
    """Agent and fork server."""


class AgentProcesses:
    """The agent below a process, its fork server, and the processes of its streams; 0 for one not found."""

    def __init__(self, root: int) -> None:
        family = descendants(root)
        self.agent = next((p.pid for p in family if "chimbuko.ad.agent" in p.command), 0)
        servers = (p.pid for p in family if p.parent == self.agent and "forkserver" in p.command)
        self.fork_server = next(servers, 0)
        self.children = [p.pid for p in family if p.parent == self.fork_server]


def memory_mb(pid: int) -> dict[str, float]:
    """``Pss``, ``Private_Dirty`` and so on of a process."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return {name: int(size) / 1024 for name, size in re.findall(r"^(\w+): +(\d+) kB", text, re.MULTILINE)}


def measure(ranks: int, rows_per_step: int, steps: int, period_s: float, folder: Path) -> Result:
    """One run."""
    program = [Path(__file__).with_name("ranks.py"), "--ranks", ranks, "--rows-per-step", rows_per_step]
    program += ["--steps", SETTLED_STEPS + 2 * steps, "--period", period_s]
    command = [sys.executable, "-m", "chimbuko", "run", "--no-dashboard", "-o", folder / "run", "--"]
    run = subprocess.Popen(
        list(map(str, [*command, "env", sys.executable, *program])),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + STARTED_S
        while len((ours := AgentProcesses(run.pid)).children) < ranks:
            if run.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"not all of {ranks} streams got a reader; see {folder / 'run'}/logs")
            time.sleep(0.2)
        time.sleep(SETTLED_STEPS * period_s)
        began = time.monotonic()
        before = cpu_of(ours.children), cpu_of([ours.agent, ours.fork_server])
        time.sleep(steps * period_s)
        elapsed_s = time.monotonic() - began
        after = cpu_of(ours.children), cpu_of([ours.agent, ours.fork_server])
        if set(AgentProcesses(run.pid).children) != set(ours.children):
            sys.exit("readers were replaced meanwhile: the machine is too busy to measure")
        memory = [memory_mb(pid) for pid in ours.children]
        return Result(
            ranks,
            rows_per_step,
            statistics.median(m["Pss"] for m in memory),
            statistics.median(m["Private_Dirty"] for m in memory),
            memory_mb(ours.fork_server)["Pss"],
            memory_mb(ours.agent)["Pss"],
            (after[0] - before[0]) / elapsed_s,
            (after[1] - before[1]) / elapsed_s,
        )
    finally:
        os.killpg(run.pid, signal.SIGTERM)
        run.wait()


def as_table(results: list[Result]) -> str:
    """Memory in MB, CPU in % of a core."""
    heads = (
        "streams",
        "rows/step",
        "stream",
        "of it private",
        "fork server",
        "agent",
        "CPU streams",
        "CPU agent",
    )
    rows = [
        (
            str(r.ranks),
            f"{r.rows_per_step:,}",
            *(f"{mb:.1f}" for mb in (r.child_pss, r.child_private, r.fork_server_pss, r.agent_pss)),
            *(f"{share:.1%}" for share in (r.children_cpu, r.agent_cpu)),
        )
        for r in results
    ]
    return table(heads, rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rows-per-step", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--steps", type=int, default=20, help="over which CPU time is counted")
    parser.add_argument("--period", type=float, default=1.0, help="seconds from one step to the next")
    parser.add_argument("--json", action="store_true", help="print all that was measured as JSON")
    options = parser.parse_args()
    results = []
    for rows_per_step in options.rows_per_step:
        for ranks in options.ranks:
            with tempfile.TemporaryDirectory() as folder:
                results.append(measure(ranks, rows_per_step, options.steps, options.period, Path(folder)))
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        print("Memory in MB, proportional; CPU as a share of one core")
        print(as_table(results))


if __name__ == "__main__":
    main()
