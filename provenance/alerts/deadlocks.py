"""Which deadlocks are worth an alert: each once. Calls of ranks that spin in MPI need not be severe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from chimbuko.core.calls.record import StreamHealth
from chimbuko.provenance.incidents.standstill import Standstill


class DeadlockAlert(msgspec.Struct, frozen=True, tag_field="kind", tag="deadlock"):
    """What is sent of a program all ranks of which wait for each other."""

    run: str
    """Its id."""
    program: int
    ranks: int
    """How many."""
    sentence: str
    """Which rank is in what."""
    advice: str
    """What to look for."""
    dashboard: str
    """Address of the page about the analysis, without the token; empty where there is no dashboard."""


class DeadlockGate:
    """Notices deadlocks that were not there at the last look."""

    def __init__(self) -> None:
        self._silent: set[tuple[int, int]] = set()
        self._known: set[int] = set()

    def note(self, health: Iterable[StreamHealth]) -> None:
        """What agents say of their ranks."""
        for one in health:
            act = self._silent.discard if one.silence is None else self._silent.add
            act((one.program, one.rank))

    @property
    def may_have_some(self) -> bool:
        """Whether a rank is silent: without one there is no deadlock, and nothing to look for."""
        return bool(self._silent)

    def new(self, found: Iterable[Standstill]) -> Iterator[Standstill]:
        """Deadlocks of programs that had none."""
        locked = {one.program: one for one in found if one.finding is not None}
        before, self._known = self._known, set(locked)
        for program in sorted(locked.keys() - before):
            yield locked[program]
