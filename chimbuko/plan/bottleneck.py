"""Part of the pipeline that is full first as ranks are added, and the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from chimbuko.plan.loads import Pipeline, loads
from chimbuko.plan.placingadvice import MOST_STEP_BYTES
from chimbuko.plan.simulation import ROW_BYTES
from chimbuko.plan.unitcosts import READERS, UnitCosts

ROOM = 0.8
"""Share of a core that a part may ask for; one that asks for more has none left for what comes at once."""
MOST_RANKS = 1 << 24
PERIODS_S = (2.0, 5.0, 10.0, 20.0)
PARTS = (2, 4, 8)
AGENT_CORES = (2.0, 4.0, 8.0, 16.0)
FEWER = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Share of the abnormal calls that remains where fewer are recorded."""
ELSE = {
    READERS: "leave functions out of the trace (chimbuko filter), or trace fewer events",
    "broker": "divide the run: a run of its own for each program",
    "server": "divide the run: a run of its own for each program",
    "writer": "keep fewer abnormal calls (--threshold), or divide the run: a run of its own for each program",
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
    """Return the remedy that gives all parts room, the fullest first; words where nothing helps that can be
    computed.
    """
    changed, words = run, dict[str, str]()
    while True:
        full = [one for one in loads(changed, costs) if one.share > ROOM and one.part not in words]
        if not full:
            return "; ".join(filter(None, [_options(run, changed), *dict.fromkeys(words.values())]))
        part = max(full, key=lambda one: one.share).part
        found = (one for one in _changes(changed, part) if _share(part, one, costs) <= ROOM)
        helped = next(found, None)
        if helped is None:
            words[part] = ELSE[part]
        else:
            changed = helped


def _share(part: str, run: Pipeline, costs: UnitCosts) -> float:
    return next(one.share for one in loads(run, costs) if one.part == part)


def _changes(run: Pipeline, part: str) -> Iterator[Pipeline]:
    """Return the settings that can be changed for a part, the least change first."""
    if part == READERS:
        yield from (replace(run, agent_cores=cores) for cores in AGENT_CORES if cores > run.agent_cores)
    most_s = MOST_STEP_BYTES / (run.rows_per_s * ROW_BYTES)
    longer = [one for one in PERIODS_S if run.period_s < one and not run.period_s <= most_s < one]
    periods = [run.period_s, *longer]
    if part == "writer":
        fewer = [
            replace(run, period_s=period_s, findings_per_s=share * run.findings_per_s)
            for period_s in periods
            for share in FEWER
        ]
        yield from sorted(fewer, key=lambda one: one.period_s / max(one.findings_per_s, 1e-9))
        return
    for period_s in periods:
        for count in (
            run.server_parts,
            *(one for one in PARTS if part == "server" and one > run.server_parts),
        ):
            yield replace(run, period_s=period_s, server_parts=count)


def _options(run: Pipeline, changed: Pipeline) -> str:
    """Return the changed settings as they are given to the run."""
    options, others = [], []
    if changed.server_parts != run.server_parts:
        options.append(f"--server-parts {changed.server_parts}")
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
