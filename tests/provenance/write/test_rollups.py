"""Sums follow what is written, in whatever order and however often, and equal those that are made anew."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, Table

from chimbuko.core.calls.record import CallRecord, StepCount
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import open_for_reading, open_for_writing
from chimbuko.provenance.store.tables import (
    FUNCTION_TOTALS,
    PATH_TOTALS,
    RANK_TOTALS,
    STEP_HISTOGRAMS,
    STEP_LEVELS,
    STEP_TOTALS,
    TIME_TOTALS,
)
from chimbuko.provenance.write import rollups, stepwriter
from chimbuko.provenance.write.writer import Writer
from tests.provenance.query.test_planner import make_calls
from tests.reference.provenance import step_sums
from tests.sample_records import RUN_ID, make_batch, make_batches, make_run

OF_CALLS = (FUNCTION_TOTALS, RANK_TOTALS, PATH_TOTALS, STEP_TOTALS, TIME_TOTALS)
OF_STEPS = (STEP_LEVELS, STEP_HISTOGRAMS)


def kept(engine: Engine, tables: Sequence[Table]) -> dict[str, set[Any]]:
    """What the writer has kept."""
    with engine.connect() as connection:
        return contents(connection, tables)


def contents(connection: Connection, tables: Sequence[Table]) -> dict[str, set[Any]]:
    """Rows that count something; of groups of which nothing is left, zeros stay."""
    rows = {table.name: connection.execute(table.select()).all() for table in tables}
    return {
        name: {
            tuple(round(value, 3) if isinstance(value, float) else value for value in row)
            for row in found
            if row._mapping["anomalies"] or row._mapping.get("normal_calls") or row._mapping.get("steps")
        }
        for name, found in rows.items()
    }


def made_anew(engine: Engine, tables: Sequence[Table]) -> dict[str, set[Any]]:
    """What a rebuild gives, which is not kept."""
    with engine.connect() as connection, connection.begin() as transaction:
        rollups.rebuild(connection, 1)
        stepwriter.rebuild(connection, 1)
        found = contents(connection, tables)
        transaction.rollback()
    return found


def changed(random: Random, call: CallRecord) -> CallRecord:
    """A later revision: often the same but for its window, sometimes acquitted, ended or otherwise judged."""
    changes: dict[str, Any] = {"revision": call.revision + 1}
    if random.random() < 0.5:
        changes |= {"label": random.choice(list(Label)), "severity_us": float(random.randrange(9_000))}
    if random.random() < 0.3:
        changes |= {"score": float(random.randrange(30)), "step": call.step + 1}
    return msgspec.structs.replace(call, **changes)


def test_sums_follow_revisions_and_repetitions(any_store_url: str) -> None:
    random = Random(4)
    engine = open_for_writing(any_store_url)
    writer = Writer(engine, RUN_ID)
    writer.write_run(make_run())
    calls = make_calls(random, 120)
    for _ in range(6):
        reported = random.sample(calls, 60)
        writer.write(make_batches([*reported, *random.sample(reported, 10)]))
        assert kept(engine, OF_CALLS) == made_anew(engine, OF_CALLS)
        calls = [changed(random, call) if call in reported else call for call in calls]
    # What is older than what is stored changes nothing.
    before = kept(engine, OF_CALLS)
    writer.write(make_batches([msgspec.structs.replace(call, revision=0) for call in reported]))
    assert kept(engine, OF_CALLS) == before
    engine.dispose()


def make_steps(random: Random, count: int) -> list[StepCount]:
    """Of three ranks, with gaps; some without events."""
    return [
        StepCount(
            0, rank, step, 0 if step < 2 else 1_000 * step, 1_000 * step + 999, step % 7, n, 10.0 * n, 1.5 * n
        )
        for rank in range(3)
        for step in range(count)
        if random.random() < 0.9 and (n := random.randrange(3)) >= 0
    ]


def test_coarser_levels_and_histograms_are_those_of_the_steps(any_store_url: str) -> None:
    random = Random(5)
    steps = make_steps(random, 150)
    engine = open_for_writing(any_store_url)
    writers = [Writer(engine, RUN_ID) for _ in range(2)]
    writers[0].write_run(make_run())
    by_step = sorted(steps, key=lambda step: step.step)
    pieces = [by_step[first : first + 20] for first in range(0, len(by_step), 20)]
    # Out of order, repeated, and by a writer that was started again.
    random.shuffle(pieces)
    for number, piece in enumerate([*pieces, *pieces[:4]]):
        writer = writers[number * 2 > len(pieces)]
        batches = [
            make_batch(number, f"0:{rank}", steps=[step for step in piece if step.rank == rank])
            for rank in range(3)
        ]
        writer.write(
            [msgspec.structs.replace(batch, health=health_of(batch, n)) for n, batch in enumerate(batches)]
        )
    assert kept(engine, OF_STEPS) == made_anew(engine, OF_STEPS)
    with Provenance(open_for_reading(any_store_url)) as provenance:
        for level in range(5):
            ranks = [(0, rank) for rank in range(3)]
            for over_ranks in (True, False):
                found = provenance.steps.sums(level, None if over_ranks else ranks)
                assert {
                    (of.program, of.rank, of.step): (
                        of.steps,
                        of.calls,
                        of.anomalies,
                        of.severity_us,
                        of.highest_score,
                        of.most_anomalies,
                    )
                    for of in found
                } == step_sums(steps, 8**level, over_ranks)
        assert provenance.steps.time_range() == (2_000, 149_999)
        assert provenance.steps.firsts() == {
            (0, rank): min(step.step for step in steps if step.rank == rank) for rank in range(3)
        }
    engine.dispose()


def health_of(batch: Any, rank: int) -> Any:
    return msgspec.structs.replace(batch.health, rank=rank)


def test_a_step_that_is_reported_differently_is_replaced_in_all_sums(engine: Engine, writer: Writer) -> None:
    reported = [StepCount(0, 1, step, 1_000, 2_000, 50, 2, 20.0, 3.0) for step in range(20)]
    writer.write([make_batch(1, steps=reported)])
    writer.write([make_batch(2, steps=[StepCount(0, 1, 3, 1_000, 2_000, 50, 0, 0.0, 0.0)])])
    found = kept(engine, OF_STEPS)
    assert found == made_anew(engine, OF_STEPS)
    assert (1, 0, 1, 0, 1, 0.0, 3) in found["step_histograms"]
