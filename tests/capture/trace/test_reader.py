"""Reading: real traces, names, and files that were never finished or never a trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import adios2.bindings as adios2
import numpy as np
import pytest

from chimbuko.ad.handoff.namesfile import NamesFile
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.capture.trace.source import Waiting
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.traceschema import (
    COMM_PARTNER,
    COMM_RANK,
    COUNTER_RANK,
    EVENT_RANK,
    EVENT_THREAD,
    EVENT_TIME,
    EVENT_TIMER,
    MAX_TIMERS,
    OTHER_FUNCTIONS,
    OTHER_TIMER,
    SHARED_ROW,
    EventType,
    StreamNames,
    TraceStep,
)
from tests.capture.trace.whole_streams import random_stream, read_stream, write_stream
from tests.places import ROOT

WRITES_TWO_STEPS_AND_WAITS = """
import sys
from pathlib import Path
from chimbuko.capture.trace.writer import StreamWriter
from tests.capture.trace.whole_streams import random_stream
writer = StreamWriter(Path(sys.argv[1]), "BP5")
for step in random_stream(6, [(10, 2, 2), (20, 3, 3)]):
    writer.write_step(step.events, step.comms, step.counters, step.names)
print("written", flush=True)
sys.stdin.read()
"""


def streams(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.bp"))


def test_real_traces_are_readable(real_traces: Path) -> None:
    paths = streams(real_traces)
    assert paths
    for path in paths:
        steps = read_stream(path, "BPFile")
        assert [step.number for step in steps] == list(range(len(steps)))
        assert sum(len(step.events) for step in steps) > 1000
        for step in steps:
            assert set(step.events[:, EVENT_TIMER].tolist()) <= step.names.timers.keys()
        names = steps[-1].names
        assert names.event_type_id(EventType.RECV) == 3
        assert any(key == "Hostname" for _, _, key in names.metadata)
        assert names.timers[0] == ".TAU application"


def test_real_traces_keep_the_order_of_each_thread(real_traces: Path) -> None:
    for path in streams(real_traces):
        events = np.concatenate([step.events for step in read_stream(path, "BPFile")])
        for thread in np.unique(events[:, EVENT_THREAD]):
            times = events[events[:, EVENT_THREAD] == thread, EVENT_TIME]
            assert np.all(np.diff(times.astype(np.int64)) >= 0)


def test_event_types_follow_the_streams_own_map() -> None:
    assert StreamNames().event_type_id(EventType.SEND) == 2
    assert StreamNames(event_types={7: "SEND", 0: "EXIT"}).event_type_id(EventType.SEND) == 7


def test_instance_has_ranks_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "tau-metrics.4-app-1.bp"
    names = StreamNames(timers={0: "main"}, metadata={(1, 0, "pid"): "7"})
    row = [0, 1, 0, 0, 0, 10]
    with StreamWriter(path, "BP5") as writer:
        writer.write_step(
            np.array([row, row], np.uint64),
            np.array([[0, 1, 0, 2, 5, 0, 8, 10]], np.uint64),
            np.array([row], np.uint64),
            names,
        )
    with StreamReader(path, "BPFile", rank=5, first_rank=4) as reader:
        step = reader.next_step(20)
        assert isinstance(step, TraceStep)
        assert step.events[:, EVENT_RANK].tolist() == [5, 5]
        assert step.comms[0, [COMM_RANK, COMM_PARTNER]].tolist() == [5, 4]
        assert step.counters[:, COUNTER_RANK].tolist() == [5]
        assert reader.names.metadata == {(5, 0, "pid"): "7"}


def test_addresses_without_a_name_are_the_processs_own(tmp_path: Path) -> None:
    path = tmp_path / "tau-metrics-app-3.bp"
    address = "addr=<559bb3460262> [{hello} {0,0}]"
    with StreamWriter(path, "BP5") as writer:
        step = random_stream(5, [(1, 0, 0)])[0]
        writer.write_step(step.events, step.comms, step.counters, StreamNames(timers={0: address, 1: "f"}))
    with StreamReader(path, "BPFile", rank=3) as reader:
        reader.next_step(20)
        assert reader.names.timers == {0: f"{address} (rank 3)", 1: "f"}
    assert read_stream(path, "BPFile")[0].names.timers == {0: address, 1: "f"}


def test_names_of_all_kinds_stay_apart(tmp_path: Path) -> None:
    """Metadata keys may look like timers, and values may hold quotes and colons."""
    path = tmp_path / "tau-metrics-app-0.bp"
    names = StreamNames(
        timers={0: "counter 1", 12: '"quoted"'},
        counters={0: "timer 0"},
        event_types={0: "ENTRY"},
        program="a b",
        metadata={(0, 3, "timer 5"): "x", (0, 0, "CUDA: Device:0"): "a:b", (1, 2, "empty"): ""},
    )
    with StreamWriter(path, "BP5") as writer:
        step = random_stream(5, [(1, 1, 1)])[0]
        writer.write_step(step.events, step.comms, step.counters, names)
    assert read_stream(path, "BPFile")[0].names == names


def test_names_with_absurd_numbers_are_left_out(tmp_path: Path) -> None:
    """Tables have a row for each id up to the highest, and databases have no room for such a rank."""
    names = StreamNames(timers={5: "solve", 1 << 40: "x"}, counters={1 << 20: "y"})
    names.metadata = {(0, 0, "Hostname"): "node1", (1 << 70, 0, "Hostname"): "z"}
    (step,) = random_stream(1, [(1, 1, 1)])
    with StreamWriter(tmp_path / "s.bp", "BP5") as writer:
        writer.write_step(step.events, step.comms, step.counters, names)
    (read,) = read_stream(tmp_path / "s.bp", "BPFile")
    assert (read.names.timers, read.names.counters) == ({5: "solve"}, {})
    assert read.names.metadata == {(0, 0, "Hostname"): "node1"}


def test_functions_that_are_too_many_share_the_last_row(tmp_path: Path) -> None:
    """Names come as they are called; a reader that comes later knows them by their number alone."""
    path, count = tmp_path / "s.bp", MAX_TIMERS + 5000
    first, last = random_stream(2, [(4, 0, 0), (6, 0, 0)])
    first.events[:, EVENT_TIMER] = [0, 0, OTHER_TIMER - 1, OTHER_TIMER - 1]
    last.events[:, EVENT_TIMER] = [OTHER_TIMER, OTHER_TIMER + 1, count - 1, count, 1 << 40, 3]
    named = {number: f"f{number}" for number in range(OTHER_TIMER)}
    with StreamWriter(path, "BP5") as writer:
        writer.write_step(first.events, first.comms, first.counters, StreamNames(timers=named))
        every = StreamNames(timers=named | {number: f"f{number}" for number in range(OTHER_TIMER, count)})
        writer.write_step(last.events, last.comms, last.counters, every)
    names = StreamNames()
    with StreamReader(path, "BPFile", names=names) as reader:
        step = reader.next_step(5)
        assert isinstance(step, TraceStep)
        assert step.events[:, EVENT_TIMER].tolist() == first.events[:, EVENT_TIMER].tolist()
        step = reader.next_step(5)
        # What nobody has named is no function.
        shared = [OTHER_TIMER] * 3 + [count, 1 << 40, 3]
        assert isinstance(step, TraceStep) and step.events[:, EVENT_TIMER].tolist() == shared
    assert names.timers == named | {OTHER_TIMER: OTHER_FUNCTIONS}
    names.say_sharing(7)
    assert names.metadata == {(7, 0, SHARED_ROW): "5001 functions"}
    NamesFile(tmp_path / "names").save(names)
    again = StreamNames()
    NamesFile(tmp_path / "names").load_into(again)
    assert again == names


def test_metadata_of_the_last_step_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tau-metrics-app-0.bp"
    first, last = random_stream(6, [(1, 0, 0), (1, 0, 0)])
    last.names.timers, last.names.counters = first.names.timers, first.names.counters
    last.names.metadata[0, 0, "Ending Timestamp"] = "9"
    write_stream(path, [first, last], "BP5")
    with StreamReader(path, "BPFile") as reader:
        while isinstance(reader.next_step(5), TraceStep):
            pass
        assert reader.names.metadata[0, 0, "Ending Timestamp"] == "9"


def test_arrays_are_views_that_the_next_step_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "tau-metrics-app-0.bp"
    steps = random_stream(7, [(5, 0, 0), (3, 0, 0)])
    write_stream(path, steps, "BP5")
    with StreamReader(path, "BPFile") as reader:
        first = reader.next_step(5)
        second = reader.next_step(5)
        assert isinstance(first, TraceStep) and isinstance(second, TraceStep)
        assert np.shares_memory(first.events, second.events)
        assert second.rows == 3
        assert second.size_bytes == 3 * 48


def test_file_of_a_killed_writer_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "tau-metrics-app-0.bp"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITES_TWO_STEPS_AND_WAITS, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with writer:
        assert writer.stdout and writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
    with StreamReader(path, "BPFile") as reader:
        rows = []
        while isinstance(step := reader.next_step(0.2), TraceStep):
            rows.append(len(step.events))
        assert rows == [10, 20]
        assert step is Waiting.NOT_READY


def test_reading_leaves_no_file_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / f"tau-metrics-{os.getpid()}-0.bp"
    write_stream(path, random_stream(7, [(5, 0, 0)]), "BP5")
    with StreamReader(path, "BPFile") as reader:
        assert isinstance(reader.next_step(5), TraceStep)
    assert not list(Path("/tmp").glob(f"{path.name}_*"))


def test_missing_file_is_a_one_line_error(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="no such trace stream"):
        StreamReader(tmp_path / "none.bp", "BPFile")


def test_file_that_is_no_stream_is_a_one_line_error(tmp_path: Path) -> None:
    path = tmp_path / "tau-metrics-app-0.bp"
    path.write_text("hello")
    with pytest.raises(TraceFormatError) as raised:
        StreamReader(path, "BPFile")
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def write_one_variable(path: Path, name: str, array: np.ndarray, count: str, rows: int) -> None:
    adios = adios2.ADIOS()
    io = adios.DeclareIO("writer")
    engine = io.Open(str(path), adios2.Mode.Write)
    number = np.array([rows], np.uint64)
    variables = [io.DefineVariable(count, number)]
    shape = list(array.shape)
    variables.append(io.DefineVariable(name, array, shape, [0] * len(shape), shape, True))
    engine.BeginStep()
    engine.Put(variables[0], number)
    engine.Put(variables[1], array)
    engine.EndStep()
    engine.Close()


@pytest.mark.parametrize(
    "array",
    [np.zeros((3, 5), np.uint64), np.zeros((3, 6), np.float64), np.zeros(6, np.uint64)],
    ids=["columns", "type", "dimensions"],
)
def test_arrays_of_another_layout_are_an_error(tmp_path: Path, array: np.ndarray) -> None:
    path = tmp_path / "other-app-0.bp"
    write_one_variable(path, "event_timestamps", array, "timer_event_count", 3)
    with (
        StreamReader(path, "BPFile") as reader,
        pytest.raises(TraceFormatError, match="event_timestamps has type"),
    ):
        reader.next_step(5)


def test_step_without_tau_variables_is_an_empty_step(tmp_path: Path) -> None:
    path = tmp_path / "other-app-0.bp"
    write_one_variable(path, "temperature", np.ones((2, 2)), "timer_event_count", 4)
    (step,) = read_stream(path, "BPFile")
    assert step.events.shape == (0, 6)
    assert step.comms.shape == (0, 8)
