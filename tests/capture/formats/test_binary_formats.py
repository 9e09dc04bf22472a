"""Perfetto, Caliper and OTF2: what their own libraries write is read again."""

from __future__ import annotations

import gzip
import io
import itertools
from pathlib import Path

import otf2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

from chimbuko.capture.formats.conversion import convert
from chimbuko.capture.formats.readers import perfetto
from chimbuko.capture.formats.readers.events import Catalogue
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.traceschema import (
    COMM_PARTNER,
    COMM_RANK,
    COMM_SIZE,
    COMM_TYPE,
    OPERATION_NUMBER,
    OPERATION_RANK,
    EventType,
)
from tests.capture.formats.traces import PERIOD_US, calls_of, converted, rows_of, steps_of

BEGIN, END, COUNTER, INSTANT = (
    TrackEvent.TYPE_SLICE_BEGIN,
    TrackEvent.TYPE_SLICE_END,
    TrackEvent.TYPE_COUNTER,
    TrackEvent.TYPE_INSTANT,
)


class Perfetto:
    """A trace of two processes, ``rank 1`` with a counter, and process 8."""

    def __init__(self) -> None:
        self.file = io.BytesIO()
        self.builder = StreamingTraceProtoBuilder(self.file)
        for pid in (7, 8):
            packet = self.packet()
            packet.sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
            packet.track_descriptor.uuid = pid
            packet.track_descriptor.process.pid = pid
            packet.track_descriptor.process.process_name = "rank 1" if pid == 7 else "other"
            self.builder.write_packet(packet)
            packet = self.packet()
            packet.track_descriptor.uuid = 10 * pid
            packet.track_descriptor.thread.pid = packet.track_descriptor.thread.tid = pid
            packet.track_descriptor.parent_uuid = pid
            self.builder.write_packet(packet)
        packet = self.packet()
        packet.track_descriptor.uuid = 5
        packet.track_descriptor.parent_uuid = 70
        packet.track_descriptor.name = "memory"
        packet.track_descriptor.counter.unit_multiplier = 10
        self.builder.write_packet(packet)

    def packet(self) -> TracePacket:
        packet = self.builder.create_packet()
        packet.trusted_packet_sequence_id = 1
        return packet

    def event(self, kind: int, track: int, time_us: int, name: str = "", flow: int = 0) -> None:
        packet = self.packet()
        packet.timestamp = 1000 * time_us
        packet.track_event.type = kind
        packet.track_event.track_uuid = track
        if kind == COUNTER:
            packet.track_event.counter_value = 42
        elif name:
            packet.interned_data.event_names.add(iid=len(name), name=name)
            packet.track_event.name_iid = len(name)
        if flow:
            packet.track_event.flow_ids.append(flow)
        self.builder.write_packet(packet)


def some_perfetto() -> bytes:
    trace = Perfetto()
    trace.event(BEGIN, 70, 1000, "outer")
    trace.event(BEGIN, 80, 1001, "receive")
    trace.event(COUNTER, 5, 1002)
    trace.event(BEGIN, 70, 1003, "in", flow=3)
    trace.event(END, 70, 1004)
    trace.event(INSTANT, 80, 1005, flow=3)
    trace.event(END, 70, 1006)
    trace.event(END, 80, 1007)
    return trace.file.getvalue()


def test_perfetto(tmp_path: Path) -> None:
    result = converted(tmp_path, some_perfetto(), name="trace.pftrace")
    assert calls_of(result) == [
        (0, 0, "receive", 1001, 1007),
        (1, 0, "outer", 1000, 1006),
        (1, 0, "in", 1003, 1004),
    ]
    assert [(row[COMM_RANK], row[COMM_TYPE], row[COMM_PARTNER]) for row in rows_of(result, "comms")] == [
        (0, EventType.RECV, 1),
        (1, EventType.SEND, 0),
    ]
    assert [row[4] for row in rows_of(result, "counters")] == [420]
    assert steps_of(result.streams[1].path)[1].counters == {0: "memory"}
    assert result.complaints == []


def test_perfetto_that_is_cut_off(tmp_path: Path) -> None:
    text = some_perfetto()
    result = converted(tmp_path, text[:-3], name="trace.pftrace")
    assert (0, 0, "receive", 1001, 0) in calls_of(result)
    assert "it ends within the packet that begins at byte" in result.complaints[0]


