"""Copies of a store that is being written, for services that go on elsewhere."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.service.runstore import StoreCopies
from chimbuko.provenance.store.engine import close, open_for_reading, open_for_writing
from chimbuko.provenance.write.writer import Writer
from tests.sample_records import RUN_ID, make_batch, make_record, make_run


def test_each_copy_is_a_whole_store_and_one_that_fails_leaves_the_one_before(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    engine = open_for_writing(f"sqlite:///{tmp_path / 'store.sqlite'}")
    writer, copies = Writer(engine, RUN_ID), StoreCopies(shared / "store.sqlite")
    writer.write_run(make_run())

    def calls_in_copy() -> int:
        reading = open_for_reading(f"sqlite:///{shared / 'store.sqlite'}")
        count = Provenance(reading, RUN_ID).calls.count(CallFilter(label=None))
        reading.dispose()
        return count

    for number in range(1, 4):
        writer.write([make_batch(number, records=[make_record(row=number)])])
        assert copies.make(engine)
        assert calls_in_copy() == number
    assert sorted(path.name for path in shared.iterdir() if "-" not in path.name) == ["store.sqlite"]
    shutil.move(shared, tmp_path / "away")
    for _ in range(2):
        assert not copies.make(engine)
    assert capfd.readouterr().err.count("cannot be copied there") == 1
    shutil.move(tmp_path / "away", shared)
    writer.write([make_batch(4, records=[make_record(row=4)])])
    assert copies.make(engine)
    assert calls_in_copy() == 4
    close(engine)
    assert sqlite3.connect(shared / "store.sqlite").execute("PRAGMA integrity_check").fetchone() == ("ok",)
