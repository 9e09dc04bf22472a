"""Timelines of what is stored, against the records."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest

from chimbuko.core.calls.record import CallRecord, call_id
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.timeline import storedspans
from tests.viz.api.conftest import Api
from tests.viz.made_run import LOST_STEPS, STEP_US, STEPS, ZERO_US, MadeRun

ABNORMAL, RECORDED, OPEN, MERGED = 1, 2, 4, 16
NO_MERGING = 20_000
"""Columns of a picture of a second, in which no call is shorter than one."""


def asked(api: Api, path: str) -> dict[str, Any]:
    """The answer to a question."""
    answer = api.ask(f"timeline?{path}")
    body: dict[str, Any] | None = answer.json
    assert answer.status_code == 200 and body is not None, body
    return body


def spans_of(body: dict[str, Any], rank: int) -> dict[str, dict[str, Any]]:
    """Single calls by id."""
    found = {}
    for row in body["rows"]:
        begins, numbers = accumulate(row["begins_us"]), accumulate(row["rows"])
        columns = zip(
            begins, row["runtimes_us"], row["functions"], row["steps"], numbers, row["flags"], strict=True
        )
        for begin, runtime, function, step, number, flags in columns:
            if not flags & MERGED:
                found[call_id(0, rank, step, number)] = {
                    "entry_us": begin,
                    "inclusive_us": runtime,
                    "function": body["functions"][function],
                    "flags": flags,
                    "depth": row["depth"],
                    "thread": row["thread"],
                }
    return found


def of_depth(spans: dict[str, dict[str, Any]], depth: int) -> list[dict[str, Any]]:
    """Those with so many calls around them."""
    return [span for span in spans.values() if span["depth"] == depth]


def overlapping(made: MadeRun, rank: int, first_us: int, last_us: int) -> list[CallRecord]:
    """Records of a rank in a range of time."""
    return [
        record
        for record in made.records
        if record.rank == rank and record.entry_us <= last_us and record.exit_us >= first_us
    ]


@pytest.mark.parametrize("step", [0, 10, 37])
def test_recorded_calls_and_those_around_them_are_there(api: Api, finished: MadeRun, step: int) -> None:
    first, last = ZERO_US + step * STEP_US, ZERO_US + (step + 1) * STEP_US
    body = asked(api, f"rank=0:1&from_us={first}&to_us={last}&columns={NO_MERGING}")
    spans = spans_of(body, 1)
    records = overlapping(finished, 1, first, last)
    assert records
    assert body["source"] == "store" and not body["is_recorded"]
    for record in records:
        span = spans[record.id]
        assert span["flags"] == RECORDED | (ABNORMAL if record.label is Label.ANOMALY else 0)
        assert span["entry_us"] == record.entry_us
        # The made calls of a thread overlap here and there, as real ones cannot: then one ends the other.
        is_cut = any(record.entry_us < other["entry_us"] < record.exit_us for other in of_depth(spans, 2))
        assert span["inclusive_us"] == record.inclusive_us or (is_cut and span["inclusive_us"] > 0)
        assert (span["function"], span["depth"], span["thread"]) == (record.function, 2, 0)
        for call in record.window:
            if call.entry_us <= last and call.exit_us >= first:
                assert spans[call.id]["function"] == call.function
    judged = {call_id(0, 1, call["step"], call["row"]): call for call in body["judged"]}
    assert judged.keys() == {record.id for record in records}
    for record in records:
        assert judged[record.id]["severity_us"] == record.severity_us
        assert judged[record.id]["expected_us"] == record.expected_us
        assert judged[record.id]["is_anomaly"] == (record.label is Label.ANOMALY)


def test_abnormal_calls_are_there_in_a_picture_of_all(api: Api, finished: MadeRun) -> None:
    body = asked(api, "rank=0:1&columns=100")
    assert body["column_us"] > 100_000
    spans = spans_of(body, 1)
    abnormal = {identity for identity, span in spans.items() if span["flags"] & ABNORMAL}
    assert abnormal == {record.id for record in finished.anomalies if record.rank == 1}
    assert body["extent_us"] == [ZERO_US, ZERO_US + STEPS * STEP_US]
    merged = [count for row in body["rows"] for count in row["counts"] if count > 1]
    assert merged


def test_outside_of_windows_nothing_is_known_and_missing_steps_are_lost(api: Api, finished: MadeRun) -> None:
    body = asked(api, "rank=0:2")
    (thread,) = body["threads"]
    records = [record for record in finished.records if record.rank == 2]
    for record in records:
        assert any(first <= record.entry_us and record.exit_us <= last for first, last in thread["known_us"])
    known = sum(last - first for first, last in thread["known_us"])
    assert known < 0.2 * STEPS * STEP_US
    lost = LOST_STEPS[2]
    assert body["lost_us"] == [[ZERO_US + lost[0] * STEP_US, ZERO_US + (lost[-1] + 1) * STEP_US]]


def test_messages_stand_where_the_records_have_them(api: Api, finished: MadeRun) -> None:
    first, last = ZERO_US, ZERO_US + 20 * STEP_US
    body = asked(api, f"rank=0:1&from_us={first}&to_us={last}")
    messages = sorted(
        (message.time_us, message.destination, message.tag, message.size_bytes)
        for record in finished.records
        if record.rank == 1
        for message in record.messages
        if first <= message.time_us <= last
    )
    links = body["links"]
    found = zip(links["times_us"], links["other_ranks"], links["tags"], links["sizes_bytes"], strict=True)
    assert sorted(found) == messages
    assert set(links["kinds"]) == {0} and set(links["other_us"]) == {-1} and set(links["depths"]) == {3}


def test_of_very_many_the_windows_of_less_severe_calls_are_left_out(
    api: Api, finished: MadeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storedspans, "MOST_WINDOWS", 5)
    body = asked(api, "rank=0:1&columns=20000")
    recorded = [record for record in finished.records if record.rank == 1]
    assert body["left_out"] == len(recorded) - 5
    spans = spans_of(body, 1)
    assert {record.id for record in recorded if record.label is Label.ANOMALY} <= spans.keys()


def test_a_rank_that_is_not_there_is_said_to_be_missing(api: Api) -> None:
    answer = api.ask("timeline?rank=0:99")
    assert answer.status_code == 404
    assert answer.json is not None and "rank 0:99" in answer.json["error"]


@pytest.mark.parametrize(
    "query", ["", "rank=3", "rank=0:1&from_us=20&to_us=10", "rank=0:1&columns=0", "rank=0:1&with=x"]
)
def test_questions_that_make_no_sense_are_refused(api: Api, query: str) -> None:
    assert api.ask(f"timeline?{query}").status_code == 400
