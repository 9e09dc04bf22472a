"""Copies of spools, which go on while they are copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.ad.handoff.spool import (
    SpoolReader,
    SpoolWriter,
    remove_acknowledged,
    segment_paths,
    spools_in,
)
from chimbuko.ad.handoff.spoolcopies import SpoolCopies
from tests.ad.handoff.test_spool import append

NAMES = "names"


def sequences(spool: Path) -> list[int]:
    reader, found = SpoolReader(spool), []
    while frames := reader.read(1 << 20):
        found += [sequence for sequence, _ in frames]
    return found


def test_copies_follow_what_is_written_and_what_is_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chimbuko.ad.handoff.spool.SEGMENT_BYTES", 1)
    folder, place = tmp_path / "agent", tmp_path / "run" / "node7"
    spool = folder / "0-3" / "spool"
    spool.parent.mkdir(parents=True)
    (spool.parent / NAMES).write_text("names of the stream")
    writer = SpoolWriter(spool, "0:3", 1 << 20)
    copies = SpoolCopies(folder, place, NAMES, "last-*")
    copies.keep_up()
    assert not place.exists()
    for step in range(3):
        append(writer, step, 5.0)
        copies.keep_up()
        (copy,) = spools_in(place)
        assert sequences(copy) == sequences(spool) and len(sequences(copy)) == step + 1
    assert (place / "0-3" / NAMES).read_text() == "names of the stream"
    remove_acknowledged(spool, sequences(spool)[1])
    copies.keep_up()
    (copy,) = spools_in(place)
    assert sequences(copy) == sequences(spool)
    assert [path.name for path in segment_paths(copy)] == [path.name for path in segment_paths(spool)]
    copies.remove()
    assert not place.exists()
