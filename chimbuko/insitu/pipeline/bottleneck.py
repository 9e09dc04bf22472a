"""What is full first as ranks are added, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from chimbuko.insitu.pipeline.loads import Load, Pipeline, loads
from chimbuko.insitu.pipeline.unitcosts import READERS, UnitCosts

ROOM = 0.8
"""Of a core; a part that asks for more has none left for what comes at once."""
MOST_RANKS = 1 << 24
PERIODS_S = (2.0, 5.0, 10.0, 20.0)
PARTS = (2, 4, 8)
AGENT_CORES = (2.0, 4.0, 8.0, 16.0)
ELSE = {
    READERS: "leave functions out of the trace (chimbuko filter), or trace fewer events",
    "broker": "divide the run: a run of its own for each program",
    "server": "divide the run: a run of its own for each program",
    "writer": "keep fewer abnormal calls (--threshold), or store in PostgreSQL (--store)",
    "dashboard": "leave the dashboard out (--no-dashboard); the run loses nothing by it",
    "serve": "divide the run: a run of its own for each program",
}
"""What helps where nothing that can be computed does."""


@dataclass(frozen=True)
class Bottleneck:
    """Of one kind of run."""

    part: str
    share: float
    """Of what it has."""
    full_at_ranks: int | None
    """The most with which it asks for no more than it has; None where that does not depend on ranks."""
    remedy: str
    """Empty where there is room."""


def bottleneck(run: Pipeline, costs: UnitCosts) -> Bottleneck:
    """The part that has least room, how many ranks fill it, and the least that gives all parts room."""
    fullest = _fullest(run, costs)
    remedy = "" if fullest.share <= ROOM else _remedy(run, fullest.part, costs)
    return Bottleneck(fullest.part, fullest.share, full_at(fullest.part, run, costs), remedy)


def full_at(part: str, run: Pipeline, costs: UnitCosts) -> int | None:
    """The most ranks, all else alike, with which a part asks for no more than it has; 0 where none fit, None
    where it does not depend on them.
    """

    def share(ranks: int) -> float:
        return next(one.share for one in loads(replace(run, ranks=ranks), costs) if one.part == part)

    low, high = 0, MOST_RANKS
    if part == READERS or share(high) <= 1.0:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if share(middle) <= 1.0 else (low, middle)
    return low


def _fullest(run: Pipeline, costs: UnitCosts) -> Load:
    return max(loads(run, costs), key=lambda one: one.share)


def _remedy(run: Pipeline, part: str, costs: UnitCosts) -> str:
    for changed, text in _changes(run, part):
        if _fullest(changed, costs).share <= ROOM:
            return text
    return ELSE[part]


def _changes(run: Pipeline, part: str) -> Iterator[tuple[Pipeline, str]]:
    """What can be set otherwise, the least first, with the options that do it."""
    if part == READERS:
        for cores in AGENT_CORES:
            yield replace(run, agent_cores=cores), f"{cores:g} cores for each agent (--cores)"
    parts = [(1, "")] + [(count, f"--server-parts {count}") for count in PARTS if part == "server"]
    for period_s in (run.period_s, *(one for one in PERIODS_S if one > run.period_s)):
        period = "" if period_s == run.period_s else f"--period {period_s:g}"
        for count, divided in parts:
            words = " ".join(word for word in (divided, period) if word)
            if words:
                yield replace(run, period_s=period_s, server_parts=max(count, run.server_parts)), words
