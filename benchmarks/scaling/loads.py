"""Real loads that are measured: what the services take for simulated nodes, and agents for real streams."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from benchmarks.server.load import Load
from benchmarks.server.measure import JOIN_PERIODS
from benchmarks.server.node import measure
from chimbuko.plan.loads import READERS, Pipeline

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("measured.json")
SERVED: dict[str, tuple[tuple[int, int, float, float], ...]] = {
    # Nodes, ranks of each, abnormal calls of each in a second, period.
    "fitted to": (
        (25, 40, 0.0, 1.0),
        (50, 40, 1.0, 1.0),
        (50, 20, 4.0, 1.0),
        (100, 40, 0.5, 2.0),
        (125, 20, 0.5, 1.0),
        (200, 5, 0.25, 1.0),
        (125, 40, 1.0, 1.0),
        (250, 10, 0.25, 1.0),
    ),
    "held out": ((40, 32, 1.0, 1.0), (100, 10, 2.0, 1.0), (250, 40, 1.0, 1.0)),
}
"""With 1,000 ranks or more all functions are known well when all nodes have joined."""
READ: dict[str, tuple[tuple[int, int], ...]] = {
    # Ranks of one node, rows of each in a second.
    "fitted to": ((1, 5_000), (4, 50_000), (16, 5_000)),
    "held out": ((2, 50_000), (8, 5_000), (8, 50_000), (32, 5_000)),
}


@dataclass(frozen=True)
class Measured:
    """One load."""

    is_held_out: bool
    ranks: int
    per_node: int
    period_s: float
    rows_per_s: float
    findings_per_s: float
    cores: dict[str, float]
    """Of each part."""
    memory_bytes: dict[str, float]
    lags_s: dict[str, float]
    """From the sending of a message to its merging, of a finding until it is stored; medians."""
    lost: int
    bytes: dict[str, float]
    """Per second, by what they are of."""

    @property
    def pipeline(self) -> Pipeline:
        """The run that it stands for; all services had one core."""
        findings_per_s = self.findings_per_s
        rates = self.period_s, self.rows_per_s, findings_per_s
        return Pipeline(self.ranks, self.per_node, *rates, service_cores=1.0)


def served(nodes: int, per_node: int, findings_per_s: float, period_s: float, seconds: int) -> dict[str, Any]:
    """What the services take for simulated nodes, once all have joined."""
    periods = JOIN_PERIODS + round(seconds / period_s)
    found = measure(Load(nodes, per_node), periods, findings_per_s, period_s, has_joining=False)
    all_s = found.seconds + JOIN_PERIODS * period_s
    return {
        "ranks": found.ranks,
        "per_node": per_node,
        "period_s": period_s,
        "rows_per_s": 1.0,
        "findings_per_s": findings_per_s,
        "cores": {part.name: part.cores for part in found.parts},
        "memory_bytes": {part.name: 1e6 * part.pss_mb for part in found.parts},
        "lags_s": {"model": found.model_p50_ms / 1e3, "store": found.store_p50_ms / 1e3},
        "lost": found.not_merged + found.not_stored,
        "bytes": {
            "wire": found.wire_bytes_per_s,
            "frames": found.frame_bytes_per_s,
            "store": found.store_bytes / all_s,
        },
    }


def read(ranks: int, rows_per_s: int, seconds: int) -> dict[str, Any]:
    """What agent and readers take for real streams of one node."""
    words = ["benchmarks/memory.py", "--ranks", ranks, "--rows-per-step", rows_per_s, "--steps", seconds]
    done = subprocess.run(
        [sys.executable, *map(str, words), "--json"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise SystemExit(f"{ranks} ranks of {rows_per_s} rows a second: ended with code {done.returncode}")
    (found,) = json.loads(done.stdout)
    memory_mb = found["agent_pss"] + found["fork_server_pss"] + ranks * found["child_pss"]
    return {
        "ranks": ranks,
        "per_node": ranks,
        "period_s": 1.0,
        "rows_per_s": rows_per_s,
        "findings_per_s": 0.0,
        "cores": {READERS: found["children_cpu"] + found["agent_cpu"]},
        "memory_bytes": {READERS: 1e6 * memory_mb},
        "lags_s": {},
        "lost": 0,
        "bytes": {},
    }


def measure_all(seconds: int, has_more: bool = False) -> None:
    """All loads, beside those of earlier rounds or in their place; each is kept at once, and one that fails
    twice is left out.
    """
    found = _kept() if has_more else []
    for role in SERVED:
        for nodes, per_node, findings_per_s, period_s in SERVED[role]:
            work = partial(served, nodes, per_node, findings_per_s, period_s, seconds)
            _try(f"{nodes} nodes of {per_node} ranks, {role}", work, role, found)
        for ranks, rows_per_s in READ[role]:
            name = f"{ranks} streams of {rows_per_s:,} rows a second, {role}"
            _try(name, partial(read, ranks, rows_per_s, seconds), role, found)


def _try(name: str, measure_it: Callable[[], dict[str, Any]], role: str, found: list[Measured]) -> None:
    for attempt in (1, 2):
        print(name if attempt == 1 else f"{name}, once more", file=sys.stderr)
        try:
            found.append(Measured(role == "held out", **measure_it()))
        except SystemExit as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        FILE.write_bytes(msgspec.json.format(msgspec.json.encode([asdict(one) for one in found])) + b"\n")
        return


def known() -> list[Measured]:
    """Each load that was measured, with the means of all rounds; nothing where nobody has."""
    return averaged(_kept())


def averaged(measured: Iterable[Measured]) -> list[Measured]:
    """Each load once, with its means."""
    rounds: dict[tuple[bool, Pipeline], list[Measured]] = {}
    for one in measured:
        rounds.setdefault((one.is_held_out, one.pipeline), []).append(one)
    return [_mean(of_load) for of_load in rounds.values()]


def _kept() -> list[Measured]:
    return [] if not FILE.exists() else msgspec.json.decode(FILE.read_bytes(), type=list[Measured])


def _mean(of_load: list[Measured]) -> Measured:
    names = ("cores", "memory_bytes", "lags_s", "bytes")
    means = {
        name: {key: fmean(getattr(one, name)[key] for one in of_load) for key in getattr(of_load[0], name)}
        for name in names
    }
    return replace(of_load[0], lost=sum(one.lost for one in of_load), **means)
