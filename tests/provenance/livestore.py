"""Incidents of a store that is being written, with a clock that tests move and questions that nobody gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from chimbuko.causes.recurrence import Recurrence
from chimbuko.monitor.sampling.nodebatch import NodeBatch, packed
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.events import (
    CallsStored,
    IncidentsStored,
    RecurrencesStored,
    SamplesStored,
    StoreEvent,
    Tick,
)
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
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RecordBatch, WaitsRequest


class Clock:
    """Stands still until it is moved, but for ``step_s`` at each look."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.step_s = 0.0

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


class LiveStore:
    """The loop around ``LiveIncidents``."""

    def __init__(
        self,
        writer: Writer,
        clock: Callable[[], float],
        provenance: Provenance | None = None,
        recurring: Callable[[], Sequence[Recurrence]] = tuple,
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._recurring = recurring
        self.core = LiveIncidents(
            clock(), Past() if provenance is None else Past.read(provenance, HORIZON_US)
        )
        self.asked: list[WaitsRequest] = []
        self.told: list[StoreEvent] = []

    def take(self, batches: Sequence[RecordBatch]) -> None:
        """Batches are stored."""
        self._handle(CallsStored(self._clock(), batches))

    def take_samples(self, batches: Iterable[NodeBatch]) -> None:
        """Samples are stored."""
        self._handle(SamplesStored(self._clock(), [packed(one) for one in batches]))

    def keep_up(self, is_urgent: bool = False) -> None:
        """Some time has passed."""
        self._handle(Tick(self._clock(), is_urgent))

    def quiet_s(self, most_s: float) -> float:
        """How long nothing has to be done."""
        return self.core.quiet_s(self._clock(), most_s)

    def _handle(self, event: LiveEvent) -> None:
        instructions = self.core.handle(event)
        self.core.validate_state()
        for instruction in instructions:
            answer = self._answer(instruction)
            if answer is not None:
                self._handle(answer)

    def _answer(self, instruction: LiveInstruction) -> LiveEvent | None:
        match instruction:
            case StoreChanges(changes):
                self._writer.write_incidents(changes)
                stored = IncidentsStored(self._clock(), changes.incidents)
                self.told.append(stored)
                return stored
            case ReadRecurring():
                return RecurringRead(self._clock(), self._recurring())
            case StoreRecurrences(found):
                recurrences = RecurrencesStored(self._clock(), self._writer.write_recurrences(found))
                self.told.append(recurrences)
                return recurrences
            case Ask(requests):
                self.asked += requests
        return None