@given(
    st.integers(0, 10_000), st.binary(min_size=1, max_size=4), st.lists(st.integers(0, 10_000), max_size=3)
)
def test_no_perfetto_does_harm(at: int, bytes_: bytes, cuts: list[int]) -> None:
    text = bytearray(some_perfetto())
    at %= len(text)
    text[at : at + len(bytes_)] = bytes_
    reader = perfetto.Reader(Catalogue(), 0, "trace.pftrace")
    places = sorted({0, len(text), *(cut % len(text) for cut in cuts)})
    for begin, end in itertools.pairwise(places):
        reader.feed(bytes(text[begin:end]))
    reader.finish()


CALIPER = """\
__rec=node,id=20,attr=8,data=276,parent=3
__rec=node,id=21,attr=10,data=276,parent=3
__rec=node,id=22,attr=8,data=event.begin#function,parent=21
__rec=node,id=23,attr=8,data=event.end#function,parent=21
__rec=node,id=24,attr=10,data=1,parent=1
__rec=node,id=25,attr=8,data=time.offset.ns,parent=24
__rec=node,id=26,attr=8,data=mpi.rank,parent=24
__rec=node,id=30,attr=22,data=main
__rec=node,id=31,attr=22,data=foo
__rec=node,id=32,attr=23,data=foo
__rec=node,id=33,attr=23,data=main
__rec=ctx,ref=30,attr=25=26,data=1000000=3
__rec=ctx,ref=31,attr=25=26,data=2000000=3
__rec=ctx,ref=32,attr=25=26,data=2500000=3
__rec=ctx,ref=33,attr=25=26,data=4000000=3
"""


def test_caliper(tmp_path: Path) -> None:
    result = converted(tmp_path, CALIPER.encode(), name="events.cali")
    assert calls_of(result) == [(3, 0, "main", 1000, 4000), (3, 0, "foo", 2000, 2500)]
    assert result.complaints == []


@pytest.mark.parametrize("broken", ["oops,=", "__rec=ctx,data=\\"])
def test_caliper_that_is_broken(tmp_path: Path, broken: str) -> None:
    lines = CALIPER.splitlines(keepends=True)
    result = converted(tmp_path, "".join([*lines[:-2], f"{broken}\n", *lines[-2:]]).encode(), name="e.cali")
    assert calls_of(result) == [(3, 0, "main", 1000, 0), (3, 0, "foo", 2000, 0)]
    assert "it holds a line that is not Caliper's" in result.complaints[0]


@given(st.integers(0, 10_000), st.text(min_size=1, max_size=4))
def test_no_caliper_does_harm(tmp_path_factory: pytest.TempPathFactory, at: int, text: str) -> None:
    path = tmp_path_factory.mktemp("caliper") / "e.cali"
    at = 6 + at % (len(CALIPER) - 6)
    path.write_text(CALIPER[:at] + text + CALIPER[at + len(text) :])
    try:
        convert([path], path.parent / "streams", "program", PERIOD_US)
    except TraceFormatError as error:
        assert "\n" not in str(error)


def test_nodes_of_caliper_that_lead_in_circles(tmp_path: Path) -> None:
    lines = CALIPER.splitlines(keepends=True)
    circle = "__rec=node,id=40,attr=22,data=a,parent=41\n__rec=node,id=41,attr=22,data=b,parent=40\n"
    result = converted(tmp_path, "".join([*lines[:-2], circle, *lines[-2:]]).encode(), name="e.cali")
    assert len(calls_of(result)) == 2
    assert "it holds a line that is not Caliper's (a node that cannot be" in result.complaints[0]


def test_a_profile_of_caliper_holds_no_calls(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="it has no events with times; record with CALI_SERVICES"):
        converted(tmp_path, "".join(CALIPER.splitlines(keepends=True)[:-4]).encode(), name="p.cali")


