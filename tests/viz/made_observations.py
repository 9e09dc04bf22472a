"""What a workflow on two nodes published: tasks, samples of nodes, time in MPI, a mass on 16 ranks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from chimbuko.observe.namespaces.analyses.gathering import Gathered
from chimbuko.observe.namespaces.analyses.views import encode
from chimbuko.observe.namespaces.exchange.leaves import as_leaf
from chimbuko.observe.namespaces.exchange.namespacereader import Observation
from chimbuko.observe.namespaces.exchange.tree import Change, flattened
from chimbuko.observe.workflow.record import entered
from chimbuko.observe.workflow.task import State

S = 1_000_000
COURSES = {
    "simulate-1": (0, 1, 11, State.DONE, "heat", "node0", 4),
    "simulate-2": (0, 1, 13, State.DONE, "heat", "node1", 4),
    "simulate-3": (0, 11, 26, State.DONE, "heat", "node0", 4),
    "simulate-8": (0, 13, 20, State.DONE, "heat", "node1", 8),
    "analyse": (26, 27, 30, State.FAILED, "analysis.py", "node0", 1),
}
"""Task: when it waited for cores, ran and ended, in s; how; its program, its node, and its cores."""
CANCELLED = "learn"
UNSTABLE = 14
"""Rank whose mass is no number in the end."""


def observation(namespace: str, time_us: int, values: dict[str, Any], rank: int = 0) -> Observation:
    """What a client published at a moment."""
    change = Change({path: as_leaf(value) for path, value in flattened(values)}, {})
    return Observation(namespace, 0, "1-0", "client", rank, time_us, 1, change)


def observations(zero_us: int) -> list[Observation]:
    """All of it, in order of time within each namespace."""
    found = []
    for task, (scheduled, began, ended, end, program, node, cores) in COURSES.items():
        facts = {"program": program, "nodes": node, "cores": cores, "ranks": cores, "attempt": 1}
        reason = {"reason": "exit code 1", "exit_code": 1} if end is State.FAILED else {"exit_code": 0}
        for at, state, more in (
            (0, State.NEW, {}),
            (scheduled, State.SCHEDULED, {}),
            (began, State.EXECUTING, facts),
            (ended, end, reason),
        ):
            found.append(
                observation("workflow", zero_us + at * S, entered(task, state, zero_us + at * S, more))
            )
    for at, state in ((0, State.NEW), (30, State.CANCELED)):
        found.append(
            observation("workflow", zero_us + at * S, entered(CANCELLED, state, zero_us + at * S, {}))
        )
    for second in range(31):
        for node, busy in (("node0", 90), ("node1", 90 if second < 20 else 5)):
            ticks = f"{busy * second} 0 0 {(100 - busy) * second + 1000 * (busy == 5)} 0 0 0 0 0 0"
            found.append(observation("hardware", zero_us + second * S, {node: {"stat": {"cpu": ticks}}}))
    for rank in range(4):
        times = {"MPI_Recv_Exclusive": 1e6 * (1 + rank), "MPI_Waitall_Exclusive": 5e5}
        found.append(observation("performance", zero_us + 30 * S, {f"Rank {rank}": {"MPI": times}}))
    for step in range(60):
        for rank in range(16):
            mass = 1.0 + 0.01 * math.sin(step + rank) + (0.002 * step**2 if rank == UNSTABLE else 0.0)
            values = {"step": step, "local_mass": math.nan if (rank, step) == (UNSTABLE, 59) else mass}
            found.append(observation("application", zero_us + (step + 1) * S // 2, values, rank))
    return found


def write_observed(path: Path, zero_us: int) -> None:
    """The file that a run would have of it."""
    gathered = Gathered()
    for one in observations(zero_us):
        gathered.take(one)
    path.write_bytes(encode(gathered.views))
