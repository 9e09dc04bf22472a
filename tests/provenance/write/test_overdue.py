"""Reports of calls that have not ended, in the store."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from chimbuko.core.calls.record import CallRecord
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RecordBatch

Record = Callable[..., CallRecord]
Batch = Callable[..., RecordBatch]
EXPECTED_US = 1_000.0


@pytest.fixture
def store_url(any_store_url: str) -> str:
    return any_store_url


def test_latest_report_of_an_open_call_stays_until_its_end_is_recorded(
    writer: Writer, provenance: Provenance, record: Record, batch: Batch
) -> None:
    reports = [
        record(exit_us=0, revision=0, is_final=False, severity_us=seconds * 1e6, expected_us=EXPECTED_US)
        for seconds in (5, 10, 20)
    ]
    ended = record(revision=1, severity_us=100.0, label=Label.NORMAL)
    for order in itertools.permutations(reports):
        writer.write([batch(stream="agent-0", records=[report]) for report in order])
        shown = provenance.calls.record("0:1:3:0")
        assert (shown.exit_us, shown.severity_us, shown.inclusive_us) == (0, 20e6, 20e6 + EXPECTED_US)
        assert [call.id for call in provenance.calls.page(CallFilter(is_open=True)).calls] == ["0:1:3:0"]
    writer.write([batch(records=[ended])])
    writer.write([batch(stream="agent-0", records=reports)])
    assert provenance.calls.record("0:1:3:0") == ended
    assert provenance.calls.count(CallFilter(is_open=True)) == 0


def test_batch_of_an_agent_says_nothing_of_the_totals_of_a_stream(
    writer: Writer, provenance: Provenance, record: Record, batch: Batch
) -> None:
    writer.write([batch(sequence=7, records=[record()])])
    (before,) = provenance.health()
    assert before.steps == 7
    writer.write([batch(sequence=1, stream="agent-0", records=[record(row=5, exit_us=0)])])
    assert provenance.health() == [before]
