"""Traces of several formats become one, on one clock, and what is written is read again."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.conversion import Flag, detours, flags_of
from chimbuko.capture.formats.conversion import convert
from chimbuko.capture.formats.tracemerge import merge
from chimbuko.capture.trace.discovery import StreamName, find_recorded
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.traceschema import EventType, StreamNames, TraceStep
from tests.capture.formats.traces import PERIOD_US, calls_of, chrome, rows_of, steps_of
from tests.places import DATA

ENDS = ("json", "pfw", "pftrace")


@pytest.fixture(scope="module")
def heat4(tmp_path_factory: pytest.TempPathFactory) -> list[StreamName]:
    """Four ranks of an MPI program."""
    folder = tmp_path_factory.mktemp("heat4")
    shutil.unpack_archive(DATA / "heat4.tar.xz", folder)
    return find_recorded([str(folder / "heat4" / "*.bp")])


def first_steps(stream: StreamName, steps: int, folder: Path) -> StreamName:
    """A stream that has only so many steps of another."""
    found, names = steps_of(stream.path)
    path = folder / stream.path.name
    with StreamWriter(path) as writer:
        for step in found[:steps]:
            writer.write_step(step.events, step.comms, step.counters, names, step.details, step.operations)
    return stream._replace(path=path)


def back(streams: list[StreamName], folder: Path, end: str) -> list[StreamName]:
    """Streams that come out of a file which is made of streams."""
    folder.mkdir()
    path = folder / f"trace.{end}"
    merge(streams, [], path, is_aligned=False)
    return convert([path], folder / "streams", "heat2d", PERIOD_US).streams


def content(stream: StreamName) -> list[Any]:
    """All rows by what they mean: names in the place of numbers."""
    steps, names = steps_of(stream.path)
    return [[rows_by_name(step, names), step.counters[:, 2:].tolist()] for step in steps]


def rows_by_name(step: TraceStep, names: StreamNames) -> list[Any]:
    """Events and messages; the tag of a message is a name whose number the formats do not keep."""
    events = [(*row[1:4], names.timers[row[4]], row[5]) for row in step.events.tolist()]
    return [events, [(*row[1:4], *row[5:]) for row in step.comms.tolist()]]


def test_no_format_loses_a_call(heat4: list[StreamName], tmp_path: Path) -> None:
    """What comes back of each is the same, row by row, so flags are the same."""
    two = [first_steps(stream, 3, tmp_path) for stream in heat4[1:3]]
    found = {end: [content(one) for one in back(two, tmp_path / end, end)] for end in ENDS}
    assert found["pfw"] == found["json"]
    for one, other in zip(found["pftrace"], found["json"], strict=True):
        # Perfetto's flows have no sizes.
        assert [step[0][0] for step in one] == [step[0][0] for step in other]
        assert [[row[:-2] for row in step[0][1]] for step in one] == [
            [row[:-2] for row in step[0][1]] for step in other
        ]
    for stream, steps in zip(two, found["json"], strict=True):
        recorded, names = steps_of(stream.path)
        expected: Counter[Any] = Counter()
        for step in recorded:
            expected.update((row[3], names.timers[row[4]], row[5]) for row in step.events.tolist())
        came = Counter((row[2], row[3], row[4]) for step in steps for row in step[0][0])
        assert came == expected


def flags_survive(streams: list[StreamName], folder: Path, enough: int) -> set[Flag]:
    """Whatever formats a recording goes through; it is cut into whole periods, as what comes back is."""
    recorded = back(streams, folder / "recorded", "pfw")
    expected = flags_of(recorded)
    assert len(expected) > enough
    (ways := folder / "ways").mkdir()
    for way in detours(recorded, ways):
        assert (way.flags, way.lost) == (len(expected), 0), way
    # A folder of streams keeps even the limits of steps.
    merge(streams, [], folder / "streams", is_aligned=False)
    assert flags_of(find_recorded([str(folder / "streams" / "*.bp")])) == flags_of(streams)
    return expected


def test_flags_are_the_same(heat4: list[StreamName], tmp_path: Path) -> None:
    """Also where each rank has a file of its own, in another format, and these are merged."""
    flags_survive([first_steps(stream, 4, tmp_path) for stream in heat4[1:3]], tmp_path, 20)


@pytest.mark.thorough
def test_flags_are_the_same_in_the_whole_recording(heat4: list[StreamName], tmp_path: Path) -> None:
    expected = flags_survive(heat4, tmp_path, 100)
    # Cut otherwise, by TAU, few are judged differently.
    assert len(expected & flags_of(heat4)) >= 0.98 * len(expected)


def shifted(folder: Path, shift_us: int) -> list[StreamName]:
    """Two ranks that exchange messages in 3 ms each; the clock of the second is ahead."""
    found = []
    for rank in (0, 1):
        clock = 10_000_000 + rank * shift_us
        names = StreamNames(timers={0: "MPI_Sendrecv"}, program="p")
        name = StreamName("p", rank, folder / f"tau-metrics-p-{rank}.bp")
        with StreamWriter(name.path) as writer:
            for number in range(20):
                begin = clock + 50_000 * number
                times = ((EventType.SEND, 1000), (EventType.RECV, 4000))
                comms = [[0, rank, 0, kind, 5, 1 - rank, 8, begin + after] for kind, after in times]
                events = [[0, rank, 0, 0, 0, begin], [0, rank, 0, 1, 0, begin + 5000]]
                arrays = (
                    np.array(events, np.uint64),
                    np.array(comms, np.uint64),
                    np.empty((0, 6), np.uint64),
                )
                writer.write_step(*arrays, names)
        found.append(name)
    return found


def test_clocks_are_aligned(tmp_path: Path) -> None:
    streams = shifted(tmp_path, 30_000)
    merged = merge(streams, [], tmp_path / "merged", is_aligned=True)
    (rank,) = merged.offsets_us
    ahead_us, uncertain_us = merged.offsets_us[rank]
    # Of bounds of 3 ms to either side the correction that is nearest to none.
    assert abs((ahead_us if rank else -ahead_us) - 30_000) <= 3_300
    assert uncertain_us <= 7_000
    sent, received = (
        [row for step in steps_of(stream.path)[0] for row in step.comms.tolist()]
        for stream in find_recorded([str(tmp_path / "merged" / "*.bp")])
    )
    for one, other in ((sent, received), (received, sent)):
        times = zip(
            (row[7] for row in one if row[3] == EventType.SEND),
            (row[7] for row in other if row[3] == EventType.RECV),
            strict=True,
        )
        assert all(after >= before - 250 for before, after in times)


def test_clocks_that_agree_stay_as_they_are(tmp_path: Path) -> None:
    merged = merge(shifted(tmp_path, 2_000), [], tmp_path / "merged.json", is_aligned=True)
    assert merged.offsets_us == {}
    assert len(json.loads((tmp_path / "merged.json").read_bytes())["traceEvents"]) == 2 + 2 * 20 * 4


def test_clocks_of_a_training_by_its_collective_operations(tmp_path: Path) -> None:
    """One rank's clock is put 40 ms ahead: nobody may leave an operation before it came."""
    paths = []
    for path in sorted((DATA / "kineto").glob("rank*.gz")):
        trace = json.loads(gzip.decompress(path.read_bytes()))
        trace["baseTimeNanoseconds"] += 40_000_000 if "rank2" in path.name else 0
        paths.append(tmp_path / path.name.removesuffix(".gz"))
        paths[-1].write_text(json.dumps(trace))
    merged = merge([], paths, tmp_path / "all.pftrace", is_aligned=True)
    ahead = {rank: ahead_us for rank, (ahead_us, _) in merged.offsets_us.items()}
    assert ahead.get(2, 0) - ahead.get(0, 0) == pytest.approx(40_000, abs=10_000)


