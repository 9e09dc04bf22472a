"""Rings that are torn, wrapped or full of garbage give one clear line, and never a wrong row unnoticed."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chimbuko.core.errors import TraceFormatError
from chimbuko.instrument.recorder.layout import EVENT, PROCESS, RING, RING_MAGIC, VERSION, Kind
from chimbuko.instrument.recorder.ring import ProcessFile, Ring

CAPACITY = 64


def written(path: Path, written_events: int, read: int = 0, capacity: int = CAPACITY) -> Path:
    """A ring in which so many events were written since its beginning."""
    head = np.zeros(1, RING)
    head["magic"], head["version"], head["capacity"] = RING_MAGIC, VERSION, capacity
    head["header_bytes"], head["written"], head["read"] = RING.itemsize, written_events, read
    events = np.zeros(capacity, EVENT)
    for number in range(max(0, written_events - capacity), written_events):
        events[number % capacity] = (number, Kind.ENTRY, 0, 0, 0, number, 0, 0)
    path.write_bytes(head.tobytes() + events.tobytes())
    return path


def test_events_come_in_order_across_the_end_of_the_ring(tmp_path: Path) -> None:
    ring = Ring(written(tmp_path / "a.ring", 100, read=90))
    assert ring.take()["time_ns"].tolist() == list(range(90, 100))
    assert len(ring.take()) == 0
    assert ring.number("read") == 100


@pytest.mark.parametrize(
    ("count", "read"), [(200, 100), (5, 6), (1 << 63, 0)], ids=["torn", "backwards", "absurd"]
)
def test_positions_that_cannot_be_are_refused(tmp_path: Path, count: int, read: int) -> None:
    path = written(tmp_path / "a.ring", 10)
    head = np.memmap(path, RING, "r+", shape=1)
    head["written"], head["read"] = count, read
    head.flush()
    with pytest.raises(TraceFormatError, match=r"a\.ring: damaged: its positions cannot be true"):
        Ring(path)


def test_garbage_among_events_ends_the_ring_with_one_line(tmp_path: Path) -> None:
    path = written(tmp_path / "a.ring", 20)
    ring = Ring(path)
    events = np.memmap(path, EVENT, "r+", RING.itemsize, shape=CAPACITY)
    events["kind"][7] = 99
    events.flush()
    with pytest.raises(TraceFormatError, match="it holds what is no event"):
        ring.take()


def test_another_version_is_said(tmp_path: Path) -> None:
    path = written(tmp_path / "a.ring", 3)
    head = np.memmap(path, RING, "r+", shape=1)
    head["version"] = VERSION + 1
    head.flush()
    with pytest.raises(TraceFormatError, match=r"use one Chimbuko for all"):
        Ring(path)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False), st.integers(0, 40))
def test_fuzzed_rings_give_events_or_one_line(tmp_path: Path, choice: random.Random, flips: int) -> None:
    path = written(tmp_path / "fuzzed.ring", choice.randrange(200), read=0)
    content = bytearray(path.read_bytes())
    for _ in range(flips):
        # The head's fields, which decide more, as often as all else.
        content[choice.randrange(choice.choice((192, len(content))))] = choice.randrange(256)
    path.write_bytes(content[: choice.choice((len(content), choice.randrange(len(content))))])
    try:
        events = Ring(path).take()
    except TraceFormatError as error:
        assert "\n" not in str(error)
    else:
        assert (events["kind"] <= Kind.OPERATION).all() and (np.diff(events["time_ns"]) >= 0).all()


def test_damaged_process_file_gives_one_line(tmp_path: Path) -> None:
    for content in (b"", b"CHIMPROC", random.Random(1).randbytes(PROCESS.itemsize)):
        path = tmp_path / "1-2.process"
        path.write_bytes(content)
        with pytest.raises(TraceFormatError, match=r"1-2\.process: damaged"):
            ProcessFile(path)
