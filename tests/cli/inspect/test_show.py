from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from chimbuko.cli import main
from chimbuko.cli.inspect.show import headline
from chimbuko.core.calls.record import CallRecord, WindowCall
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import AnalysisConfig
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RunStatistics
from chimbuko.runtime.runs.directory import new_run
from tests.sample_records import make_batches, make_record

Show = Callable[..., Result]


@pytest.fixture
def show(tmp_path: Path) -> Show:
    """Shows a call of a run that holds the given records."""
    run = new_run(tmp_path / "heat", ["./heat"], AnalysisConfig(), None)
    info = run.read_info()

    def show(event_id: str, *records: CallRecord, options: tuple[str, ...] = ()) -> Result:
        engine = open_for_writing(info.store_url)
        writer = Writer(engine, info.id)
        writer.write_run(info)
        writer.write_statistics(RunStatistics({0: "heat4"}))
        writer.write(make_batches(records))
        engine.dispose()
        return CliRunner().invoke(main, ["show", str(run.path), event_id, *options])

    return show


def section(result: Result, title: str) -> list[str]:
    """The lines under a heading."""
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    rest = lines[lines.index(title) + 1 :]
    return rest[: rest.index("")] if "" in rest else rest


def test_the_headline_compares_with_what_is_usual(show: Show) -> None:
    result = show("0:1:3:0", make_record())
    first, place, judged = result.stdout.splitlines()[:3]
    assert first == "▲ exchange(double *) took 8.00 ms, 8.0× its usual 1.00 ms"
    assert place.startswith("Program heat4, rank 1, thread 0, step 3, node node7; entered ")
    detector = make_record().detector
    assert judged == (
        f"Abnormal (exclusive runtime, {detector}): "
        "7.00 ms lost, score 7.50, usual spread 133 µs over 412 calls"
    )
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize(
    ("metric", "expected_us", "said"),
    [
        ("exclusive", 16.0, "f took 8.00 ms, 500× its usual 16 µs"),
        ("inclusive", 1_000.0, "f took 9.00 ms, 9.0× its usual 1.00 ms"),
        ("exclusive", 0.0, "f took 8.00 ms"),
    ],
)
def test_headlines(metric: str, expected_us: float, said: str) -> None:
    assert headline(make_record(function="f", expected_us=expected_us), metric) == said


@pytest.mark.parametrize(("score", "lost_us", "is_said"), [(9.0, 800.0, True), (3.0, 800.0, False)])
def test_a_rare_call_that_lost_little_is_normal_and_says_so(
    show: Show, score: float, lost_us: float, is_said: bool
) -> None:
    call = make_record(label=Label.NORMAL, score=score, severity_us=lost_us)
    said = "So long a call is rare, but normal is what loses less than 1.00 ms (--min-anomaly)."
    assert (said in show(call.id, call).stdout.splitlines()) == is_said


def test_call_that_has_not_ended_is_shown_with_its_time_so_far(show: Show) -> None:
    record = make_record(function="f", exit_us=0, is_final=False, severity_us=5_999_000.0)
    lines = show("0:1:3:0", record).stdout.splitlines()
    assert lines[0] == "▲ f had not ended after 6.00 s instead of 1.00 ms"
    assert lines[3] == "It is recorded again when it ends. The calls after it are what it waits in."


def test_stack_and_window_mark_the_call_and_what_is_abnormal(show: Show) -> None:
    record = make_record(function="f")
    window = [*record.window, WindowCall("0:1:3:99", "g", record.entry_us + 7, 0, "", 3, True)]
    result = show("0:1:3:0", msgspec.structs.replace(record, window=window))
    assert section(result, "Call stack, innermost first") == [
        "      ENTRY  RUNTIME  FUNCTION",
        "▶▲    +0 µs  9.00 ms  f",
        "    −100 ms     open  main",
    ]
    assert section(result, "Neighbours on the same thread, in order of entry") == [
        "      ENTRY  RUNTIME  FUNCTION",
        "    −500 µs   490 µs  compute",
        "▶▲    +0 µs  9.00 ms  f",
        "      +5 µs  8.99 ms    MPI_Recv()",
        "▲     +7 µs     open      g",
    ]


def test_messages_counters_and_node_state_are_shown(show: Show) -> None:
    result = show("0:1:3:0", make_record())
    assert section(result, "Messages in these calls")[1].split() == [
        *("+50", "µs", "RECV", "2", "1", "99", "8,192", "MPI_Recv()")
    ]
    counters = section(result, "Counters in these calls")
    assert counters[1].split() == ["+60", "µs", "8,192", "MPI", "Recv", "bytes", "MPI_Recv()"]
    assert counters[2] == "2 more messages and counters were not kept."
    assert section(result, "State of the node in this step")[1].split()[-3:] == ["3", "monitoring:", "load"]


def test_what_a_call_has_not_is_not_shown(show: Show) -> None:
    bare = make_record(messages=[], counters=[], node_state=[], left_out=0, node="", is_final=False)
    result = show("0:1:3:0", bare)
    for absent in ("Messages", "Counters", "State of the node", "were not kept", "node "):
        assert absent not in result.stdout
    assert "still being recorded" in result.stdout
    assert section(result, "Beside a normal call of the same function") == ["None was recorded."]


def test_the_normal_call_stands_beside(show: Show) -> None:
    normal = make_record(5, label=Label.NORMAL, step=4, exit_us=1_002_005, score=0.5)
    compared = section(show("0:1:3:0", make_record(), normal), "Beside a normal call of the same function")
    cells = {line[:15].strip(): line[15:].split("  ") for line in compared[1:]}
    assert [[cell.strip() for cell in cells[name] if cell] for name in ("call", "exclusive", "step")] == [
        ["0:1:3:0", "0:1:4:5"],
        ["8.00 ms", "1.00 ms"],
        ["3", "4"],
    ]


def test_json_has_both_calls_with_named_fields(show: Show) -> None:
    normal = make_record(5, label=Label.NORMAL)
    answer = json.loads(show("0:1:3:0", make_record(), normal, options=("--json",)).stdout)
    assert answer["call"]["call_stack"][1]["function"] == "main"
    assert answer["call"]["messages"][0]["size_bytes"] == 8192
    assert set(answer["call"]) == set(CallRecord.__struct_fields__)
    assert answer["normal"]["id"] == "0:1:3:5"


def test_an_unknown_call_ends_with_one_line(show: Show) -> None:
    result = show("9:9:9:9", make_record())
    assert result.exit_code == 2
    assert (
        result.stderr
        == "chimbuko: call '9:9:9:9': not recorded in this run; 'chimbuko query' lists those that are\n"
    )


def test_help_shows_examples() -> None:
    result = CliRunner().invoke(main, ["show", "--help"])
    assert "chimbuko show chimbuko-runs/heat 0:1:30:1547" in result.stdout
