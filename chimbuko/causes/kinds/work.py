"""Causes in what a call did: more computing, calls or bytes than an ordinary one, or the same on a machine
that was slower meanwhile.

They are told apart by counters of the hardware, in comparison with an ordinary call of the function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import Flag, Work
from chimbuko.causes.kinds.cause import Cause
from chimbuko.causes.kinds.spent import LEAST_SHARE
from chimbuko.causes.part import Part
from chimbuko.core.calls.functionnames import short_name
from chimbuko.core.calls.waiting import Waits

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


# Causes that show as an amount beyond that of an ordinary call: calls, bytes, or the rise of a counter.


MORE_CALLS_RATIO = 1.5
"""Number of calls made, relative to an ordinary call of the function, from which they are a cause."""
MORE_BYTES_RATIO = 2.0
"""Bytes moved, relative to an ordinary call of the function, from which they are a cause."""
COUNTER_RATIO = 2.0
"""Rise of a counter, relative to an ordinary call of the function, from which it is a cause."""


def more_calls(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the time of additional calls, if inclusive runtimes are judged.

    The calls inside this one that its window holds say how long each takes.
    """
    ordinary = evidence.ordinary(flag)
    if flag.is_exclusive or ordinary is None or not flag.children:
        return
    further = flag.calls_made - ordinary.calls_made
    if flag.calls_made >= MORE_CALLS_RATIO * max(ordinary.calls_made, 1):
        runtimes_us = sorted(child.exit_us - child.entry_us for child in flag.children)
        typical_us = runtimes_us[len(runtimes_us) // 2]
        yield Part(MORE_CALLS.id, further * typical_us, flag.children[-1].function)


def more_bytes(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the time of additional bytes, at the speed of an ordinary call; with the sender, if known."""
    ordinary = evidence.ordinary(flag)
    if ordinary is None or not ordinary.size_bytes:
        return
    ratio = flag.size_bytes / ordinary.size_bytes
    if ratio < MORE_BYTES_RATIO:
        return
    lost_us, sender = (ratio - 1) * flag.expected_us, _sender(flag, evidence)
    if sender is None:
        yield Part(MORE_BYTES.id, lost_us)
    else:
        yield Part(MORE_BYTES.id, lost_us, sender.function, sender.rank, sender.id)


def _sender(flag: Flag, evidence: Evidence) -> Flag | None:
    """Return the flagged call in which another rank sends what this one receives meanwhile."""
    if flag.waits is not Waits.RECEIVE:
        return None
    sources = {message.source for message in flag.messages if message.kind == "RECV"} - {flag.rank}
    for other in evidence.during(flag.program, flag.common_entry_us, flag.common_exit_us):
        if other.waits is Waits.SEND and other.rank in sources and other.size_bytes >= flag.size_bytes:
            return other
    return None


def counter(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield what the further events took if each takes what it does in an ordinary call, by the counter that
    rose most. Calls in which ranks wait are left out: they may count while they poll.
    """
    ordinary = evidence.ordinary(flag)
    if ordinary is None or flag.is_wait:
        return
    usual = dict(ordinary.counted)
    ratios = {name: value / usual[name] for name, value in flag.counted if usual.get(name, 0) > 0}
    name = max(ratios, key=lambda one: (ratios[one], one), default="")
    if name and ratios[name] >= COUNTER_RATIO:
        lost_us = (ratios[name] - 1) * flag.expected_us
        yield Part(COUNTER.id, lost_us, by=name, count=round(ratios[name]))


MORE_CALLS = Cause(
    id="more calls",
    colour="program",
    text="in more calls of {function} than usual",
    find=more_calls,
    clause=lambda part, rank: f"as it called {short_name(part.function)} more often",
)
MORE_BYTES = Cause(
    id="more bytes",
    colour="ranks",
    text="moving more data than usual[, sent by {rank} in {function}]",
    find=more_bytes,
    clause=lambda part, rank: "as it moved more data",
)
COUNTER = Cause(
    id="counter out of range",
    colour="program",
    text="while {by} rose by {count} times as much as usual",
    find=counter,
    clause=lambda part, rank: f"as {part.by} rose by {part.count}× as much as usual",
)
