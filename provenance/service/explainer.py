"""Explains calls while a run goes on: the loop around ``LiveIncidents``, with the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import chain

import msgspec

from chimbuko.core.errors import StoreError
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.incidents.recurring import recurring
from chimbuko.provenance.incidents.slowmodes import ModeCauses
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.service.runstore import RunStore
from chimbuko.provenance.store.engine import StoreRefused
from chimbuko.provenance.write.events import (
    ExplainedCall,
    IncidentsStored,
    RanksAsked,
    RecurrencesStored,
    Resumed,
    StoreEvent,
)
from chimbuko.provenance.write.inquiries import asked_by
from chimbuko.provenance.write.kept import Kept
from chimbuko.provenance.write.liveincidents import (
    HORIZON_US,
    Ask,
    LiveEvent,
    LiveIncidents,
    LiveInstruction,
    Past,
    ReadRecurring,
    RecurringRead,
    StoreChanges,
    StoreRecurrences,
)
from chimbuko.provenance.write.severecalls import SevereCall
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.protocol.messages import RunStatistics, WaitsRequest
from chimbuko.runtime.protocol.telemetry import SlowRank


class _Explanation(msgspec.Struct, frozen=True):
    """Explanation of the calls of one store."""

    live: LiveIncidents
    provenance: Provenance
    causes: ModeCauses


class Explainer:
    """Explanation of calls as they are stored. What goes wrong there must not keep records from the store.

    Parameters
    ----------
    tell
        Takes events of the store.
    ask
        Takes questions about delays to whoever has the rows of the ranks.
    clock
        Clock of all events, in seconds.
    kept
        Takes incidents that are stored at the end of the run only, as is what recurs; None where all of it is
        stored as it is found.
    """

    def __init__(
        self,
        store: RunStore,
        tell: Callable[[StoreEvent], None],
        ask: Callable[[Sequence[WaitsRequest]], None],
        clock: Callable[[], float] = time.monotonic,
        kept: Kept | None = None,
    ) -> None:
        self._clock = clock
        self._kept = kept
        self._ask = ask
        self._store = store
        self._tell = tell
        self._begun: _Explanation | None = None
        self._has_failed = False
        self._slow_ranks: dict[int, Sequence[SlowRank]] = {}
        """Slow ranks by part of the parameter server."""

    def take(self, event: LiveEvent) -> None:
        """Take an event, and do what follows from it.

        Raises
        ------
        redis.RedisError
            The broker is away.
        StoreError
            The store cannot be used.
        """
        if self._has_failed:
            return
        try:
            self._begun = begun = self._begun or self._begin()
            self._do(begun, begun.live.handle(event))
        except Exception as error:
            # Loaded only now: a recorded trace is explained without a broker, and need not wait for 0.09 s.
            from redis import RedisError

            may_pass = isinstance(error, (StoreError, RedisError))
            if may_pass and not isinstance(error, StoreRefused):
                raise
            self._has_failed, self._begun = True, None
            log(f"incidents are found at the end of the run only: {type(error).__name__}: {error}")

    def take_statistics(self, statistics: RunStatistics) -> None:
        """Take what the server says of slow ranks."""
        self._slow_ranks[statistics.part] = statistics.slow_ranks

    def begin_anew(self) -> None:
        """Forget what is known of the store, as another one takes its place."""
        self._begun = None

    def quiet_s(self, most_s: float) -> float:
        """Return how long nothing has to be done, at most ``most_s``."""
        return most_s if self._begun is None else self._begun.live.quiet_s(self._clock(), most_s)

    def explained(self, calls: Sequence[SevereCall]) -> list[ExplainedCall]:
        """Return severe calls with what is known of their incidents."""
        begun = self._begun
        if begun is None:
            return [ExplainedCall(call, "", "") for call in calls]
        return [ExplainedCall(call, *begun.live.explanation(call.id)) for call in calls]

    def _begin(self) -> _Explanation:
        provenance = self._store.provenance()
        stored = Incidents(provenance.reader)
        self._tell(Resumed(self._clock(), stored.of_nodes(), stored.recurrences()))
        live = LiveIncidents(self._clock(), Past.read(provenance, HORIZON_US), self._kept is None)
        return _Explanation(live, provenance, ModeCauses(provenance))

    def _do(self, begun: _Explanation, instructions: Sequence[LiveInstruction]) -> None:
        for instruction in instructions:
            answer = self._answer(begun, instruction)
            if answer is not None:
                self._do(begun, begun.live.handle(answer))

    def _answer(self, begun: _Explanation, instruction: LiveInstruction) -> LiveEvent | None:
        """Do what is to be done, and return what came of it."""
        match instruction:
            case StoreChanges(changes):
                for failed in changes.failed:
                    log(f"a call could not be explained: {failed}")
                to_store = changes if self._kept is None else self._kept.hold(changes)
                if to_store is not None:
                    self._store.writer.write_incidents(to_store)
                incidents = IncidentsStored(self._clock(), changes.incidents)
                self._tell(incidents)
                return incidents
            case ReadRecurring():
                slow_ranks = list(chain.from_iterable(self._slow_ranks.values()))
                told = recurring(begun.provenance, slow_ranks, begun.causes)
                # Now, and not before it was read: how often that is done depends on what it takes.
                return RecurringRead(self._clock(), told)
            case StoreRecurrences(found):
                stored = self._store.writer.write_recurrences(found)
                recurrences = RecurrencesStored(self._clock(), stored)
                self._tell(recurrences)
                return recurrences
            case Ask(requests):
                self._ask(requests)
                return RanksAsked(self._clock(), asked_by(requests))
        return None
