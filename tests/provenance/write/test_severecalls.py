"""Severe calls among those that come."""

from __future__ import annotations

from chimbuko.core.calls.schema import Label
from chimbuko.provenance.write.severecalls import severe_calls
from tests.sample_records import make_batch, make_record


def test_severe_are_abnormal_calls_from_the_severity_on() -> None:
    records = [
        make_record(row=1, severity_us=999.0),
        make_record(row=2, severity_us=1000.0),
        make_record(row=3, severity_us=9000.0, label=Label.NORMAL),
        make_record(row=4, severity_us=9000.0),
    ]
    found = severe_calls([make_batch(1, records=records)], 1000.0)
    assert [one.id for one in found.values()] == ["0:1:3:2", "0:1:3:4"]
    severe = found[0, 1, 3, 4]
    record = records[3]
    assert (severe.function, severe.node, severe.step) == (record.function, record.node, record.step)
    assert (severe.score, severe.entry_us, severe.is_open) == (record.score, record.entry_us, False)


def test_revisions_of_a_call_are_one_call() -> None:
    batches = [make_batch(n, records=[make_record(row=1, revision=n, severity_us=5000.0)]) for n in (1, 2)]
    assert len(severe_calls(batches, 1000.0)) == 1
