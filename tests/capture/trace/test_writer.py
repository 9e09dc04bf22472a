"""What is written is read again exactly, over every engine."""

from __future__ import annotations

from pathlib import Path

import adios2.bindings as adios2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.capture.trace.discovery import read_mark_of
from chimbuko.capture.trace.tausettings import KEPT_SST_STEPS, SAFE_SST_PARAMETERS
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.errors import TraceFormatError
from tests.capture.trace.whole_streams import (
    assert_equal,
    random_stream,
    read_stream,
    reading,
    write_stream,
)

SIZES = [(5, 2, 1), (0, 0, 0), (1000, 0, 3), (2, 7, 0), (0, 3, 0), (4000, 9, 9)]
LOSSLESS = {"RendezvousReaderCount": "1", "QueueFullPolicy": "Block"}


@pytest.mark.parametrize("engine", ["BP4", "BP5", "BPFile"])
def test_file_round_trip(tmp_path: Path, engine: str) -> None:
    steps = random_stream(1, SIZES)
    path = tmp_path / "tau-metrics-app-0.bp"
    write_stream(path, steps, engine)
    back = read_stream(path, "BPFile")
    # BP4 shows all attributes from the first step on.
    assert_equal(back, steps, with_names=engine != "BP4")
    assert back[-1].names == steps[-1].names


def test_sst_round_trip(tmp_path: Path) -> None:
    steps = random_stream(2, SIZES)
    path = tmp_path / "tau-metrics-app-0.bp"
    with reading([path]) as (answer,):
        write_stream(path, steps, "SST", LOSSLESS)
        assert_equal(answer.recv(), steps)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10), st.integers(0, 10)), min_size=1, max_size=8),
)
def test_any_steps_round_trip(
    tmp_path_factory: pytest.TempPathFactory, seed: int, sizes: list[tuple[int, int, int]]
) -> None:
    path = tmp_path_factory.mktemp("stream") / "tau-metrics-app-0.bp"
    steps = random_stream(seed, sizes)
    write_stream(path, steps, "BP5")
    assert_equal(read_stream(path, "BPFile"), steps)


def test_layout_is_taus(tmp_path: Path) -> None:
    """Types and shapes as in TAU's plugin, and no array in a step that has no rows for it."""
    path = tmp_path / "tau-metrics-app-0.bp"
    write_stream(path, random_stream(3, [(4, 0, 2)]), "BP5")
    adios = adios2.ADIOS()
    io = adios.DeclareIO("reader")
    engine = io.Open(str(path), adios2.Mode.Read)
    engine.BeginStep()
    found = {name: (v["Type"], v["Shape"]) for name, v in io.AvailableVariables().items()}
    attributes = io.AvailableAttributes()
    engine.EndStep()
    engine.Close()
    assert found.pop("event_timestamps") == ("uint64_t", "4, 6")
    assert found.pop("counter_values") == ("uint64_t", "2, 6")
    assert "comm_timestamps" not in found
    assert {name for name, (kind, _) in found.items() if kind == "uint64_t"} == {
        "timer_event_count",
        "counter_event_count",
        "comm_count",
    }
    assert {name for name, (kind, _) in found.items() if kind == "int32_t"} == {
        "program_count",
        "comm_rank_count",
        "thread_count",
        "event_type_count",
        "timer_count",
        "counter_count",
    }
    assert attributes["program_name 0"]["Value"] == '"app"'
    assert attributes["event_type 1"]["Value"] == '"EXIT"'
    assert "MetaData:0:0:timer of counter 0" in attributes


def test_folder_that_is_not_there_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TraceFormatError) as raised:
        StreamWriter(tmp_path / "file" / "tau-metrics-app-0.bp")
    assert "\n" not in str(raised.value)


def test_late_reader_over_sst_begins_with_the_first_step_and_then_has_the_newest(tmp_path: Path) -> None:
    """Names come once, in the step that first uses them: of those that it missed it never learns."""
    path = tmp_path / "tau-metrics-app-0.bp"
    first, second, later = random_stream(4, [(3, 0, 0), (2, 0, 0), (1, 0, 0)])
    with StreamWriter(path, "SST", SAFE_SST_PARAMETERS) as writer:
        for step, names in ((first, first.names), *[(second, second.names)] * KEPT_SST_STEPS):
            writer.write_step(step.events, step.comms, step.counters, names)
        written = 1 + KEPT_SST_STEPS
        with reading([path], at_most=2) as (late,):
            while not read_mark_of(path).exists():
                writer.write_step(later.events, later.comms, later.counters, second.names)
                written += 1
                late.poll(0.2)
            one, other = late.recv()
    assert_equal([one], [first])
    # It was let in with one of the steps that were written meanwhile.
    assert 1 < other.number <= written - KEPT_SST_STEPS
    assert other.names == first.names
