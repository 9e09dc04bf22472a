"""Open calls of all ranks as one tree, and whether it is a deadlock."""

from __future__ import annotations

from chimbuko.monitor.findings.stacktree import lines, merged
from chimbuko.provenance.incidents.standstill import standstills
from chimbuko.provenance.query.run import Provenance


def stuck_lines(provenance: Provenance) -> list[str]:
    """For each program what its ranks are in, of those that are in a call that does not end or are silent."""
    shown = []
    programs = provenance.programs()
    for one in standstills(provenance):
        if len(programs) > 1:
            shown.append(f"program {one.program}:")
        if one.finding is not None:
            shown += [f"{one.finding.kind}: {one.finding.text}", f"    {one.finding.advice}"]
        shown += lines(merged(one.stacks))
    return shown
