"""Incidents over the API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.observe.namespaces.analyses.metricfinding import Finding, Problem
from chimbuko.provenance.compare.runprofile import read_profile
from chimbuko.provenance.explain.explaining import explain_run
from chimbuko.provenance.incidents.incidentlist import Incidents, set_mark
from chimbuko.provenance.incidents.marks import MarkState
from chimbuko.provenance.query.run import open_run
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.viz.http.app import create_app
from chimbuko.viz.live.feed import Feed
from tests.viz.api.conftest import TOKEN, Api
from tests.viz.made_run import MadeRun, make_run


@pytest.fixture
def made(tmp_path: Path) -> MadeRun:
    """A run of its own: what is found of it is stored."""
    return make_run(tmp_path / "heat")


@pytest.fixture
def api(made: MadeRun) -> Iterator[Api]:
    with open_run(made.directory) as provenance:
        feed = Feed(made.directory, provenance, None)
        app = create_app(provenance, made.directory.read_info(), feed, TOKEN, static=Path("no page"))
        yield Api(app.test_client())


def test_incidents_come_in_pages_and_one_by_one(made: MadeRun, api: Api) -> None:
    assert api.ask("incidents").json["total"] == 0
    explained = explain_run(made.directory)
    first = api.ask("incidents?limit=2&with_short=true").json
    assert first["total"] == explained.incidents > 2
    following = api.ask(f"incidents?limit=2&with_short=true&cursor={first['next']}").json
    costs = [one["cost_us"] for one in first["incidents"] + following["incidents"]]
    assert costs == sorted(costs, reverse=True)
    wanted = first["incidents"][0]
    one = api.ask(f"incidents/{wanted['id']}").json
    assert (one["summary"], one["is_gone"]) == (wanted, False)
    members = api.ask(f"calls?incident={wanted['id']}&limit=1000").json
    assert members["total"] == wanted["flags"]
    assert {call["incident_id"] for call in members["calls"]} == {wanted["id"]}


def test_time_lost_stands_with_its_origin(made: MadeRun, api: Api) -> None:
    explain_run(made.directory)
    listed = api.ask("incidents?with_short=true&limit=1").json
    for by in ("rank", "function"):
        found = api.ask(f"origins?by={by}&n=1000").json
        lost_us = sum(one["lost_us"] for one in found["origins"]) + found["unknown_us"]
        assert lost_us == pytest.approx(found["lost_us"]) == pytest.approx(listed["cost_us"])
        assert {one["rank"] is None for one in found["origins"]} == {by == "function"}
        assert len(found["origins"]) == found["total"] > 1
    assert api.ask("origins?by=node").status_code == 400


def test_what_is_not_there_is_missing(api: Api) -> None:
    assert api.ask("incidents/I999").status_code == 404
    assert api.ask("incidents/999").status_code in (400, 404)
    assert api.ask("recurrences/R999").status_code == 404
    assert api.ask("recurrences/3").status_code in (400, 404)


def test_findings_in_published_quantities_stand_with_the_incidents(made: MadeRun, api: Api) -> None:
    info = made.directory.read_info()
    engine = open_for_writing(info.store_url)
    try:
        found = Finding(Problem.DEPARTURE, "density/min", (14,), 100, 140, 3.5, 5_000, 7_000)
        Writer(engine, info.id).write_metric_findings([found])
    finally:
        close(engine)
    (listed,) = api.ask("incidents").json["metrics"]
    assert (
        listed["finding"] == msgspec.json.decode(msgspec.json.encode(found))
        and listed["sentence"] == found.sentence
    )
    assert api.ask(f"metric-findings/{listed['id']}").json["summary"] == listed
    assert api.ask("metric-findings/M999").status_code == 404
    assert api.ask("metric-findings/R1").status_code in (400, 404)


def test_a_finding_has_an_address_that_stays(made: MadeRun, api: Api) -> None:
    explain_run(made.directory)
    drift = Recurrence(
        *(0, RecurrenceKind.DRIFT, "step", 9, 5e6, 0.0, 1.0, ["step"], [1], 1, 2, []),
        typical_us=2.0,
        usual_us=1.0,
    )
    costly = msgspec.structs.replace(drift, function="solve", cost_us=9e6)
    engine = open_for_writing(made.directory.read_info().store_url)
    writer = Writer(engine, made.directory.read_info().id)
    try:
        writer.write_recurrences([drift])
        (first,) = api.ask("incidents?limit=1").json["recurrences"]
        writer.write_recurrences([costly, drift])
    finally:
        close(engine)
    second, again = api.ask("incidents").json["recurrences"]
    second, again = sorted((second, again), key=lambda one: one["recurrence"]["cost_us"], reverse=True)
    assert again["id"] == first["id"] != second["id"]
    assert api.ask(f"recurrences/{first['id']}").json["summary"] == first


def test_marks_stay_with_their_findings_and_only_the_own_page_may_write(made: MadeRun, api: Api) -> None:
    explain_run(made.directory)
    finding = api.ask("incidents?with_short=true&limit=1").json["incidents"][0]["id"]
    body = msgspec.json.encode({"finding": finding, "state": "known", "note": "ticket 812", "author": "ada"})

    def put(body: bytes, kind: str = "application/json", **headers: str) -> int:
        return api.ask("marks", "POST", body, Content_Type=kind, **headers).status_code

    assert put(body, "text/plain") == put(body, Sec_Fetch_Site="cross-site") == 403
    assert api.ask("marks").status_code == 405
    assert put(b"{}") == put(b"what") == 400
    assert put(b'{"finding": "I999", "state": "known"}') == 404
    assert api.ask(f"incidents/{finding}").json["summary"]["mark"] == ""
    assert put(body, Sec_Fetch_Site="same-origin") == 200
    explain_run(made.directory)
    listed = api.ask("incidents?with_short=true&limit=1").json["incidents"][0]
    assert [listed[name] for name in ("id", "mark", "note", "marked_by")] == [
        *(finding, "known", "ticket 812", "ada"),
    ]
    assert put(msgspec.json.encode({"finding": finding, "state": None})) == 200
    assert api.ask(f"incidents/{finding}").json["summary"]["mark"] == ""


def test_comparisons_leave_out_what_is_ignored(made: MadeRun) -> None:
    explain_run(made.directory)
    with open_run(made.directory) as provenance:
        found = Incidents(provenance.reader)
        costliest = found.page(limit=1, with_short=True).incidents[0]
        before = read_profile(provenance).incidents
        set_mark(found, made.directory, costliest.id, MarkState.NOTED)
        assert read_profile(provenance).incidents == before
        set_mark(found, made.directory, costliest.id, MarkState.IGNORED)
        after = read_profile(provenance).incidents
    assert after.number == before.number - 1
    assert after.cost_us == pytest.approx(before.cost_us - costliest.cost_us)
