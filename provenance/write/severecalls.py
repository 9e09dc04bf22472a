"""Severe calls among those that come, and which of them the store does not have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import msgspec
import numpy as np
from sqlalchemy import Engine, select

from chimbuko.core.calls.record import call_id
from chimbuko.provenance.store.encode import CALL_KEY
from chimbuko.provenance.store.engine import store_errors
from chimbuko.provenance.store.statements import rows_of
from chimbuko.provenance.store.tables import CALLS, RUNS
from chimbuko.runtime.protocol.messages import RecordBatch

CallKey = tuple[int, int, int, int]
"""Program, rank, and step and row of the ENTRY."""


class SevereCall(msgspec.Struct, frozen=True):
    """A call that is severe enough; times as in ``CallRecord``."""

    key: CallKey
    function: str
    thread: int
    node: str
    step: int
    entry_us: int
    is_open: bool
    """Whether the call had not ended yet."""
    severity_us: float
    score: float

    @property
    def id(self) -> str:
        """Id of the call."""
        return call_id(*self.key)


def severe_calls(batches: Iterable[RecordBatch], least_us: float) -> dict[CallKey, SevereCall]:
    """Return abnormal calls with at least this severity; of several revisions of one the last."""
    found: dict[CallKey, SevereCall] = {}
    for batch in batches:
        heads, health = batch.records.head_rows(), batch.health
        for at in np.flatnonzero((heads.is_anomaly != 0) & (heads.severity_us >= least_us)).tolist():
            head = heads[at]
            key = health.program, health.rank, int(head.begin_step), int(head.begin_row)
            found[key] = SevereCall(
                key=key,
                function=batch.records.functions[int(head.function)],
                thread=int(head.thread),
                node=health.node,
                step=int(head.step),
                entry_us=int(head.entry_us),
                is_open=not head.exit_us,
                severity_us=float(head.severity_us),
                score=float(head.score),
            )
    return found


def new_severe_calls(
    engine: Engine, run_id: str, batches: Iterable[RecordBatch], least_us: float
) -> list[SevereCall]:
    """Return the severe calls of batches that the store does not have, or does not have as severe.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    found = severe_calls(batches, least_us)
    if not found:
        return []
    run = select(RUNS.c.number).where(RUNS.c.id == run_id)
    key = CALL_KEY[1:]
    with store_errors(engine), engine.connect() as connection:
        number = connection.execute(run).scalar_one()
        rows = rows_of(connection, CALLS, (*key, "is_anomaly", "severity_us"), number, key, list(found))
        stored = {
            cast(CallKey, tuple(place))
            for *place, is_anomaly, severity_us in rows
            if is_anomaly and severity_us >= least_us
        }
    return [call for place, call in found.items() if place not in stored]
