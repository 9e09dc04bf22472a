"""A trace for Perfetto, read back by Perfetto's own classes, says what was recorded."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    BuiltinClock,
    DebugAnnotation,
    Trace,
    TracePacket,
    TrackEvent,
)

from chimbuko.causes.incidents.sentence import sentence
from tests.provenance.exported import (
    DRIFT,
    GPU_THREAD,
    LATER_ID,
    LAUNCH_ID,
    LONG_NAME,
    ORIGIN_ID,
    WAITED_ID,
    ExportedRun,
    some_incidents,
)
from tests.sample_records import mentioned

HOST = "heat rank 1 (node7)", "thread 0"
GPU = "heat rank 1 (node7)", "GPU device 1, context 2, stream 3 (thread 8)"


@dataclass
class Event:
    """One event, with its names."""

    kind: str
    name: str
    time_us: float
    categories: list[str]
    arguments: dict[str, Any]
    flows: list[int]
    value: float


@dataclass
class Read:
    """What a reader makes of a trace."""

    tracks: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Names of a track and those that it is part of, outermost first."""
    events: dict[tuple[str, ...], list[Event]] = field(default_factory=lambda: defaultdict(list))
    """By track, by time; those of one time as they stand in the file."""
    clocks: dict[int, int] = field(default_factory=dict)


def read(path: Path) -> Read:
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    found = Read()
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for packet in trace.packet:
        if packet.sequence_flags & TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
            names.clear()
            arguments.clear()
        names.update((each.iid, each.name) for each in packet.interned_data.event_names)
        arguments.update((each.iid, each.name) for each in packet.interned_data.debug_annotation_names)
        found.clocks.update((clock.clock_id, clock.timestamp) for clock in packet.clock_snapshot.clocks)
        if packet.HasField("track_descriptor"):
            add_track(found, packet.track_descriptor)
        if packet.HasField("track_event"):
            event = packet.track_event
            found.events[found.tracks[event.track_uuid]].append(
                Event(
                    TrackEvent.Type.Name(event.type).removeprefix("TYPE_"),
                    names[event.name_iid] if event.name_iid else "",
                    packet.timestamp / 1000,
                    list(event.categories),
                    {arguments[each.name_iid]: value_of(each) for each in event.debug_annotations},
                    list(event.flow_ids),
                    event.double_counter_value,
                )
            )
    for events in found.events.values():
        events.sort(key=lambda event: event.time_us)
    return found


def add_track(found: Read, descriptor: Any) -> None:
    name = descriptor.name or descriptor.process.process_name or descriptor.thread.thread_name
    outer = found.tracks[descriptor.parent_uuid] if descriptor.HasField("parent_uuid") else ()
    assert descriptor.uuid not in found.tracks
    found.tracks[descriptor.uuid] = (*outer, name)


def value_of(annotation: DebugAnnotation) -> Any:
    return getattr(annotation, annotation.WhichOneof("value"))


def slices(events: list[Event]) -> list[tuple[Event, float, str]]:
    """Begin, end and the id of the slice around, of a track on which all begins have ends."""
    around: list[Event] = []
    found = []
    for event in events:
        if event.kind == "SLICE_BEGIN":
            around.append(event)
        elif event.kind == "SLICE_END":
            begin = around.pop()
            found.append((begin, event.time_us, around[-1].arguments["id"] if around else ""))
    assert not around
    return found


@pytest.fixture
def trace(exported_run: ExportedRun) -> Read:
    exported_run.export("perfetto")
    return read(exported_run.folder / "out")


