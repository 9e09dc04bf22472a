from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine

from chimbuko.cli import main
from chimbuko.core.calls.record import CallRecord, CounterStatistics, StepCount, StreamHealth
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.moments import Moments
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RunStatistics
from chimbuko.runtime.runs.directory import RunDirectory, new_run
from tests.sample_records import make_batch, make_batches, make_record

Ask = Callable[..., Result]
SECOND_US = 1_000_000


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    """A run that is the newest of the current folder."""
    monkeypatch.chdir(tmp_path)
    return new_run(Path("chimbuko-runs/heat"), ["./heat"], AnalysisConfig(), None)


@pytest.fixture
def writer(run: RunDirectory) -> Iterator[Writer]:
    """The run goes on: its store stays open for writing."""
    info = run.read_info()
    engine: Engine = open_for_writing(info.store_url)
    writer = Writer(engine, info.id)
    writer.write_run(info)
    writer.write([make_batch(steps=[StepCount(0, 1, 0, SECOND_US, 2 * SECOND_US, 50, 0, 0.0)])])
    yield writer
    engine.dispose()


@pytest.fixture
def ask(writer: Writer) -> Ask:
    return lambda *arguments: CliRunner().invoke(main, ["query", *arguments])


def store(writer: Writer, *records: CallRecord) -> None:
    writer.write(make_batches(records))


def ids(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [call["id"] for call in json.loads(result.stdout)["calls"]]


def test_the_worst_calls_of_the_newest_run_come_first(ask: Ask, writer: Writer) -> None:
    store(writer, make_record(1, severity_us=1_234.0), make_record(2, severity_us=2_500_000.0))
    result = ask()
    title, first, second = result.stdout.splitlines()
    assert title.split()[:2] == ["CALL", "RANK"]
    assert first.split()[0] == "0:1:3:2"
    assert re.search(r"2\.50 s +8\.00 ms +9\.00 ms +1\.00 ms +7\.50 +exchange", first)
    assert "1.23 ms" in second
    assert "\x1b" not in result.stdout
    assert result.stderr == "2 of 2 calls\n"


def test_json_has_full_numbers_and_all_fields(ask: Ask, writer: Writer) -> None:
    written = make_record(1, severity_us=1_234.567891)
    store(writer, written)
    result = ask("--json")
    answer = json.loads(result.stdout)
    assert answer["matched"] == 1
    assert answer["next"] is None
    [call] = answer["calls"]
    assert call["severity_us"] == 1_234.567891
    assert call["function"] == written.function
    assert call["label"] == "anomaly"
    assert result.stderr == ""


def test_pages_are_turned_with_the_cursor_that_is_reported(ask: Ask, writer: Writer) -> None:
    store(writer, *(make_record(row, severity_us=float(row)) for row in range(5)))
    shown: list[str] = []
    options: list[str] = []
    for _ in range(3):
        result = ask("--limit", "2", *options)
        shown += [line.split()[0] for line in result.stdout.splitlines()[1:]]
        reported = re.search(r"of 5 calls(?:; next page: (--cursor \S+))?\n", result.stderr)
        assert reported is not None
        options = (reported[1] or "").split()
    assert shown == [f"0:1:3:{row}" for row in (4, 3, 2, 1, 0)]
    assert options == []


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("--function main", [0]),
        ("--function MPI_*", [1]),
        ("--program 1", [2]),
        ("--rank 7", [3]),
        ("--rank 6:", [3]),
        ("--rank 5:6 --max-score 1", [10]),
        ("--thread 2", [4]),
        ("--step 9", [5]),
        ("--step 9:", [5]),
        ("--step 4:8", []),
        ("--step :3 --rank 7", [3]),
        ("--time 10s:11s", [6]),
        ("--time 10500ms:", [6]),
        ("--time :0.02s --thread 2", [4]),
        ("--min-severity 100ms", [7]),
        ("--min-severity 100000us", [7]),
        ("--min-severity 0.1s", [7]),
        ("--max-severity 1ms", [10]),
        ("--min-score 50", [8]),
        ("--max-score 1", [10]),
        ("--node node9", [10]),
        ("--node node? --max-score 1", [10]),
        ("--gpu", [11]),
        ("--no-gpu --function MPI_*", [1]),
        ("--through MAI* --rank 5", []),
        ("--through main --rank 5", [10]),
        ("--text RECV --rank 1 --thread 0 --program 0", [1]),
        ("--label normal", [9]),
        ("--label any --min-score 40 --sort score --ascending", [9, 8]),
    ],
)
def test_options_filter(ask: Ask, writer: Writer, options: str, found: list[int]) -> None:
    store(
        writer,
        make_record(0, function="main"),
        make_record(1, function="MPI_Recv()"),
        make_record(2, program=1),
        make_record(3, rank=7),
        make_record(4, thread=2),
        make_record(5, step=9),
        make_record(6, entry_us=11 * SECOND_US, exit_us=12 * SECOND_US),
        make_record(7, severity_us=100_000.0),
        make_record(8, score=50.0),
        make_record(9, score=45.0, label=Label.NORMAL),
        make_record(10, rank=5, node="node9", score=0.5, severity_us=900.0),
        make_record(11, is_gpu=True),
    )
    assert [int(event_id.rsplit(":", 1)[1]) for event_id in ids(ask("--json", *options.split()))] == found


def test_calls_of_one_path_are_found_by_its_number(ask: Ask, writer: Writer) -> None:
    store(writer, make_record(0), make_record(1), make_record(2, function="MPI_Recv()"))
    paths = {call["id"]: call["path"] for call in json.loads(ask("--json").stdout)["calls"]}
    assert paths["0:1:3:0"] == paths["0:1:3:1"] != paths["0:1:3:2"]
    assert ids(ask("--json", "--path", str(paths["0:1:3:2"]))) == ["0:1:3:2"]