def test_streams_and_files_together(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_bytes(chrome({"ph": "X", "name": "f", "ts": 10_000_000, "dur": 5}))
    merge(shifted(tmp_path, 0), [trace], tmp_path / "all.pfw", is_aligned=True)
    result = convert([tmp_path / "all.pfw"], tmp_path / "streams", "program", PERIOD_US)
    assert Counter((rank, name) for rank, _, name, _, _ in calls_of(result)) == {
        (0, "MPI_Sendrecv"): 20,
        (1, "MPI_Sendrecv"): 20,
        (2, "f"): 1,
    }


def of_two_programs(folder: Path) -> list[StreamName]:
    """Of each the ranks 0 and 1, which exchange messages; a clock of the second is far ahead."""
    found = []
    for program, shift_us in (("one", 0), ("two", 30_000)):
        (own := folder / program).mkdir()
        for stream in shifted(own, shift_us):
            path = stream.path.rename(folder / f"tau-metrics-{program}-{stream.rank}.bp")
            found.append(stream._replace(program=program, path=path))
    return found


@pytest.mark.parametrize("end", ENDS)
def test_programs_that_have_the_same_ranks(tmp_path: Path, end: str) -> None:
    """Each process is one of its own, messages stay within their program, and so do clocks."""
    merged = merge(of_two_programs(tmp_path), [], tmp_path / f"all.{end}", is_aligned=True)
    assert [(stream.program, stream.rank) for stream in merged.streams] == [
        ("one", 0),
        ("one", 1),
        ("two", 2),
        ("two", 3),
    ]
    assert merged.moved == [("two", 0, 2)]
    (ahead,) = merged.offsets_us
    assert ahead in (2, 3)
    result = convert([tmp_path / f"all.{end}"], tmp_path / "streams", "program", PERIOD_US)
    assert Counter(call[0] for call in calls_of(result)) == dict.fromkeys(range(4), 20)
    partners = {(rank, partner) for _, rank, _, _, _, partner, *_ in rows_of(result, "comms")}
    assert partners == {(0, 1), (1, 0), (2, 3), (3, 2)}


def test_programs_that_have_the_same_ranks_in_a_folder(tmp_path: Path) -> None:
    """They stay two programs, and no two of their processes have the same number."""
    merge(of_two_programs(tmp_path), [], tmp_path / "all", is_aligned=False)
    found = find_recorded([str(tmp_path / "all" / "*.bp")])
    assert [(stream.program, stream.rank) for stream in found] == [
        ("one", 0),
        ("one", 1),
        ("two", 2),
        ("two", 3),
    ]
    for stream in found:
        rows = [row for step in steps_of(stream.path)[0] for row in step.comms.tolist()]
        assert {(row[1], row[5]) for row in rows} == {(stream.rank, stream.rank ^ 1)}


def test_programs_of_one_job_keep_their_ranks(tmp_path: Path) -> None:
    """A job of two programs has one numbering, and messages between them."""
    streams = [
        stream._replace(program=program)
        for stream, program in zip(shifted(tmp_path, 0), ("solver", "coupler"), strict=True)
    ]
    merged = merge(streams, [], tmp_path / "all.pfw", is_aligned=False)
    assert merged.moved == []
    assert [(stream.program, stream.rank) for stream in merged.streams] == [("coupler", 1), ("solver", 0)]


def test_targets_that_cannot_be(tmp_path: Path) -> None:
    streams = shifted(tmp_path, 0)
    for target, complaint in (
        (tmp_path, "is there already"),
        (tmp_path / "x.csv", "in no format that can be written"),
        (tmp_path / "none" / "x.json", "is there such a folder"),
    ):
        with pytest.raises(TraceFormatError, match=complaint):
            merge(streams, [], target, is_aligned=False)


def test_rows_that_are_left_out_are_said(tmp_path: Path) -> None:
    path = tmp_path / "tau-metrics-p-0.bp"
    names = StreamNames(timers={0: "f"}, event_types={int(kind): kind.name for kind in EventType})
    rows = np.array([[0, 0, 0, kind, 0, time_us] for kind, time_us in ((0, 5), (1, 9), (0, 0))], np.uint64)
    nothing = np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64)
    with StreamWriter(path) as writer:
        writer.write_step(rows, *nothing, names)
    merged = merge(find_recorded([str(path)]), [], tmp_path / "all.json", is_aligned=False)
    assert merged.complaints == [f"{path}: left out are 1 events whose time is absurd"]
