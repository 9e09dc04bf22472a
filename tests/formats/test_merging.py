"""Traces of several formats become one, on one clock, and what is written is read again."""

from __future__ import annotations

import gzip
import json
import tarfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chimbuko.config import AnalysisConfig
from chimbuko.errors import TraceFormatError
from chimbuko.formats.streams.conversion import convert
from chimbuko.formats.streams.merging import merge
from chimbuko.trace.discovery import StreamName, find_recorded
from chimbuko.trace.schema import EventType, StreamNames, TraceStep
from chimbuko.trace.writer import StreamWriter
from evaluation.recorded import analyse
from tests.formats.traces import PERIOD_US, calls_of, chrome, steps_of
from tests.places import DATA

ENDS = ("json", "pfw", "pftrace")


@pytest.fixture(scope="module")
def heat4(tmp_path_factory: pytest.TempPathFactory) -> list[StreamName]:
    """Four ranks of an MPI program."""
    folder = tmp_path_factory.mktemp("heat4")
    with tarfile.open(DATA / "heat4.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return find_recorded([str(folder / "heat4" / "*.bp")])


def first_steps(stream: StreamName, steps: int, folder: Path) -> StreamName:
    """A stream that has only so many steps of another."""
    found, names = steps_of(stream.path)
    path = folder / stream.path.name
    with StreamWriter(path) as writer:
        for step in found[:steps]:
            writer.write_step(step.events, step.comms, step.counters, names, step.details, step.operations)
    return replace(stream, path=path)


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
    two = [first_steps(stream, 6, tmp_path) for stream in heat4[1:3]]
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


@pytest.mark.thorough
def test_flags_are_the_same(heat4: list[StreamName], tmp_path: Path) -> None:
    """Of a recording that is cut into whole periods, as what comes back is."""

    def flags(streams: list[StreamName]) -> set[tuple[int, str, int, int]]:
        calls = analyse(streams, AnalysisConfig(), 1).anomalies()
        return {(call.rank, call.function, call.entry_us, call.exit_us) for call in calls}

    recorded = back(heat4, tmp_path / "recorded", "pfw")
    expected = flags(recorded)
    assert len(expected) > 100
    for end in ENDS:
        assert flags(back(recorded, tmp_path / end, end)) == expected
    # Cut otherwise, by TAU, few are judged differently.
    assert len(expected & flags(heat4)) >= 0.98 * len(expected)


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


def test_targets_that_cannot_be(tmp_path: Path) -> None:
    streams = shifted(tmp_path, 0)
    for target, complaint in (
        (tmp_path, "is there already"),
        (tmp_path / "x.csv", "in no format that can be written"),
        (tmp_path / "none" / "x.json", "is there such a folder"),
    ):
        with pytest.raises(TraceFormatError, match=complaint):
            merge(streams, [], target, is_aligned=False)
