"""Decisions of the recorder that all ranks of a node take together."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from chimbuko.core.traceschema import EventType
from tests.instrument.recorder.mpi import WHEEL
from tests.instrument.recorder.streams import Stream, record

PROGRAM = Path(__file__).with_name("programs") / "unlike.c"


def later_calls(stream: Stream) -> Counter[str]:
    """Number of calls by function that began in the second half of the program's steps."""
    begun = stream.events[stream.events[:, 3] == EventType.ENTRY]
    steps = [row[5] for row in begun.tolist() if stream.function(row[4]) == "step"]
    half_us = (steps[0] + steps[-1]) // 2
    return Counter(stream.function(row[4]) for row in begun.tolist() if row[5] > half_us)


def test_ranks_that_call_functions_unlike_often_record_the_same_ones(tmp_path: Path) -> None:
    program = WHEEL.build(PROGRAM, tmp_path / "unlike", "mpicc", "-finstrument-functions")
    streams = record(tmp_path, [program, "6"], WHEEL.launch(2))
    assert [stream.rank for stream in streams] == [0, 1]
    for stream in streams:
        calls = later_calls(stream)
        # Each alone would keep the one that it calls 100 times a step, and leave out the other one.
        assert calls["step"] > 10
        assert calls["here"] < 50 * calls["step"] and calls["there"] < 50 * calls["step"], calls
        assert stream.metadata("Recorder's Decisions") == "together with 1 other process of this node"
