from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, Table, select

from chimbuko.core.calls.pathtable import OTHER_PATHS, PATH_TIME
from chimbuko.core.calls.record import CallRecord, CounterStatistics, Metadata, StepCount, StreamHealth
from chimbuko.core.calls.schema import Label
from chimbuko.core.statistics.moments import Moments
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Dropped, Provenance, RankPath
from chimbuko.provenance.store.engine import StoreRefused
from chimbuko.provenance.store.tables import (
    COUNTER_STATISTICS,
    DROPPED,
    FUNCTION_STATISTICS,
    FUNCTIONS,
    METADATA,
    RUNS,
    SCHEMA,
    STEPS,
    STREAM_HEALTH,
)
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import (
    FunctionModel,
    FunctionStatistics,
    PathTimes,
    RecordBatch,
    RunStatistics,
)
from chimbuko.runtime.runs.directory import RunInfo
from tests.sample_records import make_batches

Record = Callable[..., CallRecord]
Batch = Callable[..., RecordBatch]
HEALTH = StreamHealth(0, 1, "node7", "reading", 4, 100, 4800, 48, 2, 1, {"lost exits": 3})


@pytest.fixture
def store_url(any_store_url: str) -> str:
    return any_store_url


def everything(provenance: Provenance) -> list[Any]:
    """All that the store gives, without the order in which it came."""
    summaries = provenance.calls.page(CallFilter(label=None), limit=10_000).calls
    each = (provenance.calls.record(summary.id) for summary in summaries)
    records = sorted(each, key=lambda record: record.id)
    return [records, provenance.steps.counts(), provenance.metadata(), provenance.dropped()]


def test_a_record_comes_back_as_it_was(
    writer: Writer, provenance: Provenance, record: Record, batch: Batch
) -> None:
    written = record(row=91, revision=3, is_final=False, left_out=5, score=6.000000000000001)
    writer.write([batch(records=[written])])
    assert provenance.calls.record("0:1:3:91") == written


def test_higher_revisions_replace_and_equal_or_lower_ones_do_not(
    writer: Writer, provenance: Provenance, record: Record, batch: Batch
) -> None:
    writer.write([batch(records=[record(revision=2, depth=2)])])
    writer.write([batch(records=[record(revision=1, depth=1)])])
    writer.write([batch(records=[record(revision=2, depth=22)])])
    assert provenance.calls.record("0:1:3:0").depth == 2
    writer.write([batch(records=[record(revision=3, depth=3, window=[])])])
    assert provenance.calls.record("0:1:3:0") == record(revision=3, depth=3, window=[])
    assert provenance.calls.count(CallFilter(label=None)) == 1


def test_the_same_batches_again_change_nothing(
    writer: Writer, provenance: Provenance, record: Record, batch: Batch
) -> None:
    batches = [
        batch(
            sequence,
            records=[record(row=sequence), record(row=100, revision=sequence)],
            steps=[StepCount(0, 1, sequence, 10, 20, 300, sequence, 1.5)],
            metadata=[Metadata(0, 1, 0, "Hostname", "node7")],
            dropped={"MPI_Recv()": sequence},
        )
        for sequence in range(1, 5)
    ]
    writer.write(batches)
    before = everything(provenance)
    writer.write(batches[1:3])
    writer.write(batches)
    assert everything(provenance) == before
    assert before[3] == [Dropped("0:1", "MPI_Recv()", 4)]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_order_of_revisions_and_batches_gives_the_same_content(
    data: st.DataObject, writer: Writer, engine: Engine, provenance: Provenance, record: Record, batch: Batch
) -> None:
    revisions = data.draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=1, unique=True))
    records = [
        record(row=row, revision=revision, depth=10 * row + revision, function=f"f{row % 2}")
        for row, revision in revisions
    ]
    in_order = [batch(n, records=[record], dropped={"f": n}) for n, record in enumerate(records)]
    contents = []
    for batches in (
        in_order,
        data.draw(st.permutations(in_order)) + data.draw(st.lists(st.sampled_from(in_order))),
    ):
        with engine.begin() as connection:
            for table in reversed(SCHEMA.sorted_tables):
                connection.execute(table.delete().where(table is not RUNS))
        fresh = Writer(engine, provenance.run_id)
        cut = data.draw(st.integers(0, len(batches)))
        fresh.write(batches[:cut])
        fresh.write(batches[cut:])
        contents.append(everything(Provenance(engine, provenance.run_id)))
    assert contents[0] == contents[1]
    newest = {row: max(revision for other, revision in revisions if other == row) for row, _ in revisions}
    assert {record.id: record.revision for record in contents[0][0]} == {
        f"0:1:3:{row}": revision for row, revision in newest.items()
    }


