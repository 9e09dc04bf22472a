"""The whole of a recorded trace: made ready by a command or a long question, and shown as it was traced."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from click.testing import CliRunner

from chimbuko.capture.trace.discovery import find_recorded
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.cli import main
from chimbuko.core.errors import ConfigError
from chimbuko.core.traceschema import TraceStep
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.provenance.timeline.rankcalls import RankCalls
from chimbuko.provenance.timeline.traceindex import TraceTimelines
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.viz.api.endpoint import ServedRun
from chimbuko.viz.api.endpoints.timeline import (
    SelectionParameters,
    TimelineAnswer,
    TimelineParameters,
    timeline,
    timeline_functions,
)
from chimbuko.viz.live.feed import Feed
from tests.patience import PATIENCE_S
from tests.viz.asking import EventSocket
from tests.viz.conftest import TOKEN, dashboard
from tests.viz.made_run import MadeRun
from tests.viz.traced_run import CALLS, traced_run

RANKS = ("0:0", "0:1", "0:2", "0:3")
ABNORMAL, MERGED = 1, 16


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory, heat4_analysed: Path) -> MadeRun:
    """The run."""
    return traced_run(tmp_path_factory.mktemp("traced") / "heat", heat4_analysed)


@pytest.fixture(scope="module")
def indexed(traced: MadeRun) -> MadeRun:
    """With its index."""
    result = CliRunner().invoke(main, ["runs", "index", str(traced.directory.path)])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1] == "rank 0:1: 39,889 calls, 9,223 messages and launches"
    return traced


@pytest.fixture(scope="module")
def provenance(traced: MadeRun) -> Iterator[Provenance]:
    """What the store says."""
    with open_run(traced.directory) as provenance:
        yield provenance


@pytest.fixture(scope="module")
def served(indexed: MadeRun, provenance: Provenance) -> ServedRun:
    """The run as the server has it."""
    return ServedRun(provenance, Feed(indexed.directory, provenance, None))


def asked(served: ServedRun, rank: str, **wanted: object) -> TimelineAnswer:
    """A timeline."""
    answer: TimelineAnswer = timeline.ask(served, TimelineParameters(rank=rank, **wanted))  # type: ignore[arg-type]
    return answer


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("columns", [50, 1000, 20_000])
def test_a_picture_of_all_stands_for_all_calls(served: ServedRun, rank: str, columns: int) -> None:
    answer = asked(served, rank, columns=columns)
    assert answer.source == "trace" and answer.is_recorded
    assert sum(sum(row.counts) for row in answer.rows) == CALLS[int(rank[2:])]
    abnormal = sum(flags & ABNORMAL for row in answer.rows for flags in row.flags)
    stored = served.provenance.calls.count(CallFilter(program=0, rank=int(rank[2:])))
    assert abnormal == sum(call.is_anomaly for call in answer.judged) == stored > 0
    size = sum(len(row.flags) for row in answer.rows)
    assert size < 4 * columns * len(answer.rows) + 2 * stored


def test_functions_of_a_selection_have_the_time_of_all_calls(served: ServedRun) -> None:
    first, last = asked(served, "0:1").extent_us
    wanted = SelectionParameters(lines=["0:1/0"], from_us=first, to_us=last)
    whole = timeline_functions.ask(served, wanted)
    assert sum(one.calls for one in whole.functions) == CALLS[1] and whole.merged_us == 0
    assert whole.lines[0].rank == "0:1" and whole.lines[0].known_us == last - first
    main = max(whole.functions, key=lambda one: one.inclusive_us)
    assert sum(one.exclusive_us for one in whole.functions) == pytest.approx(main.inclusive_us, rel=0.01)
    middle = (first + last) // 2
    halves = [
        timeline_functions.ask(served, SelectionParameters(lines=["0:1"], from_us=begin, to_us=end))
        for begin, end in ((first, middle), (middle, last))
    ]
    told = Counter[str]()
    for half in halves:
        told.update({one.function: one.inclusive_us for one in half.functions})
    assert told == {one.function: one.inclusive_us for one in whole.functions}


def test_single_calls_are_those_that_the_records_report_of(served: ServedRun) -> None:
    record = next(served.provenance.calls.records(CallFilter(program=0, rank=2)))
    times = [record.entry_us - 1000, record.exit_us + 1000]
    answer = asked(served, "0:2", from_us=times[0], to_us=times[1], columns=20_000)
    found = {}
    for row in answer.rows:
        begin = number = 0
        for at, flags in enumerate(row.flags):
            begin += row.begins_us[at]
            number += row.rows[at]
            if not flags & MERGED:
                place = row.depth, answer.functions[row.functions[at]]
                found[f"0:2:{row.steps[at]}:{number}"] = (
                    *place,
                    begin,
                    begin + row.runtimes_us[at],
                    flags & 1,
                )
    neighbours = [call for call in record.window if times[0] <= call.entry_us and call.exit_us <= times[1]]
    assert len(neighbours) > 1
    for call in neighbours:
        if call.exit_us - call.entry_us >= answer.column_us:
            reported = (call.depth, call.function, call.entry_us, call.exit_us, int(call.is_anomaly))
            assert found[call.id] == reported


def test_messages_have_both_ends_where_both_ranks_are_shown(served: ServedRun, real_traces: Path) -> None:
    answer = asked(served, "0:1", partners=["0:0", "0:2", "0:3"])
    links = answer.links
    assert sum(links.counts) == 9_223
    assert -1 not in links.other_us
    (stream,) = find_recorded([str(real_traces / "heat4" / "*-1.bp")])
    expected: Counter[tuple[int, int]] = Counter()
    with StreamReader(stream.path, "BPFile") as reader:
        while isinstance(step := reader.next_step(1.0), TraceStep):
            expected.update((int(row[3]) - 2, int(row[5])) for row in step.comms)
    found: Counter[tuple[int, int]] = Counter()
    for kind, other, count in zip(links.kinds, links.other_ranks, links.counts, strict=True):
        found[kind, other] += count
    assert found == expected


def test_a_message_takes_time_forwards_in_most_cases(served: ServedRun) -> None:
    first, last = RankCalls(served.provenance.calls, (0, 1)).time_range() or (0, 0)
    middle = (first + last) // 2
    answer = asked(served, "0:1", partners=["0:2"], from_us=middle, to_us=middle + 200_000)
    links = zip(
        answer.links.kinds,
        answer.links.times_us,
        answer.links.other_us,
        answer.links.other_ranks,
        strict=True,
    )
    under_way = [(other - time) * (1 if kind == 0 else -1) for kind, time, other, rank in links if rank == 2]
    # Clocks of one machine: a message is not received long before it was sent.
    assert under_way and min(under_way) > -10_000 and max(under_way) < 1_000_000


def test_an_index_is_not_used_when_the_trace_or_its_records_have_changed(
    indexed: MadeRun, provenance: Provenance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timelines = TraceTimelines(indexed.directory, provenance)
    assert timelines.index((0, 1)) is not None
    assert timelines.index((0, 9)) is None and timelines.index((1, 0)) is None
    monkeypatch.setattr(RankCalls, "count", lambda self: 3)
    assert timelines.index((0, 1)) is None
    monkeypatch.undo()
    noted = json.loads(indexed.directory.recorded_path.read_text())
    moved = RunDirectory(tmp_path / "moved")
    shutil.copytree(indexed.directory.path, moved.path)
    copy = tmp_path / "copy.bp"
    shutil.copytree(noted[1]["path"], copy)
    os.utime(copy / "data.0", ns=(1, 1))
    os.utime(copy / "md.0", ns=(1, 1))
    os.utime(copy / "md.idx", ns=(1, 1))
    os.utime(copy / "mmd.0", ns=(1, 1))
    noted[1]["path"] = str(copy)
    moved.recorded_path.write_text(json.dumps(noted))
    with open_run(moved) as of_moved:
        elsewhere = TraceTimelines(moved, of_moved)
        assert elsewhere.is_recorded((0, 1)) and elsewhere.index((0, 1)) is None
        assert elsewhere.index((0, 2)) is not None


def test_a_run_that_goes_on_is_shown_as_far_as_it_is_stored(
    indexed: MadeRun, tmp_path: Path, provenance: Provenance
) -> None:
    going = RunDirectory(tmp_path / "going")
    shutil.copytree(indexed.directory.path, going.path)
    info = json.loads(going.info_path.read_text()) | {"state": "running"}
    going.info_path.write_text(json.dumps(info))
    assert not TraceTimelines(going, provenance).is_recorded((0, 1))


def test_where_the_run_cannot_be_written_the_index_is_elsewhere(
    indexed: MadeRun, provenance: Provenance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    folder = TraceTimelines(indexed.directory, provenance).folder
    assert provenance.run_id in folder.name and indexed.directory.path not in folder.parents


def test_what_another_user_has_left_in_the_place_for_the_index_is_neither_read_nor_written(
    indexed: MadeRun, provenance: Provenance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    timelines = TraceTimelines(indexed.directory, provenance)
    timelines.folder.symlink_to(indexed.directory.timelines)
    assert timelines.index((0, 1)) is None
    with pytest.raises(ConfigError, match="others than you"):
        timelines.folder_to_write()
    timelines.folder.unlink()
    shutil.copytree(indexed.directory.timelines, timelines.folder)
    timelines.folder.chmod(0o777)
    assert timelines.index((0, 1)) is None
    timelines.folder.chmod(0o700)
    assert timelines.index((0, 1)) is not None and timelines.folder_to_write() == timelines.folder


def test_a_rank_without_a_recorded_trace_is_refused(indexed: MadeRun) -> None:
    for rank, words in (("0:9", "no recorded trace of 0:9"), ("x", "not PROGRAM:RANK")):
        result = CliRunner().invoke(main, ["runs", "index", str(indexed.directory.path), "--rank", rank])
        assert result.exit_code != 0 and words in result.stderr


def test_a_long_question_makes_the_index(traced: MadeRun, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "heat4")
    shutil.copytree(traced.directory.path, run.path, ignore=shutil.ignore_patterns("timelines"))
    with dashboard(MadeRun(run)) as process, EventSocket(process.base) as page:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        address = f"{process.base}api/v1/timeline?rank=0:3"
        before = requests.get(address, headers=headers, timeout=PATIENCE_S).json()
        assert before["source"] == "store" and before["is_recorded"]
        job = page.ask("trace-index", {"ranks": ["0:3", "0:2"]})
        assert page.end(job) == {"ok": True, "ranks": ["0:3", "0:2"]}
        after = requests.get(address, headers=headers, timeout=PATIENCE_S).json()
        assert after["source"] == "trace"
        assert sum(sum(row["counts"]) for row in after["rows"]) == CALLS[3]
        assert page.end(page.ask("trace-index", {"ranks": []})).startswith("trace-index: ")
    assert sorted(path.name for path in run.timelines.glob("*.header")) == ["0-2.header", "0-3.header"]
