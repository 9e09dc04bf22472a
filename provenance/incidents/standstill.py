"""Ranks at a standstill, until they go on or are ended: the calls that they are in, and whether they wait for
each other for ever.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

import msgspec

from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.core.calls.functionnames import shown_name
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.pauses import Pause, pause_of
from chimbuko.monitor.report.deadlock import deadlock
from chimbuko.monitor.report.finding import Finding
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance

OVER = ("ended", "broken", "lost")
MAIN_THREAD = 0


class Standstill(msgspec.Struct, frozen=True):
    """Ranks of one program that are in a call that does not end, or give no step."""

    program: int
    stacks: dict[int, list[str]]
    """Call stack of each rank: functions as people are shown them, outermost first."""
    finding: Finding | None
    """Finding of the deadlock, where it is one."""
    begin_us: int = 0
    """Time from which all of them stood still; 0 if it is not known."""
    calls: tuple[str, ...] = ()
    """Ids of the calls, as far as they are on record."""


def standstills(provenance: Provenance) -> Iterator[Standstill]:
    """Yield the standstill of each program that has such ranks.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    health = provenance.health()
    opened: dict[tuple[int, int], CallRecord] = {}
    for record in provenance.calls.records(CallFilter(label=None, is_open=True, thread=MAIN_THREAD)):
        key = record.program, record.rank
        if key not in opened or record.entry_us < opened[key].entry_us:
            opened[key] = record
    for program in sorted({one.program for one in health} | {program for program, _ in opened}):
        stacks = {rank: _stack_of(record) for (of, rank), record in opened.items() if of == program}
        own = [one for one in health if one.program == program]
        begins_us = {rank: record.entry_us for (of, rank), record in opened.items() if of == program}
        for one in own:
            if one.silence is not None and one.silence.function:
                stack = one.silence.stack or [one.silence.function]
                stacks.setdefault(one.rank, list(map(shown_name, stack)))
                begins_us.setdefault(one.rank, one.silence.since_us)
        if stacks:
            # Who has ended meanwhile stood there until then.
            living = {one.rank for one in own if one.state not in OVER} | stacks.keys()
            found = deadlock(stacks, living) or _locked(provenance, program, stacks)
            calls = tuple(record.id for (of, _), record in opened.items() if of == program)
            yield Standstill(program, stacks, found, max(begins_us.values()), calls)


LEAST_LOCKED_US = 1e6
"""Time for which looks must have seen a thread of Python wait for a lock: they end after 1.6 s."""


def _locked(provenance: Provenance, program: int, stacks: Mapping[int, list[str]]) -> Finding | None:
    """Return the finding of threads of Python that hold locks which others of them wait for, in one rank."""
    held: dict[int, list[str]] = defaultdict(list)
    for of, rank, counter in provenance.counter_statistics():
        pause = pause_of(counter.name)
        is_long = counter.n * counter.mean >= LEAST_LOCKED_US
        if of == program and rank in stacks and is_long and pause is not None and pause[0] is Pause.LOCK:
            held[rank].append(pause[1])
    for rank, locks in sorted(held.items()):
        if is_circle(locks, stacks[rank]):
            return Finding(
                "deadlock",
                f"threads of rank {rank} wait for each other, and none goes on: for {'; for '.join(locks)}",
                "take locks in the same order everywhere, or give up after a time (acquire(timeout=...))",
            )
    return None


def is_circle(locks: Collection[str], stack: Collection[str]) -> bool:
    """Return whether those who hold locks wait for locks themselves.

    Parameters
    ----------
    locks
        Locks that threads wait for all the time, each as ``name, held by function``.
    stack
        Functions that the main thread is in.
    """
    holders = {lock.partition(", held by ")[2] for lock in locks} - {""}
    return len(holders) > 1 or (len(locks) == 1 and bool(holders & set(stack)))


def deadlocks(provenance: Provenance) -> list[Recurrence]:
    """Return the findings of programs whose ranks wait for each other for ever, or did until they were ended.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    run = provenance.run()
    return [
        _finding(one, one.finding, run.ended_us) for one in standstills(provenance) if one.finding is not None
    ]


def _finding(one: Standstill, found: Finding, ended_us: int) -> Recurrence:
    # While it goes on nobody knows what it will cost; what it has cost so far would be another one each time.
    lasted_us = max(0, ended_us - one.begin_us) if ended_us else 0
    innermost = dict.fromkeys(stack[-1] for stack in one.stacks.values())
    return Recurrence(
        program=one.program,
        kind=RecurrenceKind.DEADLOCK,
        function="",
        calls=len(one.stacks),
        cost_us=float(lasted_us * len(one.stacks)),
        shortest_us=float(lasted_us),
        longest_us=float(lasted_us),
        functions=list(innermost),
        ranks=sorted(one.stacks),
        begin_us=one.begin_us,
        end_us=ended_us or one.begin_us,
        examples=list(one.calls),
        by=found.text,
    )


def _stack_of(record: CallRecord) -> list[str]:
    inside = sorted((call for call in record.window if not call.exit_us), key=lambda call: call.depth)
    outer = [frame.function for frame in reversed(record.call_stack)]
    return list(map(shown_name, (*outer, *(call.function for call in inside if call.id != record.id))))
