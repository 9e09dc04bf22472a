"""Simulates the pipeline in short ticks: each part works off what comes to it, and what it cannot waits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.plan.loads import (
    LEAF,
    READERS,
    Load,
    PartCosts,
    Pipeline,
    UnitCosts,
    Units,
    costs_of,
    loads,
    services,
    work_of,
)

STREAM_LIMIT_BYTES = 64e6
"""Limit of a stream's unread steps, in bytes; beyond it the oldest are dropped (``--trace-limit``)."""
ROW_BYTES = 56.0
"""Size of a row of the trace in a file that is followed, in bytes."""
TICKS = 4_000


@dataclass(frozen=True)
class PartResult:
    """State of one part at the end of the run."""

    load: Load
    lag_p50_s: float
    """Median lag in seconds, from the coming of work until it is done, over all ticks of the second half."""
    lag_p99_s: float
    behind_s: float
    """Seconds of work that are left at the end."""
    memory_bytes: float
    """Memory in bytes, with the work that waits."""
    lost_share: float
    """Share of the work that was lost."""


@dataclass(frozen=True)
class Simulated:
    """Result of a simulated run."""

    run: Pipeline
    parts: tuple[PartResult, ...]
    """Parts in the order in which the trace passes them."""
    put_off_share: float
    """Share of the messages of agents that are merged with the next one, since the last one was not merged
    yet.
    """
    wire_bytes_per_s: float
    frame_bytes_per_s: float
    store_bytes_per_s: float

    def part(self, name: str) -> PartResult:
        """Return one of the parts."""
        return next(one for one in self.parts if one.load.part == name)

    @property
    def model_lag_s(self) -> float:
        """Median time from the sending of a message until it is merged, in seconds."""
        parts = ["broker", "server", *([LEAF] if self.run.leaf_servers else [])]
        return sum(self.part(name).lag_p50_s for name in parts)

    @property
    def store_lag_s(self) -> float:
        """Median time from the sending of a finding until it is stored, in seconds."""
        return self.part("broker").lag_p50_s + self.part("writer").lag_p50_s


def simulate(run: Pipeline, costs: UnitCosts, seconds: float = 20.0, seed: int = 1) -> Simulated:
    """Simulate a run of which every period is like the others, once all functions are known.

    Agents send at moments of their own, of chance, and so do streams end their steps. Readers fall behind up
    to what may wait in files, and then lose steps. Nothing after them loses anything: a message to a server
    that is a period behind is merged with the next one at its agent, and findings wait in spools.
    """
    random = np.random.default_rng(seed)
    tick_s = seconds / TICKS
    of_part = {one.part: one for one in loads(run, costs)}
    costs = costs_of(run, costs)
    found = {READERS: _node(run, costs, of_part[READERS], tick_s, random)}
    services, put_off = _services(run, costs, of_part, tick_s, random)
    work = work_of(run)
    return Simulated(
        run,
        tuple((found | services).values()),
        put_off,
        costs.wire_bytes.of(work),
        costs.frame_bytes.of(work),
        costs.store_bytes.of(work),
    )


def _node(
    run: Pipeline, costs: UnitCosts, load: Load, tick_s: float, random: np.random.Generator
) -> PartResult:
    """Simulate the readers of one node."""
    work, cost = load.work, costs.parts[READERS]
    bytes_per_s = run.on_node * run.rows_per_s * ROW_BYTES
    limit_s = run.on_node * STREAM_LIMIT_BYTES / bytes_per_s * load.cores
    arrivals = _arrivals(cost.cpu_s, work, run.on_node, run.period_s, tick_s, random)
    room_s, waiting_s, lost_s = run.agent_cores * tick_s, 0.0, 0.0
    lags = np.empty(TICKS)
    for at, comes_s in enumerate(arrivals.tolist()):
        waiting_s += comes_s
        lags[at] = waiting_s / run.agent_cores
        waiting_s = max(waiting_s - room_s, 0.0)
        beyond_s = max(waiting_s - limit_s, 0.0)
        lost_s += beyond_s
        waiting_s -= beyond_s
    held = waiting_s / load.cores * bytes_per_s
    return _part(load, lags, cost, waiting_s / run.agent_cores, held, lost_s / arrivals.sum())