def test_there_is_a_track_of_each_rank_thread_and_counter(trace: Read) -> None:
    rank1, rank2, coupler = "heat rank 1 (node7)", "heat rank 2 (node7)", "coupler rank 0 (node7)"
    assert sorted(trace.tracks.values()) == sorted(
        [
            *((rank,) for rank in (rank1, rank2, coupler)),
            *((rank, "anomalies") for rank in (rank1, rank2, coupler)),
            *((rank, "thread 0") for rank in (rank1, rank2, coupler)),
            *((rank, "thread 0", "MPI Recv bytes") for rank in (rank1, rank2, coupler)),
            *((rank, "monitoring: load") for rank in (rank1, rank2)),
            GPU,
            *((f"{program} incidents",) for program in ("heat", "coupler")),
            *((f"{program} incidents", "incidents") for program in ("heat", "coupler")),
            ("heat incidents", "recurring"),
            ("published quantities",),
            ("published quantities", "published"),
            ("published quantities", "published 2"),
        ]
    )


def test_each_call_stands_once_inside_its_parent(trace: Read, exported_run: ExportedRun) -> None:
    found = {begin.arguments["id"]: (begin, end, outer) for begin, end, outer in slices(trace.events[HOST])}
    records = [call for call in exported_run.records if (call.rank, call.thread) == (1, 0)]
    reported = {each.id: each for record in records for each in mentioned(record) if each.id != LAUNCH_ID}
    assert found.keys() == reported.keys() | {LAUNCH_ID}
    assert len(found) == len(slices(trace.events[HOST]))
    for event_id, call in reported.items():
        begin, end, _ = found[event_id]
        assert (begin.name, begin.time_us) == (call.function, call.entry_us)
        if call.exit_us:
            assert end == call.exit_us
            assert "is_open" not in begin.arguments
    main, end, outer = found["0:1:0:0"]
    assert (main.name, main.arguments["is_open"], outer) == ("main", True, "")
    assert end == max(end for _, end, _ in found.values())
    assert found["0:1:3:0"][2] == "0:1:0:0"


def test_what_was_judged_is_reported(trace: Read, exported_run: ExportedRun) -> None:
    anomaly, normal, *_ = exported_run.records
    found = {begin.arguments["id"]: begin for begin, _, _ in slices(trace.events[HOST])}
    for record in (anomaly, normal):
        own = found[record.id]
        assert own.arguments["severity_us"] == record.severity_us
        assert own.arguments["score"] == record.score
        assert own.arguments["step"] == record.step
        assert own.arguments["CPU_TIME"] == record.metrics[0].value
    assert [found[each].categories for each in (anomaly.id, normal.id, "0:1:3:90")] == [
        ["anomaly"],
        ["normal"],
        ["neighbour"],
    ]


def test_anomalies_have_a_track_of_their_own(trace: Read, exported_run: ExportedRun) -> None:
    marked = [
        (event.kind, event.name, event.time_us) for event in trace.events["heat rank 1 (node7)", "anomalies"]
    ]
    assert sorted(marked) == sorted(
        ("INSTANT", record.function, record.entry_us)
        for record in exported_run.records
        if record.rank == 1 and record.label == "anomaly"
    )


def test_an_open_call_ends_where_it_is_last_known_to_go_on(trace: Read, exported_run: ExportedRun) -> None:
    hanging = next(record for record in exported_run.records if not record.exit_us)
    (begin, end) = next(
        (begin, end)
        for begin, end, _ in slices(trace.events["heat rank 2 (node7)", "thread 0"])
        if begin.arguments["id"] == hanging.id
    )
    assert begin.arguments["is_open"]
    assert end == hanging.entry_us + hanging.inclusive_us


def test_a_kernel_and_its_launch_are_tied(trace: Read) -> None:
    gpu = {begin.name: begin for begin, _, _ in slices(trace.events[GPU])}
    launch = next(begin for begin, _, _ in slices(trace.events[HOST]) if begin.arguments["id"] == LAUNCH_ID)
    assert len(launch.flows) == 1
    assert gpu[LONG_NAME].flows == launch.flows
    assert gpu["kernel"].flows == []
    assert gpu[LONG_NAME].categories == ["anomaly", "gpu"]


