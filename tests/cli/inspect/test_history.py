"""The history of a series, and its index, from the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from chimbuko.cli import main
from chimbuko.cli.inspect.history import spark_line
from chimbuko.provenance.explain.explaining import explain_run
from chimbuko.provenance.history.entry import Details, Entry, IncidentKind
from chimbuko.provenance.history.index import Access, open_index
from chimbuko.provenance.history.known import finding_keys
from chimbuko.provenance.history.remembering import carry_marks, known_in_series, remember
from chimbuko.provenance.incidents.marks import Mark, MarkState, marks_of, write_mark
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RUNS_FOLDER, RunDirectory
from chimbuko.viz.api.endpoint import ServedRun
from chimbuko.viz.api.endpoints.incidents import (
    IncidentParameters,
    RecurrenceParameters,
    incident,
    recurrence,
)
from chimbuko.viz.live.feed import Feed
from tests.provenance.history.made import year
from tests.provenance.whole_runs import make_whole_run


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CHIMBUKO_HISTORY", raising=False)


def ask(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def write(entries: list[Entry]) -> None:
    RUNS_FOLDER.mkdir()
    with open_index(str(RUNS_FOLDER / "history.sqlite"), Access.MAKE) as index:
        index._connection.execute("PRAGMA synchronous=OFF")
        for one in entries:
            index.write(one)


def test_a_history_says_what_changed_and_fails_where_that_is_new() -> None:
    write(year(35))
    found = ask("history", "--limit", "5", "--fail-on-change")
    assert found.exit_code == 6
    assert "heat2d: 35 runs; 4 ranks, heat2d input.nc" in found.stdout
    assert "▲ Since run-30 (2026-01-31): wall time +2" in found.stdout
    assert len([line for line in found.stdout.splitlines() if line.startswith("run-")]) == 5
    assert "chimbuko: --fail-on-change: Since run-30" in found.stderr
    assert json.loads(ask("history", "run-3", "--json").stdout)["changes"][0]["run"] == "run-30"
    assert ask("history", "heat2d", "--last", "20", "--fail-on-change").exit_code == 6


def test_an_old_change_is_no_news() -> None:
    write(year(60))
    assert ask("history", "--fail-on-change").exit_code == 0


def test_what_is_not_there_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no index of runs yet" in ask("history").stderr
    write(year(3))
    assert "series 'none': there is none; there are heat2d" in ask("history", "none").stderr
    monkeypatch.setenv("CHIMBUKO_HISTORY", "none")
    assert "no index of runs is kept" in ask("history").stderr


def test_series_are_listed_and_corrected() -> None:
    write(year(3))
    assert ask("runs", "series", "rename", "heat2d", "heat").exit_code == 0
    assert ask("runs", "series", "move", "run-1", "other").exit_code == 0
    assert ask("runs", "series", "leave-out", "run-2").exit_code == 0
    listed = json.loads(ask("runs", "series", "--json").stdout)["series"]
    assert [(one["name"], one["runs"]) for one in listed] == [("heat", 2), ("other", 1)]
    assert "left out" in ask("history", "heat").stdout
    assert "heat" in ask("runs", "series").stdout
    assert "1 entry removed" in ask("runs", "series", "forget", "--keep", "1").stderr
    assert ask("runs", "series", "forget").exit_code == 2


def test_an_index_is_made_anew_of_the_runs_and_damaged_ones_are_named(tmp_path: Path) -> None:
    made = make_whole_run(tmp_path / RUNS_FOLDER / "one", 10).directory
    damaged = RunDirectory(tmp_path / RUNS_FOLDER / "two")
    shutil.copytree(made.path, damaged.path)
    damaged.store_path.write_bytes(b"no database any more" * 1000)
    found = ask("runs", "series", "rebuild")
    assert found.exit_code == 0, found.output
    assert f"{damaged.path}: left out (" in found.stderr
    assert "1 run entered into " in found.stderr
    assert "1 run; " in ask("history").stdout
    assert known_in_series(made) == remember(made, made.read_info()).known == {}
    # What is pruned, moved or deleted stays in the index.
    shutil.rmtree(made.path)
    assert "1 run; " in ask("history").stdout


def test_a_spark_line_goes_from_the_least_to_the_most() -> None:
    assert spark_line([1.0, None, 2.0, 8.0]) == "▁ ▂█"
    assert spark_line([3.0, 3.0]) == "▁▁"
    assert spark_line([None]) == ""


def test_marks_of_findings_are_carried_over_to_the_same_in_later_runs(tmp_path: Path) -> None:
    earlier = make_whole_run(tmp_path / RUNS_FOLDER / "one", 10).directory
    later = make_whole_run(tmp_path / RUNS_FOLDER / "two", 10).directory
    with open_run(earlier) as provenance:
        keys = finding_keys(provenance)
    if not keys:
        explain_run(earlier)
        explain_run(later)
        with open_run(earlier) as provenance:
            keys = finding_keys(provenance)
    finding = next(iter(keys))
    info = earlier.read_info()
    mark = Mark(finding, MarkState.IGNORED, "as it should be", "somebody", 1)
    write_mark(earlier.used_store_url(info), info.id, mark)
    after = later.read_info()
    carry_marks(later.used_store_url(after), after.id, keys, [tmp_path / "gone", earlier.path])
    with open_run(later) as provenance:
        carried = marks_of(provenance.reader)
    assert carried[finding] == mark
    assert {keys[one] for one in carried} == {keys[finding]}


def test_what_earlier_runs_had_is_said_of_each_finding_in_the_terminal_and_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_whole_run(tmp_path / RUNS_FOLDER / "two", 10).directory
    explain_run(run)
    with open_run(run) as provenance:
        keys = finding_keys(provenance)
    remember(run, run.read_info())
    seen = [IncidentKind(*key, number=1, cost_us=1.0) for key in keys.values()]
    with open_index(str(RUNS_FOLDER / "history.sqlite"), Access.MAKE) as index:
        (series,) = index.series()
        for number in range(3):
            earlier = Entry(
                *(f"{number:012x}", f"run-{number}", "/data"), *("k", "s", "", "p"), number + 1, True, {}
            )
            index.write(msgspec.structs.replace(earlier, details=Details(incidents=seen)))
            index.move(earlier.id, series.name)
    words = "known, 3 times since 1970-01-01"
    for finding in keys:
        assert words in ask("show", str(run.path), finding).stdout
        known = json.loads(ask("show", str(run.path), finding, "--json").stdout)["known"]
        assert known == {"runs": 3, "since_us": 1}
    assert words in ask("incidents", str(run.path), "--all").stdout
    with open_run(run) as provenance:
        served = ServedRun(provenance, Feed(run, provenance, None))
        for finding in keys:
            path, wanted = (
                (incident, IncidentParameters(finding))
                if finding.startswith("I")
                else (recurrence, RecurrenceParameters(finding))
            )
            assert path.handler(served, wanted).known == words
        # An index that is broken takes nothing away.
        (RUNS_FOLDER / "history.sqlite").write_bytes(b"no database" * 999)
        assert path.handler(served, wanted).known == ""
    broken = ask("show", str(run.path), finding)
    assert (broken.exit_code, "what earlier runs had is not known" in broken.stderr) == (0, True)
