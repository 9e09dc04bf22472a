"""The live line."""

from __future__ import annotations

import msgspec

from chimbuko.calls.record import SILENT, Silence, StreamHealth
from chimbuko.launcher.outcome.progress import MOST_NAMED, progress_line

READING = StreamHealth(0, 0, "node7", "reading", 4, 100, 4800, 1_048, 2, 1, {})


def silent(rank: int, function: str) -> StreamHealth:
    return msgspec.structs.replace(READING, rank=rank, state=SILENT, silence=Silence(1, function, 1))


def test_line_gives_totals() -> None:
    assert progress_line([READING, READING]) == "2 ranks · 8 steps · 2,096 calls · ▲ 4 anomalies"


def test_silent_ranks_are_named_with_what_they_are_in() -> None:
    line = progress_line([READING, silent(1, "MPI_Recv() [{a.c} {1,0}]"), silent(2, "")])
    assert line.endswith(" · 2 silent: 0:1 in MPI_Recv(), 0:2")
    many = progress_line([silent(rank, "f") for rank in range(1000)])
    assert " · 1000 silent: " in many
    assert many.count(" in f") == MOST_NAMED
