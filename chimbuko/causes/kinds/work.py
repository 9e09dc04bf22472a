"""Causes in what a call computed: more of it, or the same on a machine that was slower meanwhile.

They are told apart by counters of the hardware, in comparison with an ordinary call of the function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.work import Work
from chimbuko.causes.kinds.cause import Cause
from chimbuko.causes.kinds.spent import LEAST_SHARE
from chimbuko.causes.part import Part

MORE_RATIO = 1.3
"""Factor by which a count must exceed that of an ordinary call to be more: counts of instructions are exact,
and inputs that differ by a tenth are usual."""
MISSES_RATIO = 1.5
"""Factor by which cache misses per instruction must have risen for the memory to be what was slow."""
CLOCK_RATIO = 0.9
"""Share of an ordinary call's clock rate below which the core ran slower: it always changes a little."""


def worked(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield what a call's own code took longer, divided by why: each factor counts for its part of it.

    CPU time is instructions, times cycles for each, times the length of a cycle.
    """
    ordinary = evidence.ordinary(flag)
    if ordinary is None or flag.is_wait:
        return
    now, usual = dict(flag.worked), dict(ordinary.worked)
    needed = (Work.CPU_TIME, Work.INSTRUCTIONS, Work.CYCLES)
    if not all(now.get(name) and usual.get(name) for name in needed):
        return
    instructions = now[Work.INSTRUCTIONS] / usual[Work.INSTRUCTIONS]
    cycles = (now[Work.CYCLES] / usual[Work.CYCLES]) / instructions
    usual_us, clock = usual[Work.CPU_TIME], _mhz(now) / _mhz(usual)
    if instructions >= MORE_RATIO:
        by = f"{instructions:.1f} times the instructions"
        yield from _part(MORE_WORK, flag, usual_us * (instructions - 1.0), by)
    if cycles >= MORE_RATIO:
        lost_us = usual_us * instructions * (cycles - 1.0)
        yield from _part(SLOWER_MACHINE, flag, lost_us, _stalls(now, usual, instructions, cycles))
    if clock <= CLOCK_RATIO:
        by = f"{_mhz(now) / 1000:.1f} instead of {_mhz(usual) / 1000:.1f} GHz"
        yield from _part(LOW_CLOCK, flag, usual_us * instructions * cycles * (1.0 / clock - 1.0), by)


def _part(cause: Cause, flag: Flag, lost_us: float, by: str) -> Iterator[Part]:
    if lost_us >= LEAST_SHARE * flag.excess_us:
        yield Part(cause.id, lost_us, by=by)


def _stalls(now: Mapping[Work, int], usual: Mapping[Work, int], instructions: float, cycles: float) -> str:
    """Return what made each instruction take longer: the memory, where it was asked more often."""
    misses = now.get(Work.CACHE_MISSES, 0) / max(1, usual.get(Work.CACHE_MISSES, 0))
    if misses >= MISSES_RATIO * instructions:
        return f"memory: {misses:.1f} times the cache misses"
    return f"{cycles:.1f} times the cycles for each instruction"


def _mhz(counts: Mapping[Work, int]) -> float:
    return counts[Work.CYCLES] / counts[Work.CPU_TIME]


MORE_WORK = Cause(
    id="more work",
    colour="program",
    text="in more work than usual ({by})",
    is_by_amount=True,
    find=worked,
    clause=lambda part, rank: f"as it did more work ({part.by})",
)
SLOWER_MACHINE = Cause(
    id="slower machine",
    colour="node",
    text="as each instruction took longer ({by})",
    is_in_node=True,
    is_by_amount=True,
    find=worked,
    clause=lambda part, rank: f"as the machine was slower ({part.by})",
    recurring="{was} on a slower machine",
)
LOW_CLOCK = Cause(
    id="low clock",
    colour="node",
    text="as the core ran at a lower clock ({by})",
    is_in_node=True,
    is_by_amount=True,
    find=worked,
    clause=lambda part, rank: f"as its core ran at {part.by}",
    recurring="ran at a lower clock",
)