def _services(
    run: Pipeline, costs: UnitCosts, of_part: dict[str, Load], tick_s: float, random: np.random.Generator
) -> tuple[dict[str, PartResult], float]:
    """Simulate all services, which share the cores of their node; also return the share of messages that are
    put off.
    """
    arrivals, messages = dict[str, list[float]](), [0.0] * TICKS
    phases = _phases(run.nodes, run.period_s, tick_s, random)
    parts = services(run)
    for part in parts:
        cost, work = costs.parts[part].cpu_s, of_part[part].work
        arrivals[part] = _spread(cost, work, phases, tick_s, random).tolist()
        if part == "server":
            messages = (cost.message * work.message * tick_s * phases).tolist()
    waiting = dict.fromkeys(parts, 0.0)
    lags = {part: np.empty(TICKS) for part in parts}
    put_off_s = 0.0
    for at in range(TICKS):
        for part in parts:
            waiting[part] += arrivals[part][at]
        if waiting["server"] > run.period_s:
            waiting["server"] -= messages[at]
            put_off_s += messages[at]
        served = _shared({part: min(waiting[part], tick_s) for part in parts}, run.service_cores * tick_s)
        for part in parts:
            rate = served[part] / tick_s if waiting[part] > served[part] else 1.0
            lags[part][at] = waiting[part] / max(rate, 1e-9)
            waiting[part] -= served[part]
    found = {
        part: _part(of_part[part], lags[part], costs.parts[part], waiting[part], 0.0, 0.0) for part in parts
    }
    return found, put_off_s / max(sum(messages), 1e-12)


def _part(
    load: Load, lags: Float64Array, cost: PartCosts, behind_s: float, held_bytes: float, lost: float
) -> PartResult:
    p50, p99 = np.quantile(lags[TICKS // 2 :], (0.5, 0.99)) + cost.wait_s.of(load.work)
    return PartResult(load, float(p50), float(p99), behind_s, load.memory_bytes + held_bytes, float(lost))


def _phases(senders: int, period_s: float, tick_s: float, random: np.random.Generator) -> Float64Array:
    """Return the work of a period that comes in each tick, as a multiple of the mean. Shape (TICKS,)."""
    ticks = max(round(period_s / tick_s), 1)
    of_period = np.bincount(random.integers(0, ticks, senders), minlength=ticks) * (ticks / senders)
    return np.resize(of_period, TICKS)


def _arrivals(
    cost: Units, work: Units, senders: int, period_s: float, tick_s: float, random: np.random.Generator
) -> Float64Array:
    """Return the CPU time of the work that comes in each tick. Shape (TICKS,)."""
    return _spread(cost, work, _phases(senders, period_s, tick_s, random), tick_s, random)


def _spread(
    cost: Units, work: Units, phases: Float64Array, tick_s: float, random: np.random.Generator
) -> Float64Array:
    """Return the arrivals for given moments of the senders: findings come when they come, the rest with
    steps.
    """
    always = cost.second * work.second + cost.agent * work.agent + cost.rank * work.rank
    sent = cost.step * work.step + cost.cold_step * work.cold_step
    sent += cost.message * work.message + cost.row * work.row
    findings = random.poisson(work.finding * tick_s, TICKS)
    return tick_s * (always + sent * phases) + cost.finding * findings


def _shared(wanted: dict[str, float], room: float) -> dict[str, float]:
    """Return each one's part of the room: all that it wants, or else the same as others that want more."""
    left, given = room, dict.fromkeys(wanted, 0.0)
    order = sorted(wanted, key=lambda part: wanted[part])
    for number, part in enumerate(order):
        given[part] = min(wanted[part], left / (len(order) - number))
        left -= given[part]
    return given