def test_steps_without_anomalies_are_kept_too(writer: Writer, provenance: Provenance, batch: Batch) -> None:
    steps = [StepCount(0, 1, step, 10 * step, 10 * step + 9, 50, 0, 0.0) for step in (2, 0, 1)]
    writer.write([batch(steps=steps)])
    assert provenance.steps.counts() == sorted(steps, key=lambda step: step.step)


def test_the_latest_health_of_a_stream_is_kept(writer: Writer, provenance: Provenance, batch: Batch) -> None:
    later = msgspec.structs.replace(HEALTH, state="ended", steps=9, losses={})
    writer.write([batch(1, health=HEALTH), batch(2, health=later)])
    assert provenance.health() == [later]
    lost = msgspec.structs.replace(later, state="lost")
    writer.write_statistics(RunStatistics(health=[lost]))
    assert provenance.health() == [lost]


def test_the_latest_statistics_of_a_function_are_kept(writer: Writer, provenance: Provenance) -> None:
    early = FunctionStatistics(0, "main", 1, 0, 0.0, 1.0, 0.0, 1.0, 1.0, 2.0, 2.0)
    late = FunctionStatistics(0, "main", 3, 1, 7.5, 1.5, 0.5, 1.0, 2.0, 2.5, 3.0, drift=1.75)
    other = FunctionStatistics(1, "main", 8, 0, 0.0, 2.0, 0.1, 1.0, 4.0, 2.5, 5.0)
    writer.write_statistics(RunStatistics(functions=[early, other]))
    writer.write_statistics(RunStatistics(functions=[late]))
    assert provenance.function_statistics() == [late, other]


def test_a_run_is_written_again_when_it_ends(
    writer: Writer, provenance: Provenance, run_info: Callable[..., RunInfo]
) -> None:
    ended = run_info(state="finished", ended_us=9, exit_code=3, trace_bytes=7, stored_bytes=1)
    writer.write_run(ended)
    assert provenance.run() == ended


def test_a_password_does_not_get_into_the_store(
    writer: Writer, provenance: Provenance, run_info: Callable[..., RunInfo]
) -> None:
    writer.write_run(run_info(store_url="postgresql://me:hush@db/x?password=hush"))
    assert provenance.run().store_url == "postgresql+psycopg://me:***@db/x"


def test_runs_in_one_store_keep_apart(
    engine: Engine,
    writer: Writer,
    provenance: Provenance,
    record: Record,
    batch: Batch,
    run_info: Callable[..., RunInfo],
) -> None:
    writer.write([batch(records=[record(depth=1)])])
    other = Writer(engine, "other")
    other.write_run(run_info("other"))
    other.write([batch(records=[record(depth=2), record(row=1)])])
    assert provenance.calls.record("0:1:3:0").depth == 1
    assert provenance.calls.count(CallFilter(label=None)) == 1
    with engine.connect() as connection:
        numbers = select(FUNCTIONS.c.run, FUNCTIONS.c.number).order_by(FUNCTIONS.c.run, FUNCTIONS.c.number)
        found = connection.execute(numbers).all()
    assert [tuple(row) for row in found] == [(run, number) for run in (1, 2) for number in range(4)]


def test_a_value_the_database_cannot_hold_is_refused_and_leaves_no_trace(
    writer: Writer, provenance: Provenance, record: Record, batch: Batch
) -> None:
    good, bad = record(row=1, function="first seen here"), record(row=2, entry_us=1 << 63, exit_us=1 << 63)
    with pytest.raises(StoreRefused, match=r"too large|out of range"):
        writer.write([batch(records=[good, bad])])
    assert provenance.calls.count(CallFilter(label=None)) == 0
    writer.write([batch(records=[good])])
    assert provenance.calls.record(good.id) == good


def test_functions_are_numbered_once_per_program(
    writer: Writer, engine: Engine, provenance: Provenance, record: Record, batch: Batch
) -> None:
    records = [record(row=row, program=row % 2, function="main", label=Label.NORMAL) for row in range(4)]
    writer.write(make_batches(records))
    Writer(engine, provenance.run_id).write([batch(records=[record(row=9, function="main")])])
    with engine.connect() as connection:
        found = connection.execute(select(FUNCTIONS.c.program, FUNCTIONS.c.name)).all()
    assert sorted(program for program, name in found if name == "main") == [0, 1]
    assert len(set(map(tuple, found))) == len(found)


