"""A trace for Chrome's viewer says what was recorded, and nests as its readers want."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from trace_lanefix import fix_overlaps

from chimbuko.causes.incidents.sentence import sentence
from tests.provenance.exported import (
    LATER_ID,
    LAUNCH_ID,
    LONG_NAME,
    ORIGIN_ID,
    WAITED_ID,
    ExportedRun,
    some_incidents,
)

Event = dict[str, Any]


@pytest.fixture
def path(exported_run: ExportedRun) -> Path:
    exported_run.export("chrome")
    return exported_run.folder / "out"


@pytest.fixture
def events(path: Path) -> list[Event]:
    found = json.loads(path.read_text())["traceEvents"]
    assert isinstance(found, list)
    return found


INCIDENTS = {"incident", "published", "recurring"}


def calls_of(events: list[Event]) -> list[Event]:
    return [event for event in of_kind(events, "X") if event["cat"] not in INCIDENTS]


def of_kind(events: list[Event], kind: str) -> list[Event]:
    return [event for event in events if event["ph"] == kind]


def threads(events: list[Event]) -> dict[tuple[int, int], tuple[str, str]]:
    """Numbers of process and thread to their names."""
    names: dict[str, dict[tuple[int, int], str]] = {"process_name": {}, "thread_name": {}}
    for event in of_kind(events, "M"):
        if event["name"] in names:
            names[event["name"]][event["pid"], event["tid"]] = event["args"]["name"]
    processes = {process: name for (process, _), name in names["process_name"].items()}
    return {(pid, tid): (processes[pid], name) for (pid, tid), name in names["thread_name"].items()}


def test_another_reader_finds_nothing_to_mend(
    path: Path, tmp_path: Path, exported_run: ExportedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    fix_overlaps(str(path), str(tmp_path / "mended"))
    said = capsys.readouterr().out
    assert "snapped 0" in said
    assert "0 new lanes" in said
    calls = calls_of(json.loads((tmp_path / "mended").read_text())["traceEvents"])
    assert len(calls) == len({event["args"]["id"] for event in calls})
    assert {event["args"]["id"] for event in calls} >= {record.id for record in exported_run.records}


def test_calls_stand_on_their_threads(events: list[Event], exported_run: ExportedRun) -> None:
    names = threads(events)
    calls = {event["args"]["id"]: event for event in calls_of(events)}
    for record in exported_run.records:
        own = calls[record.id]
        program = ("heat", "coupler")[record.program]
        thread = "GPU device 1, context 2, stream 3 (thread 8)" if record.is_gpu else "thread 0"
        assert names[own["pid"], own["tid"]] == (f"{program} rank {record.rank} (node7)", thread)
        assert (own["name"], own["ts"], own["dur"]) == (record.function, record.entry_us, record.inclusive_us)
        assert own["cat"] == record.label
        assert own["args"]["severity_us"] == record.severity_us
    assert calls["0:1:3:90"]["cat"] == "neighbour"


def test_anomalies_have_a_colour_and_a_thread_of_their_own(
    events: list[Event], exported_run: ExportedRun
) -> None:
    names = threads(events)
    marked = Counter(
        (names[event["pid"], event["tid"]], event["name"], event["ts"])
        for event in of_kind(events, "i")
        if event["cat"] == "anomaly"
    )
    programs = ("heat", "coupler")
    assert marked == Counter(
        (
            (f"{programs[record.program]} rank {record.rank} (node7)", "anomalies"),
            record.function,
            record.entry_us,
        )
        for record in exported_run.records
        if record.label == "anomaly"
    )
    colours = {event["cat"]: event["cname"] for event in calls_of(events)}
    assert len(set(colours.values())) == 3


def test_flows_lead_from_calls_to_calls(events: list[Event]) -> None:
    begins = {event["id"]: event for event in of_kind(events, "s")}
    ends = {event["id"]: event for event in of_kind(events, "f")}
    assert begins.keys() == ends.keys()
    assert sorted(event["name"] for event in begins.values()) == ["incident"] * 2 + ["launch", "message"]
    calls = calls_of(events)
    held_up = set()
    for begin in begins.values():
        end = ends[begin["id"]]
        assert begin["ts"] <= end["ts"]
        assert end["bp"] == "e"
        inner_of = [innermost(calls, each) for each in (begin, end)]
        if begin["name"] == "launch":
            assert [each["args"]["id"] for each in inner_of] == [LAUNCH_ID, "0:1:3:96"]
            assert inner_of[1]["name"] == LONG_NAME
        elif begin["name"] == "message":
            assert [each["args"]["id"] for each in inner_of] == ["0:2:3:92", "0:1:3:92"]
        else:
            held_up.add(tuple(each["args"]["id"] for each in inner_of))
    assert held_up == {(ORIGIN_ID, WAITED_ID), (WAITED_ID, LATER_ID)}


def test_incidents_and_what_recurs_stand_in_a_process_of_their_own(events: list[Event]) -> None:
    names = threads(events)
    found = {
        (names[event["pid"], event["tid"]], event["name"], event["ts"], event["dur"])
        for event in of_kind(events, "X")
        if event["cat"] in INCIDENTS
    }
    assert found == {
        (("heat incidents", "incidents"), f"I1 {some_incidents()[0].function}", 1_000_000, 9_000),
        (("heat incidents", "recurring"), "R1 slow mode main", 900_000, 1_100_000),
        (("coupler incidents", "incidents"), "I2 main", 1_000_005, 9_000),
        (("published quantities", "published"), "M1 global drift: mass", 1_000_000, 500_000),
        (("published quantities", "published 2"), "M2 departure: density/min", 1_200_000, 400_000),
    }
    (first,) = [event for event in of_kind(events, "X") if event["name"].startswith("I1 ")]
    assert first["args"]["sentence"] == sentence(some_incidents()[0])
    assert first["args"]["cost_us"] == 15_500.0


def innermost(calls: list[Event], point: Event) -> Event:
    around = [
        call
        for call in calls
        if (call["pid"], call["tid"]) == (point["pid"], point["tid"])
        and call["ts"] <= point["ts"] <= call["ts"] + call["dur"]
    ]
    return min(around, key=lambda call: float(call["dur"]))


def test_counters_have_their_values(events: list[Event]) -> None:
    values = {(event["name"], event["ts"]): event["args"]["value"] for event in of_kind(events, "C")}
    assert values["monitoring: load", 1_500_000] == 3
    assert values["MPI Recv bytes, thread 0", 1_000_060] == 8192