def write_otf2(folder: Path) -> Path:
    """Two ranks: one sends to the other, and both take part in a barrier."""
    with otf2.writer.open(str(folder / "otf2"), timer_resolution=1_000_000) as trace:
        definitions = trace.definitions
        root = definitions.system_tree_node("node")
        functions = {
            name: definitions.region(name) for name in ("main", "MPI_Send", "MPI_Recv", "MPI_Barrier")
        }
        writers = []
        for rank in range(2):
            group = definitions.location_group(f"MPI Rank {rank}", system_tree_parent=root)
            writers.append(trace.event_writer(f"Master thread {rank}", group=group))
        locations = list(definitions.locations)
        definitions.group("ranks", otf2.GroupType.COMM_LOCATIONS, otf2.Paradigm.MPI, members=locations)
        everybody = definitions.comm(
            "world",
            group=definitions.group("all", otf2.GroupType.COMM_GROUP, otf2.Paradigm.MPI, members=locations),
        )
        for rank, writer in enumerate(writers):
            writer.enter(1000, functions["main"])
            if rank == 0:
                writer.enter(1010, functions["MPI_Send"])
                writer.mpi_send(1011, 1, everybody, 5, 64)
                writer.leave(1012, functions["MPI_Send"])
            else:
                writer.enter(1005, functions["MPI_Recv"])
                writer.mpi_recv(1018, 0, everybody, 5, 64)
                writer.leave(1020, functions["MPI_Recv"])
            writer.enter(1030, functions["MPI_Barrier"])
            writer.mpi_collective_begin(1031)
            writer.mpi_collective_end(1033, otf2.CollectiveOp.BARRIER, everybody, 0xFFFFFFFF, 0, 0)
            writer.leave(1034, functions["MPI_Barrier"])
            writer.leave(1050, functions["main"])
    return folder / "otf2" / "traces.otf2"


def test_otf2(tmp_path: Path) -> None:
    result = convert([write_otf2(tmp_path)], tmp_path / "streams", "program", PERIOD_US)
    assert result.complaints == []
    calls = calls_of(result)
    begin_us = calls[0][3]
    assert [(rank, name, begin - begin_us, end - begin_us) for rank, _, name, begin, end in calls] == [
        (0, "main", 0, 50),
        (0, "MPI_Send", 10, 12),
        (0, "MPI_Barrier", 30, 34),
        (1, "main", 0, 50),
        (1, "MPI_Recv", 5, 20),
        (1, "MPI_Barrier", 30, 34),
    ]
    assert [
        [row[at] for at in (COMM_RANK, COMM_TYPE, COMM_PARTNER, COMM_SIZE)]
        for row in rows_of(result, "comms")
    ] == [
        [0, EventType.SEND, 1, 64],
        [1, EventType.RECV, 0, 64],
    ]
    assert [(row[OPERATION_RANK], row[OPERATION_NUMBER]) for row in rows_of(result, "operations")] == [
        (0, 0),
        (1, 0),
    ]


def test_otf2_that_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "traces.otf2"
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(TraceFormatError, match="cannot be read"):
        convert([path], tmp_path / "streams", "program", PERIOD_US)


def test_otf2_that_is_cut_off(tmp_path: Path) -> None:
    """What came before is taken, as far as the library gives it."""
    with otf2.writer.open(str(tmp_path / "otf2"), timer_resolution=1_000_000) as trace:
        node = trace.definitions.system_tree_node("node")
        work = trace.definitions.region("work")
        group = trace.definitions.location_group("MPI Rank 0", system_tree_parent=node)
        writer = trace.event_writer("Master thread", group=group)
        for number in range(300):
            writer.enter(1000 + 100 * number, work)
            writer.leave(1050 + 100 * number, work)
    (events,) = (tmp_path / "otf2").rglob("*.evt")
    events.write_bytes(events.read_bytes()[: events.stat().st_size // 2])
    result = convert([tmp_path / "otf2" / "traces.otf2"], tmp_path / "streams", "program", PERIOD_US)
    assert 50 < len(calls_of(result)) < 300
    (complaint,) = result.complaints
    assert "what came before is taken" in complaint


def test_caliper_that_is_cut_off(tmp_path: Path) -> None:
    """Half a line is none, as half a number is another one."""
    result = converted(tmp_path, CALIPER[: CALIPER.rindex("00=3")].encode(), name="e.cali")
    assert calls_of(result) == [(3, 0, "main", 1000, 0), (3, 0, "foo", 2000, 2500)]
    assert "it ends within a line" in result.complaints[0]


def test_packed_caliper_that_is_cut_off(tmp_path: Path) -> None:
    pairs = (
        f"__rec=ctx,ref=31,attr=25=26,data={at}=3\n__rec=ctx,ref=32,attr=25=26,data={at + 999}=3\n"
        for at in range(4_000_000, 9_000_000, 2_000)
    )
    packed = gzip.compress(f"{CALIPER}{''.join(pairs)}".encode())
    result = converted(tmp_path, packed[: len(packed) // 2], name="e.cali.gz")
    assert 100 < len(calls_of(result)) < 2_500
    assert "it cannot be read any further" in result.complaints[0]
