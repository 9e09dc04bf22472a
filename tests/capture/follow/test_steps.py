"""Where the steps of a stream lie, beside ADIOS2's own writer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chimbuko.capture.follow.steps import DATA, INDEX, StepIndex
from tests.capture.follow.streams import events, opened, wait_until, write_step


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tau-metrics-program-0.bp"


def test_each_step_is_there_as_soon_as_it_is_complete(path: Path) -> None:
    index = StepIndex(path)
    assert index.read() == 0
    with opened(path) as writer:
        assert index.read() == 0 and not index.has_ended
        for step in range(20):
            write_step(writer, step, rows=100 * step + 1, comms=step % 3, counters=7 * (step % 2))
            assert index.read() == step + 1
            data = (path / DATA).read_bytes()
            assert events(step, 100 * step + 1).tobytes() in data[index.begin(step) :]
            if step:
                # Steps lie one behind the other.
                assert events(step - 1, 100 * step - 99).tobytes() in data[: index.begin(step)]
                assert events(step, 1).tobytes() not in data[: index.begin(step)]
        assert not index.has_ended
    assert index.read() == 20 and index.has_ended
    assert [index.step_at(index.begin(step) + 7) for step in range(20)] == list(range(20))
    assert list(index.begins(17)) == [index.begin(step) for step in (17, 18, 19)]


def test_an_index_that_is_cut_off_anywhere_has_the_steps_before(path: Path, tmp_path: Path) -> None:
    with opened(path) as writer:
        for step in range(3):
            write_step(writer, step)
    whole = StepIndex(path)
    whole.read()
    content = (path / INDEX).read_bytes()
    grown_path = tmp_path / "grown.bp"
    grown_path.mkdir()
    grown = StepIndex(grown_path)
    counts = []
    for length in range(len(content) + 1):
        (grown_path / INDEX).write_bytes(content[:length])
        anew = StepIndex(grown_path)
        assert anew.read() == grown.read()
        assert grown.begins(0) == whole.begins(0)[: grown.count]
        counts.append(grown.count)
    assert counts == sorted(counts) and set(counts) == {0, 1, 2, 3}
    assert counts[-2] == 2 and grown.restarts == 0


def test_a_step_that_was_flushed_begins_where_its_first_part_lies(path: Path) -> None:
    index = StepIndex(path)
    with opened(path) as writer:
        write_step(writer, 0)
        engine, adios2 = writer._engine, writer._adios2
        variable = writer._io.DefineVariable("flushed", events(0), [1000, 6], [0, 0], [1000, 6], False)
        engine.BeginStep()
        for value in (7, 8):
            array = np.full((1000, 6), value, np.uint64)
            engine.Put(variable, array, adios2.Mode.Sync)
            engine.PerformDataWrite()
        engine.EndStep()
        write_step(writer, 2)
        assert index.read() == 3
    data = (path / DATA).read_bytes()
    flushed = data[index.begin(1) : index.begin(2)]
    assert np.full(6000, 7, np.uint64).tobytes() in flushed
    assert np.full(6000, 8, np.uint64).tobytes() in flushed
    assert events(2).tobytes() in data[index.begin(2) :]


def test_steps_of_a_long_run_are_forgotten(path: Path) -> None:
    index = StepIndex(path)
    with opened(path) as writer:
        for step in range(1100):
            write_step(writer, step, rows=1)
        index.read()
        last = index.begin(1099)
        index.forget_before(1099)
        assert (index.count, index.begin(1099), index.begin(1098)) == (1100, last, 0)
        assert list(index.begins(1099)) == [last]
        write_step(writer, 1100, rows=1)
        assert index.read() == 1101 and index.begin(1100) > last
    index.forget_before(1 << 40)
    assert index.count == 1101


def test_a_stream_that_is_written_anew_begins_at_step_0(path: Path) -> None:
    """As by a script that calls the same program twice."""
    index = StepIndex(path)
    with opened(path) as writer:
        for step in range(5):
            write_step(writer, step)
    assert index.read() == 5 and index.has_ended
    with opened(path) as writer:
        # ADIOS2 opens its files in a thread of its own.
        wait_until(lambda: index.read() == 0)
        assert not index.has_ended and index.restarts == 1
        write_step(writer, 0)
        assert index.read() == 1 and index.begin(0) == 0
