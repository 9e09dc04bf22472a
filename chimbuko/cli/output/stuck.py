"""Open calls of all ranks as one tree, and whether it is a deadlock."""

from __future__ import annotations

from chimbuko.calls.functionnames import shown_name
from chimbuko.calls.record import CallRecord
from chimbuko.monitor.findings.deadlock import deadlock
from chimbuko.monitor.findings.stacktree import lines, merged
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance

OVER = ("ended", "broken", "lost")
MAIN_THREAD = 0


def stuck_lines(provenance: Provenance) -> list[str]:
    """For each program what its ranks are in, of those that are in a call that does not end or are silent."""
    found = []
    programs = provenance.programs()
    health = provenance.health()
    opened: dict[tuple[int, int], CallRecord] = {}
    for record in provenance.calls.records(CallFilter(label=None, is_open=True, thread=MAIN_THREAD)):
        key = record.program, record.rank
        if key not in opened or record.entry_us < opened[key].entry_us:
            opened[key] = record
    for program in sorted({one.program for one in health} | {program for program, _ in opened}):
        stacks = {rank: stack_of(record) for (of, rank), record in opened.items() if of == program}
        own = [one for one in health if one.program == program]
        for one in own:
            if one.silence is not None and one.silence.function:
                stacks.setdefault(one.rank, [shown_name(one.silence.function)])
        if not stacks:
            continue
        over = {one.rank for one in own if one.state in OVER}
        if len(programs) > 1:
            found.append(f"program {program}:")
        finding = deadlock(stacks, {one.rank for one in own} - over)
        if finding is not None:
            found += [f"{finding.kind}: {finding.text}", f"    {finding.advice}"]
        found += lines(merged(stacks))
    return found


def stack_of(record: CallRecord) -> list[str]:
    """Functions from the outermost to the innermost that is open."""
    inside = sorted((call for call in record.window if not call.exit_us), key=lambda call: call.depth)
    outer = [frame.function for frame in reversed(record.call_stack)]
    return list(map(shown_name, (*outer, *(call.function for call in inside if call.id != record.id))))
