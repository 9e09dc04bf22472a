"""Findings of a run that earlier runs of its series had, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from chimbuko.core.calls.functionnames import shown_name
from chimbuko.core.units import number_of
from chimbuko.provenance.history.entry import Details, day
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.run import Provenance

MOST_LOOKED_UP = 500
"""Number of incidents of a run, the most costly, that are looked up in earlier ones."""


class KnownFinding(msgspec.Struct, frozen=True):
    """Finding that earlier runs of the series had, too: the same function, cause and place."""

    runs: int
    """Number of earlier runs that had it."""
    since_us: int
    """Begin of the first of them that is in the index."""

    @property
    def words(self) -> str:
        """Return how often it is known, and since when."""
        return f"known, {number_of(self.runs, 'times')} since {day(self.since_us)}"


def finding_keys(provenance: Provenance) -> dict[str, tuple[str, str, str, int]]:
    """Return the key of each finding of a run, by its id, by which the same is found in other runs.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    programs, found = provenance.programs(), Incidents(provenance.reader)
    keys = {
        one.id: incident_key(programs, one.program, one.function, one.kind, one.rank)
        for one in found.page(limit=MOST_LOOKED_UP, with_short=True).incidents
    }
    return keys | {
        one.id: incident_key(
            programs, one.recurrence.program, one.recurrence.function, one.recurrence.kind.value, None
        )
        for one in found.recurrences()
    }


def incident_key(
    programs: Mapping[int, str], program: int, function: str, kind: str, rank: int | None
) -> tuple[str, str, str, int]:
    """Return the key by which the same incident is found in other runs."""
    return programs.get(program, str(program)), shown_name(function), kind, -1 if rank is None else rank


def known_findings(
    keys: Mapping[str, tuple[str, str, str, int]], earlier: Sequence[tuple[int, Details]]
) -> dict[str, KnownFinding]:
    """Return which findings of a run are known, by their ids.

    Parameters
    ----------
    earlier
        Earlier runs of the series, the oldest first, each with its begin in µs.
    """
    seen: dict[tuple[str, str, str, int], KnownFinding] = {}
    for started_us, details in earlier:
        for key in {one.key for one in details.incidents}:
            before = seen.get(key)
            seen[key] = (
                KnownFinding(1, started_us)
                if before is None
                else KnownFinding(before.runs + 1, before.since_us)
            )
    return {finding: seen[key] for finding, key in keys.items() if key in seen}
