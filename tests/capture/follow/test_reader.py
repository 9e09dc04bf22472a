"""A stream that is read while it is written, given back, dropped, or left by a writer that died."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from chimbuko.capture.follow.followedstream import FollowedStream
from chimbuko.capture.follow.holes import GUARD, DataFile
from chimbuko.capture.follow.instances import aside_of
from chimbuko.capture.follow.steps import StepIndex
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.capture.trace.source import Waiting
from chimbuko.core.traceschema import LOST_STEPS, StreamNames, TraceStep
from tests.capture.follow.streams import NAMES, events, opened, write_step
from tests.capture.trace.whole_streams import assert_equal, random_stream, read_stream, write_stream
from tests.places import ROOT

STEPS = 30


def followed(path: Path, first_step: int = 0, kept: Path | None = None) -> FollowedStream:
    return FollowedStream(path, 0, 0, first_step, StreamNames(), kept and kept / path.name)


def drop_before(path: Path, step: int) -> None:
    """What the guard does with steps for which there is no room, also in what was set aside."""
    place = aside_of(path, 0) if aside_of(path, 0).exists() else path
    index = StepIndex(place)
    index.read()
    DataFile(place, GUARD).give_back(step, index.begin(step))


def read_all(stream: FollowedStream) -> tuple[list[int], Waiting]:
    """Numbers of all steps that there are; each has its own rows."""
    numbers = []
    while isinstance(step := stream.next_step(0.0), TraceStep):
        np.testing.assert_array_equal(step.events, events(step.step, len(step.events)))
        numbers.append(step.step)
    return numbers, step


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tau-metrics-app-0.bp"


def test_each_step_comes_as_soon_as_it_is_written(path: Path) -> None:
    """The folder is there first, then its files, then step after step, then the end."""
    path.mkdir()
    stream = followed(path)
    assert stream.next_step(0.0) is Waiting.NOT_READY
    with opened(path) as writer:
        assert read_all(stream) == ([], Waiting.NOT_READY)
        for step in range(5):
            write_step(writer, step, comms=step, counters=3)
            got = stream.next_step(None)
            assert isinstance(got, TraceStep)
            assert (got.step, len(got.comms), len(got.counters)) == (step, step, 3)
            assert stream.next_step(0.0) is Waiting.NOT_READY
    assert read_all(stream) == ([], Waiting.END)
    assert (stream.names.timers, stream.names.event_types) == (NAMES.timers, NAMES.event_types)


def test_it_reads_what_a_reader_of_the_whole_file_reads(path: Path) -> None:
    """New names in every step, arrays that are absent, and metadata that grows."""
    chance = np.random.default_rng(5)
    steps = random_stream(5, [tuple(chance.integers(0, 400, 3).tolist()) for _ in range(STEPS)])
    write_stream(path, steps, "BP5")
    stream = followed(path)
    for step in steps:
        got = stream.next_step(0.0)
        assert isinstance(got, TraceStep) and got.step == step.number
        for name in ("events", "comms", "counters"):
            np.testing.assert_array_equal(getattr(got, name), getattr(step, name))
        if step.number % 3 == 0:
            stream.give_back(step.number + 1)
    assert stream.next_step(0.0) is Waiting.END
    assert (stream.names.timers, stream.names.counters) == (steps[-1].names.timers, steps[-1].names.counters)


def test_metadata_that_comes_without_a_count_is_known_at_the_end(path: Path) -> None:
    with opened(path) as writer:
        write_step(writer, 0)
        names = StreamNames(NAMES.timers, NAMES.counters, NAMES.event_types, "", {(0, 0, "late"): "x"})
        writer.write_step(events(0), np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64), names)
    with StreamReader(path, "BPFile") as reader:
        while isinstance(reader.next_step(), TraceStep):
            pass
        assert reader.names.metadata == {(0, 0, "late"): "x"}
    stream = followed(path)
    while isinstance(last := stream.next_step(0.0), TraceStep):
        pass
    assert last is Waiting.END
    assert stream.names.metadata == {(0, 0, "late"): "x"}


WRITE_UNTIL_KILLED = """
import sys
from pathlib import Path
from tests.capture.follow.streams import opened, write_step
writer = opened(Path(sys.argv[1]))
step = 0
while True:
    write_step(writer, step)
    print(step, flush=True)
    step += 1
"""


def test_of_a_writer_that_was_killed_all_complete_steps_are_there(path: Path) -> None:
    """It is killed while it writes as fast as it can: what it said it had written is there."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE_UNTIL_KILLED, str(path)], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    said = [int(process.stdout.readline()) for _ in range(50)]
    # While it stands still, for one that reads as fast as it writes comes to no end.
    process.send_signal(signal.SIGSTOP)
    stream = followed(path)
    read, last = read_all(stream)
    assert last is Waiting.NOT_READY
    process.send_signal(signal.SIGKILL)
    process.wait()
    said += [int(line) for line in process.stdout]
    process.stdout.close()
    more, last = read_all(stream)
    # As long as nobody says that it is dead, it may go on.
    assert last is Waiting.NOT_READY
    stream.end()
    assert read_all(stream) == ([], Waiting.BROKEN)
    assert read + more == list(range(len(read + more)))
    assert len(read + more) >= len(said)


