"""Ranks at a standstill: the calls that they are in, and whether they wait for each other for ever."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from chimbuko.core.calls.functionnames import shown_name
from chimbuko.core.calls.record import CallRecord
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
        for one in own:
            if one.silence is not None and one.silence.function:
                stacks.setdefault(one.rank, [shown_name(one.silence.function)])
        if stacks:
            living = {one.rank for one in own if one.state not in OVER}
            yield Standstill(program, stacks, deadlock(stacks, living))


def _stack_of(record: CallRecord) -> list[str]:
    inside = sorted((call for call in record.window if not call.exit_us), key=lambda call: call.depth)
    outer = [frame.function for frame in reversed(record.call_stack)]
    return list(map(shown_name, (*outer, *(call.function for call in inside if call.id != record.id))))
