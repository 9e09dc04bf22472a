"""Each event that a reader leaves out is counted under its reason, and there is no reason that none has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import otf2
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from otf2 import events as otf2_events
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent

from chimbuko.capture.formats import conversion
from chimbuko.capture.formats.eras import Eras
from chimbuko.capture.formats.following import Held
from chimbuko.capture.formats.readers import chrome, events, kineto, perfetto
from chimbuko.capture.formats.readers.caliper import _Regions
from chimbuko.capture.formats.readers.events import (
    WITHOUT_LOSS,
    Catalogue,
    Dropped,
    Kind,
    Process,
    Track,
    TrackKind,
    table_of,
)
from chimbuko.capture.formats.readers.frames import events_of
from chimbuko.capture.formats.readers.otf2 import _Locations
from chimbuko.capture.formats.rows import MOST_LANES, TrackCalls
from tests.capture.formats.traces import chrome as chrome_text

Fields = dict[str, Any]
TIMED = {"ts": 5, "pid": 1, "tid": 1}


def of_text(text: bytes, reader: type[chrome.Reader] = chrome.Reader) -> Counter[str]:
    catalogue = Catalogue()
    taken = reader(catalogue, 0, "trace.json")
    taken.feed(text)
    taken.finish()
    return catalogue.losses


def of_chrome(*fields: Fields) -> Callable[[], Counter[str]]:
    return lambda: of_text(chrome_text(*fields))


def of_kineto(*fields: Fields) -> Callable[[], Counter[str]]:
    return lambda: of_text(chrome_text(*fields), kineto.Reader)


def of_perfetto(packet: TracePacket | None) -> Callable[[], Counter[str]]:
    text = b"\xff\xff" if packet is None else packet.SerializeToString()

    def losses() -> Counter[str]:
        catalogue = Catalogue()
        taken = perfetto.Reader(catalogue, 0, "trace.pftrace")
        taken.feed(b"\x0a" + bytes([len(text)]) + text)
        taken.finish()
        return catalogue.losses

    return losses


def event_of_perfetto(time_ns: int | None = 5, **fields: Any) -> TracePacket:
    packet = TracePacket(track_event=TrackEvent(**fields))
    if time_ns is not None:
        packet.timestamp = time_ns
    return packet


def of_caliper(record: Mapping[str, Any]) -> Callable[[], Counter[str]]:
    def losses() -> Counter[str]:
        catalogue = Catalogue()
        _Regions(catalogue, 0).take(record)
        return catalogue.losses

    return losses


def of_otf2(*happened: Any, is_ended: bool = False) -> Callable[[], Counter[str]]:
    def losses() -> Counter[str]:
        catalogue = Catalogue()
        group = SimpleNamespace(_ref=0, name="MPI Rank 0")
        location = SimpleNamespace(_ref=0, group=group, type=otf2.LocationType.CPU_THREAD, name="main")
        clock = SimpleNamespace(global_offset=0)
        definitions = SimpleNamespace(clock_properties=clock, locations=[location])
        locations = _Locations(catalogue, 0, SimpleNamespace(definitions=definitions, timer_resolution=10**9))
        for event in happened:
            locations.take(location, event, [])
        if is_ended:
            locations.finish()
        return catalogue.losses

    return losses


def otf2_event(kind: type, **fields: Any) -> Any:
    event = object.__new__(kind)
    for name, value in ({"time": 5} | fields).items():
        object.__setattr__(event, name, value)
    return event


def of_frame(event_type: str) -> Callable[[], Counter[str]]:
    def losses() -> Counter[str]:
        catalogue = Catalogue()
        events_of(pd.DataFrame({"Timestamp (ns)": [1], "Event Type": [event_type], "Name": ["a"]}), catalogue)
        return catalogue.losses

    return losses


def far_times() -> Counter[str]:
    catalogue, eras = Catalogue(), Eras()
    catalogue.processes.append(Process(0))
    catalogue.tracks.append(Track(0))
    window = table_of([(time_ns, 0, 0, 0, 0, Kind.BEGIN) for time_ns in (0, 1 << 60, (1 << 60) + 1)])
    eras.add(window)
    (kept,) = conversion._of_one_recording([window], catalogue, eras, [0])
    assert len(kept) == 2
    assert "1 events have times around 1970-01-01, 37 years before the others" in catalogue.complaints[0]
    return catalogue.losses


def late() -> Counter[str]:
    catalogue = Catalogue()
    catalogue.track(catalogue.process(0), 0)
    held = Held(catalogue)
    for time_ns in (10**12, 1):
        held.put(table_of([(time_ns, 0, 0, 0, 0, Kind.BEGIN)]))
        held.due()
    return catalogue.losses


def calls(*happened: Callable[[TrackCalls], None]) -> Callable[[], Counter[str]]:
    def losses() -> Counter[str]:
        catalogue = Catalogue()
        numbers = iter(range(1000))
        track = TrackCalls(catalogue, TrackKind.THREAD, lambda: next(numbers))
        for one in happened:
            one(track)
        return catalogue.losses

    return losses


def overlapping(track: TrackCalls) -> None:
    for number in range(MOST_LANES + 1):
        track.call(10_000 * number, 10**9 + 10_000 * number, 0, 0, [])


def too_many(what: str) -> Counter[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, f"MOST_{what}", 1)
        catalogue = Catalogue()
        for number in range(2):
            catalogue.track(0, number) if what == "TRACKS" else catalogue.name(str(number))
    return catalogue.losses


FLOW = {"id": 1, "name": "flow"}
CASES: list[tuple[Dropped, Callable[[], Counter[str]]]] = [
    (Dropped.NOT_JSON, lambda: of_text(b'[{"ph": X}]')),
    (Dropped.STRAY, lambda: of_text(b"[{}, oops, {}]")),
    (Dropped.NO_PHASE, of_chrome({"name": "solve"})),
    (Dropped.NO_PHASE, lambda: of_text(b'[{"what": "no event"}]')),
    (Dropped.UNKNOWN_PHASE, of_chrome({"ph": "?"})),
    (Dropped.UNKNOWN_PHASE, of_chrome({"ph": 5})),
    *((Dropped.NO_TIME, of_chrome({"ph": phase, "ts": None})) for phase in "XBEbeSFstfC"),
    (Dropped.NO_TIME, of_chrome({"ph": "X", "dur": "long"})),
    (Dropped.NO_TIME, of_perfetto(event_of_perfetto(None))),
    (Dropped.NO_TIME, of_caliper({"event.begin#function": "main"})),
    (Dropped.NO_TIME, of_otf2(otf2_event(otf2_events.Enter, time=-1))),
    (Dropped.NEGATIVE, of_chrome({"ph": "X", "dur": -1})),
    (Dropped.NO_VALUE, of_chrome({"ph": "C", "args": {}})),
    (Dropped.NO_VALUE, of_chrome({"ph": "C", "args": [1]})),
    *((Dropped.NO_VALUE, of_chrome({"ph": "C", "args": {"a": value}})) for value in (-1, "1", True, None)),
    (Dropped.NO_VALUE, of_perfetto(event_of_perfetto(type=TrackEvent.TYPE_COUNTER, counter_value=-1))),
    (
        Dropped.NO_VALUE,
        of_otf2(
            otf2_event(
                otf2_events.Metric,
                metric=SimpleNamespace(members=[SimpleNamespace(name="a")]),
                values=[float("nan")],
            )
        ),
    ),
    (Dropped.NOT_UNDERSTOOD, of_perfetto(None)),
    (Dropped.NO_TRACK_EVENTS, of_perfetto(TracePacket(process_stats={}))),
    (Dropped.UNKNOWN_TYPE, of_perfetto(event_of_perfetto(type=TrackEvent.TYPE_UNSPECIFIED))),
    (Dropped.UNKNOWN_TYPE, of_frame("Fork")),
    (Dropped.INSTANTS, of_frame("Instant")),
    (Dropped.INSTANTS, of_perfetto(event_of_perfetto(type=TrackEvent.TYPE_INSTANT))),
    *((Dropped.INSTANTS, of_chrome({"ph": phase})) for phase in "iIRnTp"),
    (
        Dropped.NO_ARGUMENTS,
        lambda: of_text(b'[{"ph": "M", "name": "process_labels", "args": {"labels": "\\ud800"}}]'),
    ),
    (Dropped.SAMPLES, of_chrome({"ph": "P"})),
    *((Dropped.OBJECTS, of_chrome({"ph": phase})) for phase in "NOD"),
    *((Dropped.MEMORY_DUMPS, of_chrome({"ph": phase})) for phase in "vV"),
    (Dropped.CLOCKS, of_chrome({"ph": "c"})),
    *((Dropped.CONTEXTS, of_chrome({"ph": phase})) for phase in "()"),
    (Dropped.METADATA, of_chrome({"ph": "M", "name": "process_sort_index", "args": {"sort_index": 1}})),
    *((Dropped.ONE_END, of_chrome(FLOW | {"ph": phase})) for phase in "sf"),
    (Dropped.ONE_END, of_chrome(FLOW | {"ph": "s"}, FLOW | {"ph": "s"}, FLOW | {"ph": "f", "pid": 2})),
    (Dropped.WITHIN, of_chrome(FLOW | {"ph": "s"}, FLOW | {"ph": "t"})),
    (Dropped.UNKNOWN_PARTNER, of_otf2(otf2_event(otf2_events.MpiSend, communicator=None, receiver=1))),
    (Dropped.OPEN_OPERATIONS, of_otf2(otf2_event(otf2_events.MpiCollectiveBegin), is_ended=True)),
    (Dropped.OPEN_OPERATIONS, of_otf2(*[otf2_event(otf2_events.MpiCollectiveBegin)] * 2)),
    (Dropped.OTHER_RECORDS, of_otf2(otf2_event(otf2_events.ThreadFork))),
    (Dropped.OTHER_RECORDS, of_caliper({"time.offset.ns": "5", "region": "main"})),
    (Dropped.OF_THE_PROFILER, of_kineto({"ph": "X", "cat": "overhead"})),
    *((Dropped.LAUNCH_FLOWS, of_kineto(FLOW | {"ph": phase})) for phase in "stf"),
    (Dropped.NOT_BEGUN, calls(lambda track: track.end(5, 0, 0, []))),
    (Dropped.MANY_LANES, calls(overlapping)),
    (Dropped.MANY_TRACKS, lambda: too_many("TRACKS")),
    (Dropped.MANY_NAMES, lambda: too_many("NAMES")),
    (Dropped.FAR_TIME, far_times),
    (Dropped.LATE, late),
]


@pytest.mark.parametrize(("reason", "losses"), CASES)
def test_what_is_left_out_is_counted_once(reason: Dropped, losses: Callable[[], Counter[str]]) -> None:
    assert losses() == {reason: 1}


def test_every_reason_is_walked() -> None:
    assert {reason for reason, _ in CASES} == set(Dropped)
    catalogue = Catalogue()
    catalogue.losses.update(Dropped)
    (line,) = conversion.losses_of(catalogue)
    assert {reason for reason in Dropped if f"{reason}: 1" in line} == set(Dropped) - WITHOUT_LOSS


PHASES = st.sampled_from("XBEbeSFiIRnTpPNODvVc()M?")


@given(
    st.lists(
        st.fixed_dictionaries(
            {"ph": PHASES}, optional={"ts": st.sampled_from((1, None)), "dur": st.sampled_from((-1, 1))}
        ),
        max_size=20,
    )
)
def test_each_event_is_a_row_or_is_counted(fields: list[Fields]) -> None:
    """Of the phases that are one row each at most."""
    catalogue = Catalogue()
    taken = chrome.Reader(catalogue, 0, "trace.json")
    rows = len(taken.feed(chrome_text(*fields)))
    assert rows + catalogue.losses.total() == len(fields)


def test_flows_that_end_by_a_step_are_whole() -> None:
    losses = of_text(
        chrome_text(FLOW | {"ph": "s"}, FLOW | {"ph": "t", "pid": 2}, FLOW | {"ph": "t", "pid": 3})
    )
    assert losses == {}


def test_trailing_commas_are_read() -> None:
    catalogue = Catalogue()
    taken = chrome.Reader(catalogue, 0, "trace.json")
    text = b'[{"ph": "X", "name": "a,}", "ts": 1, "dur": 2, "args": {"b": [1, 2,], "c": ",]",}}]'
    assert len(taken.feed(text)) == 1
    assert (catalogue.losses, catalogue.names) == ({}, ["a,}"])


def test_a_process_is_the_same_as_number_and_text() -> None:
    catalogue = Catalogue()
    chrome.Reader(catalogue, 0, "trace.json").feed(
        chrome_text(*({"ph": "X", "name": "a", "pid": pid, "tid": pid} for pid in (7, 7.0, "7", "seven")))
    )
    assert len(catalogue.processes) == len(catalogue.tracks) == 2
