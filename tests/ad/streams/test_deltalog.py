"""What an agent that was killed leaves of its last delta."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chimbuko.ad.streams.deltalog import DeltaLog, Entry, Taken
from chimbuko.core.statistics.schema import PackedTable
from chimbuko.runtime.protocol.messages import Delta


def entry(sequence: int, size: int = 10) -> Entry:
    table = PackedTable(0, bytes(size), b"", b"", b"")
    delta = Delta("a", 1, sequence, 1, {}, [], b"", table, [], [])
    return Entry(1, sequence, {0: delta}, {"0:0": Taken(sequence, b"", True)})


def test_the_last_entry_is_left_and_a_successor_goes_on(tmp_path: Path) -> None:
    assert DeltaLog(tmp_path / "last").read() == []
    for first in (1, 6, 9):
        delta_log = DeltaLog(tmp_path / "last")
        delta_log.read()
        for sequence in range(first, first + 4):
            delta_log.write([entry(sequence, size=1000 // sequence)])
            assert DeltaLog(tmp_path / "last").read() == [entry(sequence, size=1000 // sequence)]
        delta_log.close()


def test_deltas_that_wait_are_left_together(tmp_path: Path) -> None:
    delta_log = DeltaLog(tmp_path / "last")
    for last in range(1, 4):
        entries = [entry(sequence) for sequence in range(1, last + 1)]
        delta_log.write(entries)
        assert DeltaLog(tmp_path / "last").read() == entries
    delta_log.close()


def test_of_an_entry_that_was_cut_off_the_one_before_is_left(tmp_path: Path) -> None:
    delta_log = DeltaLog(tmp_path / "last")
    delta_log.write([entry(1)])
    delta_log.write([entry(2)])
    path = tmp_path / "last-1"
    os.truncate(path, path.stat().st_size - 1)
    assert DeltaLog(tmp_path / "last").read() == [entry(1)]
    delta_log.close()


def test_where_there_is_no_room_no_older_entry_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delta_log = DeltaLog(tmp_path / "last")
    delta_log.write([entry(1)])
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", lambda *_: 3)
        delta_log.write([entry(2)])
    assert delta_log.is_failing and delta_log.read() == []
    delta_log.write([entry(3)])
    assert delta_log.read() == [entry(3)]
    delta_log.close()
