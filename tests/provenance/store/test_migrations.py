"""A store that an earlier version wrote holds the same after it was brought up to date."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest
import sqlalchemy
from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, MetaData

from chimbuko.core.calls.record import CallRecord, Metadata, StepCount, StreamHealth
from chimbuko.core.calls.schema import Label
from chimbuko.core.errors import StoreError
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Dropped, Provenance
from chimbuko.provenance.store.engine import open_for_reading, open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import FunctionStatistics, RunStatistics
from tests.places import DATA
from tests.sample_records import RUN_ID, make_batch, make_record, make_run

FIRST_LAYOUT = DATA / "store_0001.sql"
"""Two runs of the same content, as Chimbuko 0.1 wrote them."""
NOT_KEPT_THEN = {"metrics": [], "model_version": 0, "detector": "sstd"}
BARE = {"call_stack": [], "window": [], "messages": [], "counters": [], "node_state": []}


def records() -> list[CallRecord]:
    return [
        make_record(row=0, **NOT_KEPT_THEN),
        make_record(row=1, label=Label.NORMAL, function="MPI_Recv()", **NOT_KEPT_THEN),
        make_record(
            row=2, step=4, revision=2, is_final=False, left_out=0, score=6.000000000000001, **NOT_KEPT_THEN
        ),
        make_record(row=5, program=1, rank=0, node="node8", function="main", **BARE, **NOT_KEPT_THEN),
    ]


@pytest.fixture
def first_layout(any_empty_url: str, tmp_path: Path) -> str:
    """A store of the first layout, on each kind of database in turn."""
    written = tmp_path / "written.sqlite"
    with sqlite3.connect(written) as connection:
        connection.executescript(FIRST_LAYOUT.read_text())
    connection.close()
    source = sqlalchemy.create_engine(f"sqlite:///{written}")
    target = sqlalchemy.create_engine(any_empty_url)
    migrate(target, "0001")
    tables = MetaData()
    with source.connect() as reading, target.begin() as writing:
        tables.reflect(reading)
        for table in tables.sorted_tables:
            if table.name != "alembic_version":
                rows = [dict(row._mapping) for row in reading.execute(table.select())]
                writing.execute(table.insert(), rows)
    source.dispose()
    target.dispose()
    return any_empty_url


def migrate(engine: Engine, version: str) -> None:
    config = Config()
    config.set_main_option("script_location", "chimbuko.provenance.store:migrations")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, version)


def test_a_store_of_the_first_layout_is_brought_up_to_date(first_layout: str) -> None:
    open_for_writing(first_layout).dispose()
    for run_id, started_us in (("older", 1_000_000), (RUN_ID, 2_000_000)):
        with Provenance(open_for_reading(first_layout), run_id) as provenance:
            check(provenance, started_us)


def check(provenance: Provenance, started_us: int) -> None:
    """All that the first layout held is there."""
    wanted = {record.id: record for record in records()}
    found = provenance.calls.page(CallFilter(label=None)).calls
    assert {call.id for call in found} == wanted.keys()
    for event_id, record in wanted.items():
        assert provenance.calls.record(event_id) == record
    run = provenance.run()
    assert (run.started_us, run.config.detector, run.command) == (started_us, "sstd", make_run().command)
    assert provenance.programs() == {0: "heat"}
    assert provenance.steps.counts() == [
        StepCount(0, 1, 3, 1_000_000, 2_000_000, 50, 1, 7000.0),
        StepCount(0, 1, 4, 1_000_000, 2_000_000, 60, 1, 7000.0),
        StepCount(1, 0, 3, 1_000_000, 2_000_000, 9, 1, 7000.0),
    ]
    assert provenance.health() == [
        StreamHealth(0, 1, "node7", "reading", 1, 100, 4800, 48, 2, 0, {}),
        StreamHealth(1, 0, "node8", "ended", 1, 10, 480, 9, 1, 0, {"rows": 2}),
    ]
    assert provenance.metadata() == [
        Metadata(0, 1, 0, "CPU Cores", "2"),
        Metadata(0, 1, 0, "Hostname", "node7"),
        Metadata(1, 0, 0, "CPU Cores", "2"),
        Metadata(1, 0, 0, "Hostname", "node8"),
    ]
    assert provenance.dropped() == [Dropped("0:1", "MPI_Recv()", 3)]
    assert provenance.function_statistics() == [
        FunctionStatistics(0, "main", 1, 0, 0.0, 1.0, 0.0, 1.0, 1.0, 2.0, 2.0),
        FunctionStatistics(0, "never recorded", 3, 1, 7.5, 1.5, 0.5, 1.0, 2.0, 2.5, 3.0),
    ]


def test_a_run_that_was_brought_up_to_date_can_be_written_on(first_layout: str) -> None:
    engine = open_for_writing(first_layout)
    writer = Writer(engine, RUN_ID)
    later = make_record(row=2, step=4, revision=3, detector="sstd")
    writer.write([make_batch(2, records=[later, make_record(row=9, detector="sstd")])])
    with Provenance(open_for_reading(first_layout), RUN_ID) as provenance:
        # Its verdict is that of the revision that was there.
        verdict = {"score": pytest.approx(6.0), "model_version": 0}
        assert provenance.calls.record(later.id) == msgspec.structs.replace(later, **verdict)
        assert provenance.calls.record("0:1:3:9") == make_record(row=9, detector="sstd")
        assert provenance.calls.count(CallFilter(label=None)) == len(records()) + 1
    engine.dispose()


def test_a_store_is_brought_up_to_date_when_it_is_read(first_layout: str) -> None:
    with Provenance(open_for_reading(first_layout), RUN_ID) as provenance:
        check(provenance, 2_000_000)


def test_peaks_of_steps_and_flagged_steps_of_functions_are_made(any_empty_url: str, tmp_path: Path) -> None:
    now = open_for_writing(f"sqlite:///{tmp_path}/now.sqlite")
    writer = Writer(now, RUN_ID)
    writer.write_run(make_run())
    steps = [
        StepCount(0, 1, step, 1_000 * step, 1_000 * step + 999, 50, 300 * (step % 7 == 0) + step % 3, 0.0)
        for step in range(600)
        if step % 11
    ]
    calls = [make_record(row=row, step=3 + (row > 3)) for row in range(6)]
    writer.write([make_batch(1, records=calls, steps=steps)])
    # More were flagged than are recorded: nobody knows in which steps.
    unknown = FunctionStatistics(0, "other", 9, 6, *[1.0] * 8)  # type: ignore[call-arg]
    known = msgspec.structs.replace(
        unknown,
        name=calls[0].function,
        flagged_steps=2,
        flagged_squares=20.0,
        flagged_cubes=72.0,
        flagged_fourths=272.0,
        fewest_flagged=2,
        most_flagged=4,
    )
    writer.write_statistics(RunStatistics(functions=[known, unknown]))
    older = sqlalchemy.create_engine(any_empty_url)
    migrate(older, "0004")
    copy(now, older)
    open_for_writing(any_empty_url).dispose()
    tables = MetaData()
    tables.reflect(now)
    for name in ("step_levels", "function_statistics"):
        table = tables.tables[name]
        statement = table.select().order_by(*table.primary_key)
        with now.connect() as written, older.connect() as brought:
            assert brought.execute(statement).all() == written.execute(statement).all()
    with Provenance(open_for_reading(any_empty_url), RUN_ID) as provenance:
        assert provenance.function_statistics() == [known, unknown]
    for engine in (now, older):
        engine.dispose()


def copy(source: Engine, target: Engine) -> None:
    """Rows of all tables, as far as the target has their columns."""
    tables = MetaData()
    with source.connect() as reading, target.begin() as writing:
        tables.reflect(writing)
        for table in tables.sorted_tables:
            if table.name != "alembic_version":
                rows = [dict(row._mapping) for row in reading.execute(table.select())]
                if rows:
                    writing.execute(table.insert(), rows)


def test_a_store_that_cannot_be_brought_up_to_date_says_so(
    first_layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = sqlalchemy.create_engine(first_layout)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    engine.dispose()
    with pytest.raises(StoreError, match="has the layout 0000"):
        open_for_reading(first_layout)
