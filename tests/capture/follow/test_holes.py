"""Space that is given back, beside ADIOS2's own writer and reader."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from chimbuko.capture.follow.holes import GUARD, READER, DataFile, FirstStep, punch
from chimbuko.capture.follow.steps import DATA, StepIndex
from chimbuko.core.traceschema import EVENTS
from tests.capture.follow.streams import STEP_BYTES, events, opened, write_step

STEPS = 10


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    path = tmp_path / "tau-metrics-program-0.bp"
    with opened(path) as writer:
        for step in range(STEPS):
            write_step(writer, step)
    return path


def read_by_adios2(path: Path, steps: range) -> list[bytes]:
    """Events of some steps; the others are passed over."""
    import adios2.bindings as adios2

    adios = adios2.ADIOS()
    io = adios.DeclareIO("read")
    io.SetEngine("BP5")
    engine = io.Open(str(path), adios2.Mode.Read)
    found = []
    for step in range(steps.stop):
        engine.BeginStep()
        if step in steps:
            array = np.zeros((1000, 6), np.uint64)
            engine.Get(io.InquireVariable(EVENTS), array, adios2.Mode.Sync)
            found.append(array.tobytes())
        engine.EndStep()
    engine.Close()
    return found


def test_steps_given_back_take_no_space_and_the_others_are_whole(stream: Path) -> None:
    index, data, first = StepIndex(stream), DataFile(stream), FirstStep(stream)
    index.read()
    length = (stream / DATA).stat().st_size
    assert first.get() == 0 and data.held_bytes >= STEPS * STEP_BYTES - 4096
    for step in range(1, STEPS):
        data.give_back(step, index.begin(step))
        assert first.get() == step
        assert index.begin(step) - 4096 < data.begin <= index.begin(step)
        assert data.held_bytes <= (STEPS - step) * STEP_BYTES
        assert (stream / DATA).stat().st_size == length
    assert read_by_adios2(stream, range(STEPS - 1, STEPS)) == [events(STEPS - 1).tobytes()]
    assert read_by_adios2(stream, range(3, 4)) == [bytes(48000)]


def test_who_reads_zeros_can_know_it(stream: Path) -> None:
    """The number is there before the data is gone: whatever is read as zeros is before it."""
    index = StepIndex(stream)
    index.read()
    DataFile(stream, GUARD).give_back(4, index.begin(4))
    first = FirstStep(stream).get()
    read = read_by_adios2(stream, range(STEPS))
    assert [step for step in range(STEPS) if read[step] != events(step).tobytes()] == list(range(first))


def test_two_who_give_back_do_not_take_each_others_number_back(stream: Path) -> None:
    by_reader, by_guard = FirstStep(stream, READER), FirstStep(stream, GUARD)
    by_guard.raise_to(7)
    # As if the reader had looked before the guard wrote.
    os.symlink("5", stream / READER)
    assert by_reader.get() == by_guard.get() == 7
    by_reader.raise_to(6)
    assert by_reader.get() == 7
    by_reader.raise_to(9)
    assert by_guard.get() == 9
    assert (by_guard.by(READER), by_guard.by(GUARD)) == (9, 7)


def test_who_died_while_saying_so_does_not_stop_its_successor(stream: Path) -> None:
    os.symlink("3", stream / f"{READER}-{os.getpid()}")
    first = FirstStep(stream)
    assert first.get() == 0
    first.raise_to(4)
    assert first.get() == 4
    assert [path.name for path in stream.glob("first-step*")] == [READER]


def test_only_whole_pages_go(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 3 * 4096)
    with path.open("r+b") as file:
        punch(file.fileno(), 1, 3 * 4096 - 1)
        punch(file.fileno(), 10, 20)
    assert path.read_bytes() == b"x" * 4096 + bytes(4096) + b"x" * 4096


def test_no_stream_yet(tmp_path: Path) -> None:
    assert DataFile(tmp_path / "none.bp").held_bytes == 0
