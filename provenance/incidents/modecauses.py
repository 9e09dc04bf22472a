"""What of their nodes the calls of slow modes lost their time by, kept while these stay about the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from chimbuko.causes.incidents.interruptions import because, lost_by
from chimbuko.causes.recurrence import Recurrence
from chimbuko.provenance.nodes.callcauses import evidence_of, parts_of
from chimbuko.provenance.query.filters import CallSummary
from chimbuko.provenance.query.run import Provenance

MOST_EXPLAINED = 8
"""Calls of all lengths, for which it is asked what their nodes did: some 20 ms for one mode."""
GROWN = 1.25
"""A mode that has cost so many times as much since, or has so many times as many calls, is another one."""
LOOKS = 2
"""So often it is asked about a mode that stays the same: samples may come later than calls."""


@dataclass
class _Answer:
    about: Recurrence
    found: Recurrence
    """With its cause."""
    looks: int = 1


class ModeCauses:
    """Causes of the slow modes of one run."""

    def __init__(self, provenance: Provenance) -> None:
        self._provenance = provenance
        self._known: dict[tuple[int, str, str, str], _Answer] = {}

    def with_cause(self, mode: Recurrence, recorded: Sequence[CallSummary]) -> Recurrence:
        """A mode with the cause of most of it, as far as nodes are one.

        Parameters
        ----------
        recorded
            Its calls, in order of what they lost.
        """
        known = self._known.get(mode.key)
        if known is None or not _are_alike(known.about, mode):
            known = self._known[mode.key] = _Answer(mode, self._asked(mode, recorded))
        elif known.looks < LOOKS:
            known.found, known.looks = self._asked(mode, recorded), known.looks + 1
        found = known.found
        return msgspec.structs.replace(
            mode, cause=found.cause, by=found.by, ranks_there=found.ranks_there, cores=found.cores
        )

    def _asked(self, mode: Recurrence, recorded: Sequence[CallSummary]) -> Recurrence:
        step = -(-len(recorded) // MOST_EXPLAINED) or 1
        calls = [self._provenance.calls.record(call.id) for call in recorded[::step]]
        evidence = evidence_of(self._provenance.reader, calls)
        return because(mode, lost_by(parts_of(evidence)), evidence.nodes)


def _are_alike(one: Recurrence, other: Recurrence) -> bool:
    figures = (one.cost_us, other.cost_us), (one.calls, other.calls)
    return one.ranks == other.ranks and all(max(pair) <= GROWN * min(pair) for pair in figures)
