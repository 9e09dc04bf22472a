"""A run whose steps happen when a test says so."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from chimbuko.core.calls.record import SILENT, Silence
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import PAYLOAD
from chimbuko.runtime.protocol.runbroker import RunBroker
from tests.viz.made_run import MadeRun, store


class LiveRun:
    """A made run that goes on from step ``first``, over a real broker."""

    def __init__(self, made: MadeRun, broker_url: str, first: int) -> None:
        self.made = made
        self.broker_url = broker_url
        self._broker = RunBroker.connect(broker_url, made.directory.read_info().id)
        self.next = first
        """The step that comes next."""
        self._engine = open_for_writing(made.directory.read_info().store_url)
        self._writer = Writer(self._engine, made.directory.read_info().id)

    def advance(self, steps: int, stored: bool = True, silent: Mapping[int, Silence] | None = None) -> None:
        """All ranks analyse some more steps; their findings reach the store, or do not yet.

        Ranks in ``silent`` say after each step that they are silent.
        """
        for step in range(self.next, self.next + steps):
            if stored:
                store(self._writer, self.made, step, step + 1)
            frame = self.made.frame(step, step)
            health = [
                msgspec.structs.replace(row, silence=silent[row.rank], state=SILENT)
                if silent and row.rank in silent
                else row
                for row in frame.health
            ]
            encoded = self.made.seal.encode(msgspec.structs.replace(frame, health=health))
            self._broker.client.xadd(self._broker.keys.frames, {PAYLOAD: encoded})
        self.next += steps

    def anomalies(self, *ranks: int) -> int:
        """Anomalies so far, of some ranks or of all."""
        return sum(
            step.anomalies
            for step in self.made.steps
            if step.step < self.next and (not ranks or step.rank in ranks)
        )

    def close(self) -> None:
        """Let go of broker and store."""
        self._broker.client.close()
        self._engine.dispose()
