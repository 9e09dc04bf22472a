"""Part of the pipeline that is full first as ranks are added, and the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from chimbuko.plan.loads import KEEPER, LEAF, READERS, Pipeline, UnitCosts, loads
from chimbuko.plan.placingadvice import MOST_STEP_BYTES
from chimbuko.plan.simulation import ROW_BYTES

ROOM = 0.8
"""Share of a core that a part may ask for; one that asks for more has none left for what comes at once."""
MOST_RANKS = 1 << 24
PERIODS_S = (2.0, 5.0, 10.0, 20.0)
PARTS = (2, 4, 8)
AGENTS_OF_LEAF = 250
WRITERS = (2, 4, 8, 16)
AGENT_CORES = (2.0, 4.0, 8.0, 16.0)
FEWER = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Share of the abnormal calls that remains where fewer are recorded."""
ELSE = {
    READERS: "leave functions out of the trace (chimbuko filter), or trace fewer events",
    "broker": "divide the run: a run of its own for each program",
    "server": "divide the run: a run of its own for each program",
    "writer": "keep fewer abnormal calls (--threshold), or divide the run: a run of its own for each program",
    KEEPER: "keep fewer abnormal calls (--threshold): what it cannot explain in time, it explains at the end",
    LEAF: "take more leaf servers (--leaf-servers)",
    "dashboard": "leave the dashboard out, by which the run loses nothing (--no-dashboard)",
    "serve": "divide the run: a run of its own for each program",
}
"""Remedy where nothing that can be computed helps."""


@dataclass(frozen=True)
class Bottleneck:
    """Bottleneck of one kind of run."""

    part: str
    share: float
    """Share of its cores that the part needs."""
    full_at_ranks: int | None
    """The most with which it asks for no more than it has; None if that does not depend on ranks."""
    remedy: str
    """Remedy that gives all parts room; empty if they have it."""


def bottleneck(run: Pipeline, costs: UnitCosts) -> Bottleneck:
    """Return the part that has least room, how many ranks fill it, and the least that gives all parts
    room.
    """
    fullest = max(loads(run, costs), key=lambda one: one.share)
    return Bottleneck(fullest.part, fullest.share, full_at(fullest.part, run, costs), _remedy(run, costs))


def full_at(part: str, run: Pipeline, costs: UnitCosts) -> int | None:
    """Return the most ranks, all else alike, with which a part asks for no more than it has; 0 if none
    fit, None where it does not depend on them.
    """

    def share(ranks: int) -> float:
        return _share(part, replace(run, ranks=ranks), costs)

    low, high = 0, MOST_RANKS
    if part == READERS or share(high) <= 1.0:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if share(middle) <= 1.0 else (low, middle)
    return low


def _remedy(run: Pipeline, costs: UnitCosts) -> str:
    """Return the least change that gives all parts room, or the one that leaves fewest of them full and words
    for these.
    """

    def full(one: Pipeline) -> list[str]:
        return [load.part for load in loads(one, costs) if load.share > ROOM]

    fewest, least = full(run), run
    for changed in _changes(run, costs) if fewest else ():
        left = full(changed)
        if len(left) < len(fewest):
            fewest, least = left, changed
        if not left:
            break
    return "; ".join(filter(None, [_options(run, least), *dict.fromkeys(ELSE[part] for part in fewest)]))


def _share(part: str, run: Pipeline, costs: UnitCosts) -> float:
    return next(one.share for one in loads(run, costs) if one.part == part)


def _changes(run: Pipeline, costs: UnitCosts) -> Iterator[Pipeline]:
    """Return the settings that can be changed, the least change first: abnormal calls are given up last."""
    most_s = MOST_STEP_BYTES / (run.rows_per_s * ROW_BYTES)
    longer = [one for one in PERIODS_S if run.period_s < one and not run.period_s <= most_s < one]
    parts = [run.server_parts, *(one for one in PARTS if one > run.server_parts)]
    trees = [(count, run.leaf_servers) for count in parts]
    if (leaves := run.nodes // AGENTS_OF_LEAF) > max(run.leaf_servers, 3):
        trees += [(count, leaves) for count in parts]
    # Several share a store only where they need not take turns.
    stores = [(run.store_writers, run.store)]
    stores += [(one, "postgresql") for one in WRITERS if one > run.store_writers]
    for share in FEWER:
        for period_s in (run.period_s, *longer):
            slower = replace(run, period_s=period_s, findings_per_s=share * run.findings_per_s)
            slower = replace(slower, agent_cores=_agent_cores(slower, costs))
            for writers, store in stores:
                for count, of_tree in trees:
                    writing = replace(slower, store_writers=writers, store=store)
                    yield replace(writing, server_parts=count, leaf_servers=of_tree)


def _agent_cores(run: Pipeline, costs: UnitCosts) -> float:
    """Return the fewest cores of a node on which its readers have room; what they have if none is enough."""
    more = [run.agent_cores, *(cores for cores in AGENT_CORES if cores > run.agent_cores)]
    fits = (one for one in more if _share(READERS, replace(run, agent_cores=one), costs) <= ROOM)
    return next(fits, run.agent_cores)


def _options(run: Pipeline, changed: Pipeline) -> str:
    """Return the changed settings as they are given to the run."""
    options, others = [], []
    if changed.server_parts != run.server_parts:
        options.append(f"--server-parts {changed.server_parts}")
    if changed.leaf_servers != run.leaf_servers:
        options.append(f"--leaf-servers {changed.leaf_servers}")
    if changed.store_writers != run.store_writers:
        options.append(f"--store-writers {changed.store_writers} --store postgresql://…")
    if changed.period_s != run.period_s:
        options.append(f"--period {changed.period_s:g}")
    if changed.agent_cores != run.agent_cores:
        others.append(f"{changed.agent_cores:g} cores for each agent (--cores)")
    if changed.findings_per_s != run.findings_per_s:
        others.append(
            f"at most {changed.findings_per_s:.2g} a second of each node's abnormal calls "
            "(--threshold, --min-anomaly)"
        )
    return ", ".join(filter(None, [" ".join(options), *others]))
