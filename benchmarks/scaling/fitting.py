"""Unit costs of each part, by least squares of relative errors over loads; none is negative."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import nnls

from benchmarks.scaling.loads import Measured
from chimbuko.plan.loads import READERS, SERVICES, PartCosts, UnitCosts, Units, part_work
from chimbuko.plan.simulation import simulate

CPU = {
    READERS: ("second", "step", "row"),
    "broker": ("second", "agent", "message", "step", "finding"),
    "server": ("second", "message", "step", "cold_step", "finding"),
    "writer": ("second", "step", "finding"),
    "dashboard": ("second", "step", "finding"),
    "serve": ("second", "step"),
}
"""What the CPU time of a part may grow with."""
MEMORY: dict[str, tuple[str, ...]] = dict.fromkeys((READERS, *SERVICES), ("second", "rank")) | {
    "broker": ("second", "agent", "rank")
}
LAGS = {"server": "model", "writer": "store"}
WAITS = ("second", "step")
BYTES = {
    "wire": ("message", "step", "finding"),
    "frames": ("second", "step"),
    "store": ("second", "step", "finding"),
}


def fitted(measured: Sequence[Measured]) -> UnitCosts:
    """From those that are not held out."""
    loads = [one for one in measured if not one.is_held_out]
    parts = {}
    for part, names in CPU.items():
        own = [one for one in loads if part in one.cores]
        cpu = _units(part, own, names, lambda one, part=part: one.cores[part])
        memory = _units(part, own, MEMORY[part], lambda one, part=part: one.memory_bytes[part])
        parts[part] = PartCosts(cpu, memory)
    services = [one for one in loads if one.lags_s]
    of_bytes = {
        what: _units("serve", services, names, lambda one, what=what: one.bytes[what])
        for what, names in BYTES.items()
    }
    bare = UnitCosts(parts, of_bytes["wire"], of_bytes["frames"], of_bytes["store"])
    simulated = [simulate(one.pipeline, bare) for one in services]
    for part, lag in LAGS.items():
        waits_s = {
            id(one): one.lags_s[lag] - (found.model_lag_s if lag == "model" else found.store_lag_s)
            for one, found in zip(services, simulated, strict=True)
        }
        wait_s = _units(part, services, WAITS, lambda one, waits_s=waits_s: waits_s[id(one)])
        parts[part] = PartCosts(parts[part].cpu_s, parts[part].memory_bytes, wait_s)
    return bare


def _units(
    part: str, loads: Sequence[Measured], names: Sequence[str], value: Callable[[Measured], float]
) -> Units:
    values = np.array([max(value(one), 1e-9) for one in loads])
    # All services had one core.
    work = [part_work(part, one.pipeline, min(sum(one.cores.values()), 1.0)) for one in loads]
    unknowns = np.array([[getattr(one, name) for name in names] for one in work])
    scale = np.maximum((unknowns / values[:, np.newaxis]).max(axis=0), 1e-30)
    # Each load counts alike, however large.
    found, _ = nnls(unknowns / values[:, np.newaxis] / scale, np.ones(len(values)))
    return Units(**dict(zip(names, map(float, found / scale), strict=True)))
