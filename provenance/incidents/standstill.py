"""Ranks at a standstill, until they go on or are ended: the calls that they are in, and whether they wait for
each other for ever.
"""

from __future__ import annotations

import time
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
from chimbuko.provenance.query.nodelist import DatedFinding, node_facts, sampled_nodes
from chimbuko.provenance.query.run import Provenance

OVER = ("ended", "broken", "lost")
MAIN_THREAD = 0
DEADLOCK = "deadlock"
"""Kind of findings of ranks, or threads of a process, that wait for each other for ever."""


class Standstill(msgspec.Struct, frozen=True):
    """Ranks of one program that are in a call that does not end, or give no step."""

    program: int
    stacks: dict[int, list[str]]
    """Call stack of each rank: functions as people are shown them, outermost first."""
    finding: Finding | None
    """Finding of the deadlock, where it is one."""
    begin_us: int = 0
    """Time from which all of them stood still; 0 if it is not known."""
    end_us: int = 0
    """Time up to which they are known to have stood; 0 where that is until now, or until they were ended."""
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
            found = deadlock(stacks, living)
            if found is None and _of_nodes(provenance):
                found = _locked(provenance, program, stacks)
            records = [record for (of, _), record in opened.items() if of == program]
            calls = tuple(record.id for record in records)
            is_live = any(one.silence is not None for one in own)
            ends_us = [] if is_live else [one.entry_us + one.inclusive_us for one in records]
            yield Standstill(program, stacks, found, max(begins_us.values()), max(ends_us, default=0), calls)


LEAST_LOCKED_US = 1e6
"""Time for which looks must have seen a thread of Python wait for a lock: they end after 1.6 s."""


def _locked(provenance: Provenance, program: int, stacks: Mapping[int, list[str]]) -> Finding | None:
    """Return the finding of threads of Python that hold locks which others of them wait for, in one rank.

    Looks at threads tell of all of the run, and so this is asked of who stands still by its node's samples.
    """
    held: dict[int, list[str]] = defaultdict(list)
    for of, rank, counter in provenance.counter_statistics():
        pause = pause_of(counter.name)
        is_long = counter.n * counter.mean >= LEAST_LOCKED_US
        if of == program and rank in stacks and is_long and pause is not None and pause[0] is Pause.LOCK:
            held[rank].append(pause[1])
    for rank, locks in sorted(held.items()):
        if is_circle(locks):
            return Finding(
                DEADLOCK,
                f"threads of rank {rank} wait for each other, and none goes on: for {'; for '.join(locks)}",
                "take locks in the same order everywhere, or give up after a time (acquire(timeout=...))",
            )
    return None


def is_circle(locks: Collection[str]) -> bool:
    """Return whether several hold locks, each as ``name, held by function``, for which others wait."""
    return len({lock.partition(", held by ")[2] for lock in locks} - {""}) > 1


def _of_nodes(provenance: Provenance) -> list[DatedFinding]:
    """Return what samples of nodes say of processes whose threads wait for each other."""
    facts = [node_facts(provenance.reader, node.name) for node in sampled_nodes(provenance.reader)]
    return [found for one in facts if one is not None for found in one.findings if found.kind == DEADLOCK]


def deadlocks(provenance: Provenance) -> list[Recurrence]:
    """Return the findings of programs whose ranks or threads wait for each other for ever, or did until they
    were ended.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    now_us = provenance.run().ended_us or time.time_ns() // 1000
    found = [_finding(one, one.finding, now_us) for one in standstills(provenance) if one.finding is not None]
    return found or [_finding_of_node(one) for one in _of_nodes(provenance)]


def _finding(one: Standstill, found: Finding, now_us: int) -> Recurrence:
    lasted_us = float(max(0, (one.end_us or now_us) - one.begin_us))
    innermost = dict.fromkeys(stack[-1] for stack in one.stacks.values())
    return Recurrence(
        program=one.program,
        kind=RecurrenceKind.DEADLOCK,
        function="",
        calls=len(one.stacks),
        cost_us=lasted_us * len(one.stacks),
        shortest_us=lasted_us,
        longest_us=lasted_us,
        functions=list(innermost),
        ranks=sorted(one.stacks),
        begin_us=one.begin_us,
        end_us=one.end_us or now_us,
        examples=list(one.calls),
        by=found.text,
    )


def _finding_of_node(one: DatedFinding) -> Recurrence:
    begin_us, end_us = one.times[0][0], one.times[-1][1]
    return Recurrence(
        program=0,
        kind=RecurrenceKind.DEADLOCK,
        function="",
        calls=0,
        cost_us=float(end_us - begin_us),
        shortest_us=0.0,
        # The text says for how long.
        longest_us=0.0,
        functions=[],
        ranks=[],
        begin_us=begin_us,
        end_us=end_us,
        examples=[],
        by=one.text,
    )


def _stack_of(record: CallRecord) -> list[str]:
    inside = sorted((call for call in record.window if not call.exit_us), key=lambda call: call.depth)
    outer = [frame.function for frame in reversed(record.call_stack)]
    return list(map(shown_name, (*outer, *(call.function for call in inside if call.id != record.id))))
