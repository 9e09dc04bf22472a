"""Each phase of Chrome's events becomes what it means."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.capture.formats.readers import chrome as reader
from chimbuko.capture.formats.readers.events import MOST_TEXT, Catalogue
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.traceschema import COMM_PARTNER, COMM_RANK, COMM_TYPE, EventType
from tests.capture.formats.traces import calls_of, chrome, converted, rows_of, steps_of


def test_whole_calls_nest_although_the_inner_comes_first(tmp_path: Path) -> None:
    result = converted(
        tmp_path,
        chrome(
            {"ph": "X", "name": "inner", "ts": 1010, "dur": 20},
            {"ph": "X", "name": "outer", "ts": 1000, "dur": 100.75},
        ),
    )
    assert calls_of(result) == [(0, 0, "outer", 1000, 1100), (0, 0, "inner", 1010, 1030)]
    assert result.complaints == []


def test_begin_and_end_with_and_without_a_name(tmp_path: Path) -> None:
    result = converted(
        tmp_path,
        chrome(
            {"ph": "B", "name": "a", "ts": 1000},
            {"ph": "B", "name": "b", "ts": 1001},
            {"ph": "E", "ts": 1002},
            {"ph": "E", "name": "a", "ts": 1003},
            {"ph": "E", "name": "a", "ts": 1004},
        ),
    )
    assert calls_of(result) == [(0, 0, "a", 1000, 1003), (0, 0, "b", 1001, 1002)]
    assert result.complaints == ["left out of the traces: ends of calls that had not begun: 1"]


def test_calls_that_overlap_go_to_threads_of_their_own(tmp_path: Path) -> None:
    result = converted(
        tmp_path,
        chrome(
            {"ph": "X", "name": "a", "ts": 1000, "dur": 100},
            {"ph": "X", "name": "b", "ts": 1050, "dur": 100},
            {"ph": "X", "name": "c", "ts": 1060, "dur": 40.4},
        ),
    )
    assert calls_of(result) == [(0, 0, "a", 1000, 1100), (0, 0, "c", 1060, 1100), (0, 1, "b", 1050, 1150)]


def test_asynchronous_calls(tmp_path: Path) -> None:
    both = {"cat": "io", "name": "read"}
    result = converted(
        tmp_path,
        chrome(
            {"ph": "b", "id": 1, "ts": 1000, **both},
            {"ph": "b", "id": 2, "ts": 1010, **both},
            {"ph": "b", "id": 1, "ts": 1020, "cat": "io", "name": "part"},
            {"ph": "e", "id": 1, "ts": 1030, "cat": "io", "name": "part"},
            {"ph": "e", "id": 1, "ts": 1040, **both},
            {"ph": "e", "id": 2, "ts": 1050, **both},
            {"ph": "b", "id": 3, "ts": 1060, **both},
            {"ph": "e", "id": 3, "ts": 1070, **both},
        ),
    )
    assert calls_of(result) == [
        (0, 0, "read", 1000, 1040),
        (0, 0, "part", 1020, 1030),
        (0, 0, "read", 1060, 1070),
        (0, 1, "read", 1010, 1050),
    ]


def test_flows_between_processes_are_messages(tmp_path: Path) -> None:
    around = [{"ph": "X", "name": "f", "pid": pid, "tid": pid, "ts": 1000, "dur": 50} for pid in (1, 2)]
    result = converted(
        tmp_path,
        chrome(
            *around,
            {"ph": "s", "id": 9, "name": "m", "pid": 1, "tid": 1, "ts": 1010},
            {"ph": "f", "id": 9, "name": "m", "pid": 2, "tid": 2, "ts": 1020, "bp": "e"},
            {"ph": "s", "id": 8, "name": "m", "pid": 1, "tid": 1, "ts": 1010},
            {"ph": "f", "id": 8, "name": "m", "pid": 1, "tid": 1, "ts": 1020, "bp": "e"},
            {"ph": "s", "id": 7, "name": "m", "pid": 1, "tid": 1, "ts": 1010},
        ),
    )
    assert [(row[COMM_RANK], row[COMM_TYPE], row[COMM_PARTNER]) for row in rows_of(result, "comms")] == [
        (0, EventType.SEND, 1),
        (1, EventType.RECV, 0),
    ]
    assert result.complaints == ["left out of the traces: flows with one end: 1, flows within a process: 1"]


def test_local_ids_are_those_of_one_process(tmp_path: Path) -> None:
    flow = {"id2": {"local": "0x1"}, "name": "f"}
    begun = [{"ph": "s", "pid": pid, "ts": 1000 + pid, **flow} for pid in (1, 2)]
    ended = [{"ph": "f", "pid": pid, "ts": 1010 + pid, **flow} for pid in (2, 1)]
    calls = [{"ph": "X", "pid": pid, "name": "work", "ts": 990, "dur": 50} for pid in (1, 2)]
    result = converted(tmp_path, chrome(*calls, *begun, *ended))
    steps = [step for stream in result.streams for step in steps_of(stream.path)[0]]
    assert [len(step.comms) for step in steps] == [0] * len(steps)
    assert result.complaints == ["left out of the traces: flows within a process: 2"]


def test_calls_that_end_before_they_begin_are_counted(tmp_path: Path) -> None:
    result = converted(tmp_path, chrome(*({"ph": "X", "name": "a", "ts": 1000, "dur": us} for us in (-1, 5))))
    assert calls_of(result) == [(0, 0, "a", 1000, 1005)]
    assert result.complaints == ["left out of the traces: calls that end before they begin: 1"]


def test_long_names_that_differ_are_two_functions(tmp_path: Path) -> None:
    names = [10_000 * "n" + end for end in "ab"]
    events = ({"ph": "X", "name": name, "ts": 1000 + 10 * at, "dur": 5} for at, name in enumerate(names))
    kept = [call[2] for call in calls_of(converted(tmp_path, chrome(*events)))]
    assert len(set(kept)) == 2 and {len(name) for name in kept} == {MOST_TEXT}


def test_counters(tmp_path: Path) -> None:
    result = converted(
        tmp_path,
        chrome(
            {"ph": "X", "name": "f", "dur": 50},
            {"ph": "C", "name": "usage", "args": {"cpu": 99.7, "memory": 12}},
            {"ph": "C", "name": "queue", "args": {"value": 3}},
            {"ph": "C", "name": "bad", "args": {"a": -1, "b": "x", "c": None}},
        ),
    )
    (stream,) = result.streams
    names = steps_of(stream.path)[1].counters
    assert [(names[row[3]], row[4]) for row in rows_of(result, "counters")] == [
        ("usage: cpu", 99),
        ("usage: memory", 12),
        ("queue", 3),
    ]


def test_ranks_and_names(tmp_path: Path) -> None:
    def process(pid: int, name: str) -> dict[str, Any]:
        return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}

    calls = [{"ph": "X", "name": "f", "pid": pid, "tid": 7, "dur": 5} for pid in (10, 11, 12)]
    thread = {"ph": "M", "name": "thread_name", "pid": 10, "tid": 7, "args": {"name": "worker"}}
    result = converted(
        tmp_path, chrome(*calls, process(10, "MPI Rank 2"), process(11, "other"), process(99, "idle"), thread)
    )
    assert [stream.rank for stream in result.streams] == [0, 1, 2]
    metadata = steps_of(result.streams[2].path)[1].metadata
    names = {key: value for key, value in metadata.items() if key[2].endswith("Name")}
    assert names == {(2, 0, "Process Name"): "MPI Rank 2", (2, 0, "Thread Name"): "worker"}


def test_files_have_processes_of_their_own(tmp_path: Path) -> None:
    call = chrome({"ph": "X", "name": "f", "dur": 5, "cat": "module"})
    result = converted(tmp_path, call, gzip.compress(call), name="t.pfw")
    assert calls_of(result) == [(rank, 0, "f [module]", 1000, 1005) for rank in (0, 1)]


def test_unclosed_and_cut_off(tmp_path: Path) -> None:
    text = b'[\n{"ph": "X", "name": "f", "ts": 5, "dur": 1, "pid": 1, "tid": 1},\n{"ph": "X", "na'
    result = converted(tmp_path, text)
    assert len(calls_of(result)) == 1
    (complaint,) = result.complaints
    assert complaint.endswith(
        "0-trace.json: it ends within what begins at byte 67; what came before is taken"
    )


def test_packed_file_that_is_cut_off(tmp_path: Path) -> None:
    calls = [
        {"ph": "X", "name": f"f{n}", "ts": 1000 + 37 * n + 7919 * n % 31, "dur": 1} for n in range(20_000)
    ]
    packed = gzip.compress(chrome(*calls))
    result = converted(tmp_path, packed[: len(packed) // 2], name="t.json.gz")
    assert result.events > 1000
    assert "cannot be read any further" in result.complaints[0]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "not a trace in a format that is known here"),
        (b"hello", "not a trace in a format that is known here"),
        (b"[]", "there are no calls in it (no events were found)"),
        (b'[{"ph": "X"}]', "there are no calls in it (left out of the traces: events without a time: 1)"),
        (b"{}", "it has no traceEvents, and nothing else: no layout that is known here"),
        (
            b'{"nodes": [], "startTime": 1, "samples": [], "timeDeltas": []}',
            "it has no traceEvents, but nodes, startTime, samples, timeDeltas: a CPU profile of V8",
        ),
        (
            b'{"rocprofiler-sdk-tool": [{',
            "it is no JSON of rocprofv3 (",
        ),
        (b'{"Event": "Start", "Spark Version": "3"}\n{"Event"', "an event log of Spark"),
        (b"\x1f\x8b\x08broken", "cannot be read"),
    ],
)
def test_what_is_no_trace(tmp_path: Path, text: bytes, complaint: str) -> None:
    with pytest.raises(TraceFormatError) as raised:
        converted(tmp_path, text)
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just([1])
FIELDS = dict.fromkeys(("name", "cat", "pid", "tid", "ts", "dur", "id", "args", "scope"), SCALARS)


@given(
    st.lists(
        st.fixed_dictionaries({"ph": st.sampled_from("XBEbeSFstfCMiOP?")}, optional=FIELDS)  # type: ignore[arg-type]
    )
)
def test_no_event_does_harm(events: list[dict[str, Any]]) -> None:
    """Whatever its fields hold: Python's JSON has NaN, and numbers of any length."""
    taken = reader.Reader(Catalogue(), 0, "trace.json")
    table = taken.feed(json.dumps(events).encode())
    assert len(table) <= 2 * len(events) or any(isinstance(event.get("args"), dict) for event in events)
    taken.finish()


