"""``chimbuko incidents``, and what ``show`` and ``query`` know of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chimbuko.cli import main
from chimbuko.core.config import AnalysisConfig
from chimbuko.launcher.outcome.summary import summarize, summary_lines
from chimbuko.observe.namespaces.analyses.metricfinding import Finding, Problem
from chimbuko.provenance.explain.explaining import explain_run
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RunStatistics
from chimbuko.runtime.runs.directory import RunDirectory, new_run
from tests.causes.stories import ORIGIN, chain, interruptions
from tests.sample_records import make_batches


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run with a chain of waits and many short delays, not explained yet."""
    run = new_run(tmp_path / "heat", ["./heat"], AnalysisConfig(), None)
    info = run.read_info()
    engine = open_for_writing(info.store_url)
    writer = Writer(engine, info.id)
    writer.write_run(info)
    writer.write_statistics(RunStatistics({0: "heat4"}))
    writer.write(make_batches([*chain(), *interruptions()]))
    engine.dispose()
    return run


def chimbuko(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result


def test_incidents_are_listed_with_what_recurs(run: RunDirectory) -> None:
    assert "0 of 0 incidents" in chimbuko("incidents", run.path).stderr
    listed = chimbuko("incidents", run.path, "--again")
    assert "1 of 1 incident; 1 recurring finding" in listed.stderr
    lines = listed.stdout.splitlines()
    assert lines[1].startswith("I1 ") and lines[2].startswith("R1 ")
    answer = json.loads(chimbuko("incidents", run.path, "--json").stdout)
    assert answer["incidents"][0]["call_id"] == ORIGIN
    assert answer["recurrences"][0]["recurrence"]["calls"] == 40
    assert json.loads(chimbuko("incidents", run.path, "--all", "--json").stdout)["total"] == 41


def test_what_is_wrong_in_published_quantities_is_listed_and_shown(run: RunDirectory) -> None:
    drift = Finding(Problem.GLOBAL_DRIFT, "mass", (), 100, 140, -0.02, 5_000_000, 7_000_000)
    info = run.read_info()
    engine = open_for_writing(info.store_url)
    (stored,) = Writer(engine, info.id).write_metric_findings([drift, drift])
    assert (stored.id, stored.finding) == ("M1", drift)
    engine.dispose()
    listed = chimbuko("incidents", run.path)
    assert "0 of 0 incidents; 0 recurring findings, 1 in what programs publish" in listed.stderr
    assert listed.stdout.splitlines()[1].startswith("M1 ")
    assert drift.sentence in listed.stdout
    shown = chimbuko("show", run.path, "M1").stdout
    assert drift.sentence in shown and "all, alike" in shown
    answer = json.loads(chimbuko("show", run.path, "M1", "--json").stdout)
    assert answer == json.loads(chimbuko("incidents", run.path, "--json").stdout)["metrics"][0]
    assert answer["finding"]["found_us"] == 7_000_000
    lines = summary_lines(summarize(run, []))
    assert f"  M1     {drift.sentence}" in lines
    missing = CliRunner().invoke(main, ["show", str(run.path), "M2"])
    assert missing.exit_code == 2 and "finding 'M2': not in this run" in missing.output


def test_show_tells_of_an_incident_and_a_call_leads_to_it(run: RunDirectory) -> None:
    explain_run(run)
    shown = chimbuko("show", run.path, "I1").stdout
    assert "▲ compute on rank 3 took 100 ms, 100× its usual 1 ms" in shown
    assert ORIGIN in shown and "late sender" in shown
    assert json.loads(chimbuko("show", run.path, "I1", "--json").stdout)["summary"]["id"] == "I1"
    assert "Part of incident I1" in chimbuko("show", run.path, ORIGIN).stdout
    assert "4 of 4 calls" in chimbuko("query", run.path, "--incident", "I1").stderr
    assert "40 of 40 calls" in chimbuko("query", run.path, "--finding", "R1", "--limit", "40").stderr
    recurs = chimbuko("show", run.path, "R1").stdout
    assert "40 short delays of up to 8.19 ms" in recurs and "Examples" in recurs
    assert json.loads(chimbuko("show", run.path, "R1", "--json").stdout)["id"] == "R1"
    assert CliRunner().invoke(main, ["show", str(run.path), "R9"]).exit_code != 0
    missing = CliRunner().invoke(main, ["show", str(run.path), "I99"])
    assert missing.exit_code != 0 and "'chimbuko incidents' lists" in missing.stderr


def test_the_summary_begins_with_the_worst(run: RunDirectory) -> None:
    explain_run(run)
    lines = summary_lines(summarize(run, []))
    assert lines[1] == "Worst of 2 findings, by time lost on all ranks together:"
    assert "compute on rank 3 took 100 ms" in lines[2]


def test_a_mark_stands_behind_the_sentence_until_it_is_removed(run: RunDirectory) -> None:
    chimbuko("incidents", run.path, "--again")
    marked = chimbuko("incidents", run.path, "--mark", "R1", "ignored", "--note", "the tick of the node")
    lines = marked.stdout.splitlines()
    assert "[ignored by " in lines[2] and lines[2].endswith(": the tick of the node]")
    assert "[" not in chimbuko("incidents", run.path, "--mark", "R1", "none").stdout
    wrong = CliRunner().invoke(main, ["incidents", str(run.path), "--mark", "I77", "known"])
    assert wrong.exit_code != 0