def test_programs_and_marks_are_shown_where_they_report_something(ask: Ask, writer: Writer) -> None:
    store(writer, make_record(1), make_record(2, label=Label.NORMAL))
    assert "PROGRAM" not in ask("--label", "any").stdout
    writer.write_statistics(RunStatistics({0: "heat", 1: "coupler"}))
    lines = ask("--label", "any", "--sort", "entry_us", "--ascending").stdout.splitlines()
    assert "PROGRAM" in lines[0]
    assert lines[1].startswith("▲  0:1:3:1")
    assert lines[2].startswith("   0:1:3:2")


def test_an_empty_answer_says_what_to_do(ask: Ask, writer: Writer) -> None:
    result = ask()
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no anomalies yet; --label any" in result.stderr
    result = ask("--rank", "99")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "loosen the filter" in result.stderr
    assert json.loads(ask("--json").stdout) == {"calls": [], "matched": 0, "next": None}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--rank 5:2", "--rank '5:2': it ends before it begins; 2:5 is one"),
        ("--rank x", "--rank 'x': not a rank or range of ranks; give one like 20, 20:30"),
        ("--step x", "--step 'x': not a step"),
        ("--step :", "--step ':': not a step"),
        ("--time 5", "--time '5': not a range"),
        ("--time 5min:6min", "'5min': not a duration"),
        ("--min-severity much", "'much': not a duration"),
        ("--cursor x", "cursor 'x': not one"),
        ("nowhere", "nowhere: not the folder of a run"),
    ],
)
def test_mistakes_end_with_one_line(ask: Ask, options: str, said: str) -> None:
    result = ask(*options.split())
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_run_that_has_no_store_says_so(run: RunDirectory) -> None:
    result = CliRunner().invoke(main, ["query", str(run.path)])
    assert result.exit_code == 5
    assert "no provenance store there" in result.stderr


def test_help_shows_examples() -> None:
    result = CliRunner().invoke(main, ["query", "--help"])
    assert result.exit_code == 0
    assert "chimbuko query --rank 3 --step 20:30 --min-severity 5ms" in result.stdout


def test_calls_that_have_not_ended_can_be_asked_for_and_show_their_time_so_far(
    ask: Ask, writer: Writer
) -> None:
    store(writer, make_record(1), make_record(2, exit_us=0, severity_us=5e6, expected_us=1_000.0))
    assert ids(ask("--json", "--open")) == ["0:1:3:2"]
    shown = ask("--open").stdout
    assert "≥ 5.00 s" in shown
    assert "≥" in ask().stdout.splitlines()[1]
    assert "≥" not in ask().stdout.splitlines()[2]


def test_counters_are_listed_by_rank(ask: Ask, writer: Writer) -> None:
    heap = CounterStatistics("heap", *Moments.of([1.0, 3.0]).row().tolist())
    writer.write([make_batch(counter_statistics=[heap])])
    titles, line, *_ = ask("--counter", "he*").stdout.splitlines()
    assert titles.split() == ["COUNTER", "RANK", "VALUES", "MEAN", "STD", "LEAST", "MOST"]
    assert line.split()[0] == "heap" and line.split()[2:] == ["2", "2", "1.41421", "1", "3"]
    (found,) = json.loads(ask("--counter", "heap", "--json").stdout)["counters"]
    assert (found["counter"], found["values"], found["most"]) == ("heap", 2, 3)
    assert ask("--counter", "stack").stdout == "no counter is called stack; there are heap\n"


def test_ranks_that_wait_for_each_other_are_a_deadlock_with_their_stacks(ask: Ask, writer: Writer) -> None:
    assert ask("--stuck").stdout == "no rank stands still\n"
    assert json.loads(ask("--stuck", "--json").stdout) == {"standstills": []}
    open_calls = [
        make_record(rank, rank=rank, thread=0, exit_us=0, function="MPI_Recv()", window=[])
        for rank in range(2)
    ]
    store(writer, *open_calls)
    shown = ask("--stuck").stdout
    assert shown.startswith(
        "deadlock: all 2 ranks wait in MPI, and no call of theirs ends: 0-1 in MPI_Recv\n"
    )
    assert "MPI_Recv(): 2 ranks (0-1)" in shown
    (found,) = json.loads(ask("--stuck", "--json").stdout)["standstills"]
    assert found["finding"]["kind"] == "deadlock" and found["stacks"]["1"][-1] == "MPI_Recv()"
    # A third rank is at work.
    writer.write([make_batch(stream="0:2", health=StreamHealth(0, 2, "n1", "reading", 1, 1, 1, 1, 1, 0, {}))])
    shown = ask("--stuck").stdout
    assert "deadlock" not in shown and "MPI_Recv(): 2 ranks (0-1)" in shown


def test_a_name_does_nothing_to_a_terminal(ask: Ask, writer: Writer, run: RunDirectory) -> None:
    name = "solve\x1b]0;owned\x07\u202e()"
    store(writer, make_record(1, function=name))
    shown = ask().stdout
    assert r"solve\x1b]0;owned\x07\u202e()" in shown
    assert not any(letter in shown for letter in "\x1b\x07\u202e")
    shown = ask("--json").stdout
    assert json.loads(shown)["calls"][0]["function"] == name and "\u202e" not in shown
    error = ask("--function", "\x1b[2J", "no\x1b[2Jrun")
    assert error.exit_code != 0 and "\x1b" not in error.stderr and r"no\x1b[2Jrun" in error.stderr