def test_the_model_of_a_version_is_the_newest_that_was_kept_by_then(
    writer: Writer, provenance: Provenance
) -> None:
    early, late = FunctionModel(3, 0, "main", b"early"), FunctionModel(8, 0, "main", b"late" * 500)
    other = FunctionModel(5, 1, "main", b"other")
    writer.write_statistics(RunStatistics(models=[early, late, other]))
    writer.write_statistics(RunStatistics(models=[early]))
    found = [provenance.models.at(0, "main", version) for version in (2, 3, 7, 8, 99)]
    assert found == [None, early, early, late, late]
    assert provenance.models.at(0, "unknown", 9) is None
    assert list(provenance.models.newest()) == [late, other]


def test_the_latest_statistics_of_a_counter_are_kept(
    writer: Writer, provenance: Provenance, batch: Batch
) -> None:
    early, late = (
        CounterStatistics("heap", *Moments.of(values).row().tolist()) for values in ([1.0], [1.0, 4.0])
    )
    writer.write([batch(1, counter_statistics=[early]), batch(2, counter_statistics=[late])])
    writer.write([batch(1, counter_statistics=[early])])
    assert provenance.counter_statistics() == [(0, 1, late)]


def test_what_the_calls_of_a_rank_took_is_kept_by_path(
    writer: Writer, provenance: Provenance, batch: Batch
) -> None:
    rows = [(-1, -1, 2, 7.0), (-1, 0, 1, 100.0), (1, 1, 0, 0.0), (2, 0, 5, 30.0)]
    times = PathTimes(["main", "f"], np.array(rows, PATH_TIME).tobytes())
    for _ in range(2):
        writer.write([batch(1), batch(2, paths=times)])
    assert provenance.rank_paths(0, 1) == [
        RankPath([OTHER_PATHS], 2, 7.0),
        RankPath(["main"], 1, 100.0),
        RankPath(["main", "f", "main"], 5, 30.0),
    ]
    assert provenance.rank_paths(0, 0) == provenance.rank_paths(1, 1) == []


@pytest.mark.parametrize(
    ("struct", "table"),
    [
        (StepCount, STEPS),
        (StreamHealth, STREAM_HEALTH),
        (Metadata, METADATA),
        (Dropped, DROPPED),
        (RunInfo, RUNS),
        (FunctionStatistics, FUNCTION_STATISTICS),
        (CounterStatistics, COUNTER_STATISTICS),
    ],
)
def test_every_field_has_a_column(struct: type[msgspec.Struct], table: Table) -> None:
    # A function or counter is known by its number.
    numbered = {"program", "name"} if struct in (FunctionStatistics, CounterStatistics) else set()
    assert set(struct.__struct_fields__) - numbered <= set(table.columns.keys())


EXPECTED_US = 1_000.0


def test_latest_report_of_an_open_call_stays_until_its_end_is_recorded(
    writer: Writer, provenance: Provenance, record: Record, batch: Batch
) -> None:
    reports = [
        record(exit_us=0, revision=0, is_final=False, severity_us=seconds * 1e6, expected_us=EXPECTED_US)
        for seconds in (5, 10, 20)
    ]
    ended = record(revision=1, severity_us=100.0, label=Label.NORMAL)
    for order in itertools.permutations(reports):
        writer.write([batch(stream="agent-0", records=[report]) for report in order])
        shown = provenance.calls.record("0:1:3:0")
        assert (shown.exit_us, shown.severity_us, shown.inclusive_us) == (0, 20e6, 20e6 + EXPECTED_US)
        assert [call.id for call in provenance.calls.page(CallFilter(is_open=True)).calls] == ["0:1:3:0"]
    writer.write([batch(records=[ended])])
    writer.write([batch(stream="agent-0", records=reports)])
    assert provenance.calls.record("0:1:3:0") == ended
    assert provenance.calls.count(CallFilter(is_open=True)) == 0


def test_batch_of_an_agent_says_nothing_of_the_totals_of_a_stream(
    writer: Writer, provenance: Provenance, record: Record, batch: Batch
) -> None:
    writer.write([batch(sequence=7, records=[record()])])
    (before,) = provenance.health()
    assert before.steps == 7
    writer.write([batch(sequence=1, stream="agent-0", records=[record(row=5, exit_us=0)])])
    assert provenance.health() == [before]
