"""Alerts about deadlocks, each once. Calls of ranks that spin in MPI need not be severe."""

from __future__ import annotations

import time
from collections.abc import Iterator

from chimbuko.provenance.alerts.alert import Alert, AlertedRun, AlertKind
from chimbuko.provenance.alerts.events import Event, HealthStored, Tick
from chimbuko.provenance.incidents.standstill import standstills
from chimbuko.provenance.query.run import Provenance

LOOK_S = 5.0
"""Time between two looks whether silent ranks wait for each other; a look reads what all ranks are in."""


class DeadlockAlert(Alert, frozen=True, kw_only=True, tag="deadlock"):
    """Alert about a program all ranks of which wait for each other."""

    program: int
    ranks: int
    """Number of its ranks."""
    advice: str
    """What to look for."""


class DeadlockAlerts(AlertKind):
    """Alerts about deadlocks that were not there at the last look."""

    def __init__(self, run: AlertedRun) -> None:
        super().__init__(run)
        self._silent: set[tuple[int, int]] = set()
        self._known: set[int] = set()
        self._looked_s = -LOOK_S

    def alerts(self, event: Event) -> Iterator[Alert]:
        """Yield an alert of each program all ranks of which wait for each other, as the store has them."""
        match event:
            case HealthStored(health):
                for one in health:
                    act = self._silent.discard if one.silence is None else self._silent.add
                    act((one.program, one.rank))
            case Tick(engine):
                # Without a rank that is silent there is no deadlock, and nothing to look for.
                now_s = time.monotonic()
                if self._silent and now_s - self._looked_s >= LOOK_S:
                    self._looked_s = now_s
                    yield from self._new(Provenance(engine, self.run.id))

    def _new(self, provenance: Provenance) -> Iterator[Alert]:
        locked = {one.program: one for one in standstills(provenance) if one.finding is not None}
        page = self.run.page("health") if locked.keys() - self._known else ""
        before, self._known = self._known, set(locked)
        for program in sorted(locked.keys() - before):
            found = locked[program].finding
            assert found is not None
            yield DeadlockAlert(
                run=self.run.id,
                sentence=found.text,
                dashboard=page,
                program=program,
                ranks=len(locked[program].stacks),
                advice=found.advice,
            )