def test_a_send_and_its_receive_are_tied(trace: Read) -> None:
    ends = {
        event.name: (track, event)
        for track, events in trace.events.items()
        for event in events
        if event.categories == ["message"] and event.flows
    }
    (from_track, send), (to_track, receive) = ends["SEND"], ends["RECV"]
    assert send.flows == receive.flows
    assert (from_track[0], to_track[0]) == ("heat rank 2 (node7)", "heat rank 1 (node7)")
    assert (send.time_us, receive.time_us) == (1_000_040, 1_000_050)
    assert send.arguments["size_bytes"] == 8192


def test_incidents_are_tied_to_the_calls_that_waited(trace: Read) -> None:
    incident = slices(trace.events["heat incidents", "incidents"])
    (begin, end_us, _) = incident[0]
    assert (begin.time_us, end_us, begin.categories) == (1_000_000, 1_009_000, ["incident"])
    assert begin.arguments["sentence"] == sentence(some_incidents()[0])
    (recurring, end_us, _) = slices(trace.events["heat incidents", "recurring"])[0]
    assert (recurring.name, recurring.time_us, end_us) == ("R1 slow mode main", 900_000, 2_000_000)
    (drift, end_us, _) = slices(trace.events["published quantities", "published"])[0]
    assert (drift.name, drift.time_us, end_us) == ("M1 global drift: mass", 1_000_000, 1_500_000)
    assert (drift.arguments["sentence"], drift.arguments["ranks"]) == (DRIFT.sentence, "all")
    ends: dict[int, list[tuple[float, str]]] = defaultdict(list)
    for events in trace.events.values():
        for event in events:
            if event.kind == "INSTANT" and event.categories == ["incident"]:
                (flow,) = event.flows
                ends[flow].append((event.time_us, event.arguments["call_id"]))
    # Both ends of the first are at the last moment of both calls.
    assert {frozenset(both) for both in ends.values()} == {
        frozenset({(1_008_999, ORIGIN_ID), (1_008_999, WAITED_ID)}),
        frozenset({(1_008_999, WAITED_ID), (1_010_999, LATER_ID)}),
    }


def test_counters_have_their_values(trace: Read) -> None:
    values = {
        track[-1]: [(event.kind, event.time_us, event.value) for event in trace.events[track]]
        for track in trace.tracks.values()
        if track[0] == "heat rank 1 (node7)"
    }
    assert values["monitoring: load"] == [("COUNTER", 1_500_000, 3)]
    assert values["MPI Recv bytes"] == [("COUNTER", 1_000_060, 8192)]


def test_times_are_those_of_the_day(trace: Read) -> None:
    assert trace.clocks == {
        BuiltinClock.BUILTIN_CLOCK_BOOTTIME: 1_000_000_000,
        BuiltinClock.BUILTIN_CLOCK_REALTIME: 1_000_000_000,
    }


def test_long_names_are_written_once(exported_run: ExportedRun) -> None:
    exported_run.export("perfetto")
    assert (exported_run.folder / "out").read_bytes().count(LONG_NAME.encode()) == 1


def test_gpu_streams_are_no_threads_of_the_process(exported_run: ExportedRun) -> None:
    exported_run.export("perfetto")
    trace = Trace()
    trace.ParseFromString((exported_run.folder / "out").read_bytes())
    descriptors = [packet.track_descriptor for packet in trace.packet if packet.HasField("track_descriptor")]
    threads = [each.thread for each in descriptors if each.HasField("thread")]
    processes = {each.uuid: each.process.pid for each in descriptors if each.HasField("process")}
    assert {thread.thread_name for thread in threads} == {"thread 0"}
    assert len({thread.tid for thread in threads} | set(processes.values())) == len(threads) + len(processes)
    (stream,) = [each for each in descriptors if f"(thread {GPU_THREAD})" in each.name]
    assert stream.parent_uuid in processes