def test_events_one_a_line(tmp_path: Path) -> None:
    lines = [json.dumps({"ph": "X", "name": "f", "pid": 1, "tid": 1, "ts": 10 * n, "dur": 5}) for n in (1, 2)]
    result = converted(tmp_path, "\n".join(lines).encode())
    assert calls_of(result) == [(0, 0, "f", 10, 15), (0, 0, "f", 20, 25)]
    assert result.complaints == []


def test_times_of_another_year_are_left_out_and_said(tmp_path: Path) -> None:
    now = 1_700_000_000_000_000
    times = [0.0, 0.0, *(now + 10 * n for n in range(3))]
    result = converted(tmp_path, chrome(*({"ph": "X", "name": "f", "ts": ts, "dur": 5} for ts in times)))
    assert [call[3] for call in calls_of(result)] == [now, now + 10, now + 20]
    assert result.complaints == [
        "2 events have times around 1970-01-01, 54 years before the others: they cannot be of one recording, "
        "and are left out",
        "left out of the traces: events whose time lies years from the others: 2",
    ]


def test_clocks_that_are_years_apart_are_said(tmp_path: Path) -> None:
    texts = [chrome({"ph": "X", "name": "f", "ts": ts, "dur": 5}) for ts in (1_700_000_000_000_000, 1000)]
    result = converted(tmp_path, *texts)
    assert len(calls_of(result)) == 2
    assert result.complaints == [
        "the times of rank 1 lie 54 years before those of the others: their clocks differ"
    ]
