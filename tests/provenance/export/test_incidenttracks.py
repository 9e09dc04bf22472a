"""Incidents that overlap stand on several tracks, and arrows lead to calls that waited, forward in time."""

from __future__ import annotations

import msgspec
import pytest

from chimbuko.provenance.export.incidenttracks import Arrow, Span, arrows, tracks
from tests.provenance.exported import LATER_ID, ORIGIN_ID, WAITED_ID, some_incidents

INCIDENT = some_incidents()[0]
LONG = {ORIGIN_ID: (100, 200), WAITED_ID: (50, 210), LATER_ID: (300, 400)}


def ends(intervals: dict[str, tuple[int, int]]) -> list[tuple[str, int, str, int]]:
    return [(one.from_call, one.from_us, one.to_call, one.to_us) for one in arrows(INCIDENT, intervals)]


def test_spans_that_overlap_have_tracks_of_their_own() -> None:
    times = {"a": (0, 10), "b": (5, 20), "c": (10, 12), "d": (12, 30), "e": (6, 7)}
    spans = [Span(0, "incident", name, *ends_us, {}) for name, ends_us in times.items()]
    spans += [Span(0, "recurring", "r", 0, 30, {}), Span(1, "incident", "p", 0, 10, {})]
    found = [(one.program, one.name, [span.name for span in one.spans]) for one in tracks(spans)]
    assert found == [
        (0, "incidents", ["a", "c", "d"]),
        (0, "incidents 2", ["b"]),
        (0, "incidents 3", ["e"]),
        (0, "recurring", ["r"]),
        (1, "incidents", ["p"]),
    ]


def test_an_arrow_leads_from_what_was_waited_for() -> None:
    assert ends(LONG) == [(ORIGIN_ID, 199, WAITED_ID, 209), (WAITED_ID, 209, LATER_ID, 399)]


def test_where_that_is_not_shown_it_leads_from_the_origin() -> None:
    assert ends({ORIGIN_ID: (100, 200), LATER_ID: (300, 400)}) == [(ORIGIN_ID, 199, LATER_ID, 399)]
    assert ends({LATER_ID: (300, 400)}) == []


def test_no_arrow_leads_back_in_time() -> None:
    assert ends(LONG | {WAITED_ID: (20, 90)}) == [(WAITED_ID, 89, LATER_ID, 399)]
    (short,) = ends({ORIGIN_ID: (100, 200), WAITED_ID: (50, 150)})
    assert short == (ORIGIN_ID, 149, WAITED_ID, 149)


@pytest.mark.parametrize("changes", [{"kind": "in child"}, {"for_call_id": ""}])
def test_calls_that_waited_for_nobody_have_none(changes: dict[str, object]) -> None:
    waited = [msgspec.structs.replace(INCIDENT.waited[0], **changes)]
    found: list[Arrow] = list(arrows(msgspec.structs.replace(INCIDENT, waited=waited), LONG))
    assert found == []
