"""What an agent that was killed leaves of its last delta."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chimbuko.ad.streams.deltalog import Entry, Journal, Taken
from chimbuko.protocol.messages import Delta
from chimbuko.statistics.packed import PackedTable


def entry(sequence: int, size: int = 10) -> Entry:
    table = PackedTable(0, bytes(size), b"", b"", b"")
    return Entry(Delta("a", 1, sequence, 1, {}, [], b"", table, [], []), {"0:0": Taken(sequence, b"", True)})


def test_the_last_entry_is_left_and_a_successor_goes_on(tmp_path: Path) -> None:
    assert Journal(tmp_path / "last").read() is None
    for first in (1, 6, 9):
        journal = Journal(tmp_path / "last")
        journal.read()
        for sequence in range(first, first + 4):
            journal.write(entry(sequence, size=1000 // sequence))
            assert Journal(tmp_path / "last").read() == entry(sequence, size=1000 // sequence)
        journal.close()


def test_of_an_entry_that_was_cut_off_the_one_before_is_left(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "last")
    journal.write(entry(1))
    journal.write(entry(2))
    path = tmp_path / "last-1"
    os.truncate(path, path.stat().st_size - 1)
    assert Journal(tmp_path / "last").read() == entry(1)
    journal.close()


def test_where_there_is_no_room_no_older_entry_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "last")
    journal.write(entry(1))
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", lambda *_: 3)
        journal.write(entry(2))
    assert journal.is_failing and journal.read() is None
    journal.write(entry(3))
    assert journal.read() == entry(3)
    journal.close()
