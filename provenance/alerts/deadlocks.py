"""Alerts about deadlocks, each once. Calls of ranks that spin in MPI need not be severe."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from chimbuko.provenance.alerts.alertkind import AlertKind
from chimbuko.provenance.alerts.events import (
    Alert,
    Event,
    Instruction,
    LookForStandstills,
    Send,
    StandstillsSeen,
)
from chimbuko.provenance.write.events import HealthStored, Tick

LOOK_S = 5.0
"""Time between two looks whether silent ranks wait for each other; a look reads what all ranks are in."""


class DeadlockAlert(Alert, frozen=True, kw_only=True, tag="deadlock"):
    """Alert about a program all ranks of which wait for each other."""

    program: int
    ranks: int
    """Number of its ranks."""
    advice: str
    """Advice on what to look for."""


class DeadlockAlerts(AlertKind):
    """Alerts about deadlocks that were not there at the last look.

    ::

        FREE ──StandstillsSeen, locked ─▶ Send──▶ LOCKED ──StandstillsSeen, not locked──▶ FREE
    """

    def __init__(self, run: str, least_us: float) -> None:
        super().__init__(run, least_us)
        self._silent: set[tuple[int, int]] = set()
        """Program and number of ranks that are silent. Without one there is no deadlock to look for."""
        self._locked: frozenset[int] = frozenset()
        """Programs that are in a deadlock."""
        self._looked_s = -inf

    def handle(self, event: Event) -> Iterator[Instruction]:
        """Yield an alert of each program all ranks of which wait for each other."""
        match event:
            case HealthStored(_, health):
                for one in health:
                    act = self._silent.discard if one.silence is None else self._silent.add
                    act((one.program, one.rank))
            case Tick(now_s) if self._silent and now_s - self._looked_s >= LOOK_S:
                self._looked_s = now_s
                yield LookForStandstills()
            case StandstillsSeen():
                yield from self._new(event)

    def _new(self, event: StandstillsSeen) -> Iterator[Send]:
        locked = [(one, one.finding) for one in event.found if one.finding is not None]
        before, self._locked = self._locked, frozenset(one.program for one, _ in locked)
        for one, found in sorted(locked, key=lambda each: each[0].program):
            if one.program not in before:
                alert = DeadlockAlert(
                    run=self.run,
                    sentence=found.text,
                    program=one.program,
                    ranks=len(one.stacks),
                    advice=found.advice,
                )
                yield Send(alert, "health")