@pytest.mark.parametrize("seed", range(4))
def test_steps_that_are_dropped_are_a_gap_and_never_zeros(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The guard drops steps at any time: before a step is read, while it is, and before it is kept."""
    with opened(path) as writer:
        for step in range(STEPS):
            write_step(writer, step, rows=3000)
    shutil.copytree(path, tmp_path / "original" / path.name)
    chance = random.Random(seed)
    next_step, copies = StreamReader.next_step, tmp_path / "kept"
    at = 0

    def drop_some() -> None:
        if chance.random() < 0.2:
            drop_before(path, min(at + chance.randrange(5), STEPS - 1))

    def disturbed(reader: StreamReader, timeout_s: float) -> TraceStep | Waiting:
        drop_some()
        step = next_step(reader, timeout_s)
        drop_some()
        return step

    monkeypatch.setattr(StreamReader, "next_step", disturbed)
    read: list[int] = []
    stream = followed(path, kept=copies)
    while isinstance(got := stream.next_step(0.0), TraceStep):
        at = got.step + 1
        np.testing.assert_array_equal(got.events, events(got.step, 3000))
        read.append(got.step)
        if chance.random() < 0.3:
            drop_some()
            stream.give_back(at)
        if chance.random() < 0.1:
            # Another process takes over.
            stream.give_back(at)
            stream.close()
            stream = followed(path, at, copies)
    assert got is Waiting.END
    stream.give_back(STEPS)
    stream.close()
    monkeypatch.undo()
    assert read == sorted(set(read)) and len(read) < STEPS
    lost = {int(number) for number in (copies / path.name / LOST_STEPS).read_text().split()}
    # What was read can have been dropped before it was kept, but not the other way round.
    assert lost >= set(range(STEPS)) - set(read)
    original = read_stream(tmp_path / "original" / path.name, "BPFile")
    copied = read_stream(copies / path.name, "BPFile")
    assert_equal(copied, [one for one in original if one.number not in lost])


def test_what_was_dropped_between_two_processes_is_not_kept_as_zeros(path: Path, tmp_path: Path) -> None:
    with opened(path) as writer:
        for step in range(8):
            write_step(writer, step)
    stream = followed(path, kept=tmp_path / "kept")
    for _ in range(4):
        assert isinstance(stream.next_step(0.0), TraceStep)
    # Killed after it has committed four steps, and before it has copied and given them back.
    drop_before(path, 4)
    successor = followed(path, 4, tmp_path / "kept")
    assert read_all(successor) == ([4, 5, 6, 7], Waiting.END)
    successor.give_back(8)
    successor.close()
    for kept in read_stream(tmp_path / "kept" / path.name, "BPFile"):
        np.testing.assert_array_equal(kept.events, events(kept.number))


def test_the_kept_trace_is_the_original_however_often_it_was_given_back(path: Path, tmp_path: Path) -> None:
    chance = np.random.default_rng(7)
    steps = random_stream(7, [tuple(chance.integers(0, 900, 3).tolist()) for _ in range(STEPS)])
    write_stream(path, steps, "BP5")
    shutil.copytree(path, tmp_path / "original" / path.name)
    first = 0
    for many in (1, 0, 7, 13, STEPS):
        stream = followed(path, first, tmp_path / "kept")
        for _ in range(many):
            if isinstance(step := stream.next_step(0.0), TraceStep) and step.step % 2:
                first = step.step + 1
                stream.give_back(first)
        if many == STEPS:
            first = STEPS
            stream.give_back(first)
        stream.close()
    original = read_stream(tmp_path / "original" / path.name, "BPFile")
    assert_equal(read_stream(tmp_path / "kept" / path.name, "BPFile"), original)
    assert_equal(original, steps)


@pytest.mark.thorough
def test_what_is_held_in_memory_does_not_grow_with_the_steps(path: Path) -> None:
    """5,000 steps, given back behind the reader; who comes late lets go of all of them."""
    path.mkdir()
    stream = followed(path)
    held = []
    with opened(path) as writer:
        for step in range(5000):
            write_step(writer, step, rows=1)
            assert isinstance(stream.next_step(None), TraceStep)
            if step % 10 == 9 and step < 4990:
                stream.give_back(step + 1)
                held.append(
                    (len(stream._held), len(stream._index._begins), len(stream._index._metadata_ends))
                )
    assert max(ends for ends, _, _ in held) == 0
    assert max(begins for _, begins, _ in held) <= 1040
    assert max(ends for _, _, ends in held) <= 1040
    stream.close()
    late = followed(path, 4990)
    assert read_all(late) == (list(range(4990, 5000)), Waiting.END)
    late.give_back(5000)
    assert len(late._index._begins) == len(late._held) == 0
    late.close()


def test_space_that_cannot_be_given_back_stays_and_nothing_ends(
    path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, os.strerror(95))

    monkeypatch.setattr("chimbuko.capture.follow.holes.punch", refuse)
    with opened(path) as writer:
        for step in range(6):
            write_step(writer, step)
    stream = followed(path)
    for step in range(6):
        got = stream.next_step(0.0)
        assert isinstance(got, TraceStep)
        np.testing.assert_array_equal(got.events, events(step))
        stream.give_back(step + 1)
    assert stream.next_step(0.0) is Waiting.END
    assert capfd.readouterr().err.count("space cannot be given back") == 1
