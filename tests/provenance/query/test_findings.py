"""Calls of what recurs: each kind of finding has those that are slow in its way, whichever index is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest

from chimbuko.causes.incidents.tracker import Changes
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.query import planner
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import open_for_reading, open_for_writing
from chimbuko.provenance.write.writer import Writer
from tests.provenance.exported import some_incidents
from tests.sample_records import RUN_ID, make_batches, make_record, make_run

USUAL = Recurrence(0, RecurrenceKind.SLOW_MODE, "", 9, 0.0, 0.0, 0.0, ["other"], [2, 3], 1, 2, [], share=0.1)
FINDINGS = [
    msgspec.structs.replace(USUAL, function="step", shortest_us=400.0, usual_us=100.0, cost_us=4.0),
    msgspec.structs.replace(USUAL, kind=RecurrenceKind.DRIFT, function="relax", cost_us=3.0),
    msgspec.structs.replace(USUAL, kind=RecurrenceKind.SLOW_RANKS, node="node7", ranks=[2, 3], cost_us=2.0),
    msgspec.structs.replace(USUAL, kind=RecurrenceKind.INTERRUPTIONS, longest_us=1_000.0, cost_us=1.0),
]
"""R1 to R4."""


def some_calls() -> list[CallRecord]:
    places = [(function, us) for function in ("step", "relax", "other") for us in (100, 499, 500, 900)]
    calls = [
        make_record(
            4 * row,
            rank=rank,
            function=function,
            expected_us=90.0,
            severity_us=judged_us - 90.0,
            label=Label.NORMAL if (row + rank) % 3 == 0 else Label.ANOMALY,
            exit_us=0 if (row, rank) == (3, 0) else 1_009_000,
        )
        for row, (function, judged_us) in enumerate(places)
        for rank in range(4)
    ]
    return [*calls, make_record(0, program=1, rank=2, function="step", severity_us=5_000.0)]


CALLS = some_calls()
SHORT, LONG = CALLS[-2], CALLS[-3]
"""Two that are incidents of their own."""


@pytest.fixture(params=["few", "many"])
def stored(
    request: pytest.FixtureRequest, any_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Provenance]:
    if request.param == "many":
        monkeypatch.setattr(planner, "FEW", 3)
    engine = open_for_writing(any_store_url)
    writer = Writer(engine, RUN_ID)
    writer.write_run(make_run())
    writer.write(make_batches(CALLS))
    lone = msgspec.structs.replace(some_incidents()[0], waited=[], function="other")
    incidents = [
        msgspec.structs.replace(lone, number=number, call_id=call.id, cost_us=cost_us)
        for number, call, cost_us in ((1, SHORT, 999.0), (2, LONG, 1_000.0))
    ]
    writer.write_incidents(Changes(incidents, {}, [], {SHORT.id: 1, LONG.id: 2}))
    writer.write_recurrences(FINDINGS)
    with Provenance(open_for_reading(any_store_url)) as provenance:
        yield provenance
    engine.dispose()


def test_a_finding_has_its_calls(stored: Provenance) -> None:
    belongs: dict[str, Callable[[CallRecord], bool]] = {
        "R1": lambda call: (
            call.function == "step" and call.exit_us > 0 and call.expected_us + call.severity_us >= 500.0
        ),
        "R2": lambda call: call.function == "relax",
        "R3": lambda call: call.rank in (2, 3),
        "R4": lambda call: call.id == SHORT.id,
        "R9": lambda call: False,
        "I1": lambda call: False,
    }
    for finding, is_of in belongs.items():
        expected = {call.id for call in CALLS if call.program == 0 and is_of(call)}
        for label in (None, "anomaly", "normal"):
            wanted = CallFilter(finding=finding, label=label)  # type: ignore[arg-type] # One of three.
            of_label = {call.id for call in CALLS if call.id in expected and label in (None, call.label)}
            assert {call.id for call in stored.calls.page(wanted, limit=100).calls} == of_label, finding
            assert stored.calls.count(wanted) == len(of_label)
    found = {
        call.id for call in stored.calls.page(CallFilter(finding="R3", function="step"), limit=100).calls
    }
    assert found == {
        call.id
        for call in CALLS
        if (call.program, call.function, call.label) == (0, "step", "anomaly") and call.rank in (2, 3)
    }
