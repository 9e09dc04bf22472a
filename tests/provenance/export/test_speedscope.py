"""Profiles for speedscope follow its schema, and count the time of windows."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from chimbuko.causes.incidents.sentence import sentence
from tests.places import ROOT
from tests.provenance.exported import ExportedRun, some_incidents

PACKAGE = ROOT / "viz" / "web" / "node_modules" / "speedscope"


@pytest.fixture
def content(exported_run: ExportedRun) -> dict[str, Any]:
    exported_run.export("speedscope")
    content = json.loads((exported_run.folder / "out").read_text())
    assert isinstance(content, dict)
    return content


def test_it_follows_the_schema_of_speedscope(content: dict[str, Any]) -> None:
    schema = PACKAGE / "dist" / "release" / "file-format-schema.json"
    if not schema.exists():
        pytest.skip("speedscope's package is not there: npm ci in viz/web")
    jsonschema.Draft7Validator(json.loads(schema.read_text())).validate(content)


def test_each_thread_has_a_profile(content: dict[str, Any]) -> None:
    evented = [profile["name"] for profile in content["profiles"] if profile["type"] == "evented"]
    assert evented == [
        "heat rank 1 (node7), thread 0",
        "heat rank 1 (node7), GPU device 1, context 2, stream 3 (thread 8)",
        "heat rank 2 (node7), thread 0",
        "coupler rank 0 (node7), thread 0",
    ]


def test_each_program_has_a_profile_by_call_path(content: dict[str, Any]) -> None:
    names = [frame["name"] for frame in content["shared"]["frames"]]
    whole, other, *_ = content["profiles"]
    assert (whole["type"], whole["name"]) == ("sampled", "heat, all ranks, by call path")
    assert [[names[frame] for frame in sample] for sample in whole["samples"]] == [
        ["main"],
        ["main", "compute"],
    ]
    assert whole["weights"] == [12 * 20.0, 60 * 2.0]
    assert whole["endValue"] == sum(whole["weights"])
    assert (other["name"], other["weights"]) == ("coupler, all ranks, by call path", [2.0])


def test_each_program_has_a_profile_of_its_incidents(content: dict[str, Any]) -> None:
    names = [frame["name"] for frame in content["shared"]["frames"]]
    heat, coupler = content["profiles"][6:]
    assert heat["name"] == "heat, incidents by core time lost"
    assert coupler["name"] == "coupler, incidents by core time lost"
    first, _ = some_incidents()
    delayed, waited = [sentence(first), "exchange on rank 2"], "MPI_Recv on rank 1"
    assert [[names[frame] for frame in sample] for sample in heat["samples"]] == [
        delayed,
        [*delayed, waited],
        [*delayed, waited, waited],
    ]
    assert heat["weights"] == [8_000.0, 7_000.0, 500.0]
    assert heat["endValue"] == first.cost_us


def test_calls_close_in_the_order_in_which_they_opened(content: dict[str, Any]) -> None:
    for profile in content["profiles"][2:6]:
        around = []
        last = profile["startValue"]
        for event in profile["events"]:
            assert last <= event["at"] <= profile["endValue"]
            last = event["at"]
            if event["type"] == "O":
                around.append(event["frame"])
            else:
                assert around.pop() == event["frame"]
        assert not around


def test_time_counts_where_windows_are(content: dict[str, Any], exported_run: ExportedRun) -> None:
    first, second, *_ = exported_run.records
    names = [frame["name"] for frame in content["shared"]["frames"]]
    profile = content["profiles"][2]
    spans = []
    open_us: list[int] = []
    for event in profile["events"]:
        if names[event["frame"]] == "main":
            if event["type"] == "O":
                open_us.append(event["at"])
            else:
                spans.append((open_us.pop(), event["at"]))
    # The launch of a kernel was recorded, too, before the first window. The windows of the two calls overlap.
    assert first.window[0].entry_us < second.window[0].entry_us < first.exit_us < second.entry_us
    start_us = 1_000_000
    assert spans == [
        (950_000 - start_us, 950_010 - start_us),
        (first.window[0].entry_us - start_us, second.exit_us - start_us),
    ]
