"""What is found and summed up is what looking at every record finds, whichever index is taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from random import Random
from typing import Any, get_args

import pytest

from chimbuko.core.calls.record import CallRecord, StackFrame, call_id
from chimbuko.core.calls.schema import SORTS, Label
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.query import planner
from chimbuko.provenance.query.aggregates import By, Total
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.points import Points, points
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import close, open_for_reading, open_for_writing
from chimbuko.provenance.write.writer import Writer
from tests.reference.provenance import matching, totals
from tests.sample_records import RUN_ID, make_batches, make_record, make_run

FUNCTIONS = ("main", "solve(double *)", "MPI_Waitall()", "exchange", "MPI_Recv()", "Kernel<float>")
FILTERS = 30
START_US = 5_000_000
RANKS = {(0, 0): "node1", (0, 1): "node1", (0, 7): "Node*2", (1, 0): "node3", (1, 1): "node3"}


def make_calls(random: Random, count: int = 240) -> list[CallRecord]:
    """Of five ranks of two programs; some are open, on a GPU, normal, or longer than a second."""
    calls = []
    for row in range(count):
        (program, rank), node = random.choice(sorted(RANKS.items()))
        stack = [random.choice(FUNCTIONS) for _ in range(random.randint(1, 4))]
        entry_us = START_US + random.randrange(12_000_000)
        is_open = random.random() < 0.1
        runtime_us = random.choice((200, 5_000, 900_000, 1_500_000, 6_000_000))
        exit_us = 0 if is_open else entry_us + runtime_us
        severity_us = float(random.randrange(50)) * 100
        expected_us = runtime_us - severity_us
        step = random.randrange(9)
        own = call_id(program, rank, step, row)
        frames = [
            StackFrame(own if n == 0 else call_id(program, rank, 0, n), name, entry_us - n, exit_us, n == 0)
            for n, name in enumerate(stack)
        ]
        calls.append(
            make_record(
                row=row,
                step=step,
                program=program,
                rank=rank,
                node=node,
                thread=random.randrange(3),
                label=random.choice((Label.ANOMALY, Label.ANOMALY, Label.NORMAL)),
                function=stack[0],
                call_stack=frames,
                entry_us=entry_us,
                exit_us=exit_us,
                inclusive_us=runtime_us,
                exclusive_us=runtime_us // 2,
                severity_us=severity_us,
                expected_us=expected_us,
                score=float(random.randrange(20)),
                is_gpu=random.random() < 0.1,
                window=[],
                messages=[],
                counters=[],
                metrics=[],
            )
        )
    return calls


def random_filter(random: Random) -> CallFilter:
    """One to three conditions."""
    some_us = START_US + random.randrange(12_000_000)
    values: dict[str, Sequence[Any]] = {
        "label": ("normal", None, "anomaly"),
        "function": (*FUNCTIONS, "MPI_*", "*", "nothing", "solve(double *)"),
        "through": ("main", "*e*", "MPI_????()", "nothing"),
        "node": ("node1", "node*", "Node*2", "nowhere"),
        "program": (0, 1, 2),
        "rank": (0, 1, 7, 8),
        "rank_min": (1, 7),
        "rank_max": (0, 1, 7),
        "thread": (0, 1, 5),
        "step_min": range(9),
        "step_max": range(9),
        "time_min_us": (some_us, START_US + 13_000_000),
        "time_max_us": (some_us + 500_000, some_us + 3_000_000),
        "min_severity_us": (1_000.0, 4_000.0),
        "max_severity_us": (500.0, 4_500.0),
        "min_score": (3.0, 18.0),
        "max_score": (2.0, 15.0),
        "is_open": (True, False),
        "is_gpu": (True, False),
        "detector": ("robust", "sstd"),
        "text": ("MPI", "kernel<", "NODE", "xchang", "nothing", "e"),
    }
    chosen = random.sample(sorted(values), random.randint(1, 3))
    return CallFilter(**{name: random.choice(values[name]) for name in chosen})


@pytest.fixture(scope="module")
def calls() -> list[CallRecord]:
    return make_calls(Random(1))


@pytest.fixture(scope="module")
def filled_url(shared_store_url: str, calls: list[CallRecord]) -> str:
    """All calls in a store, on each kind of database in turn."""
    engine = open_for_writing(shared_store_url)
    writer = Writer(engine, RUN_ID)
    writer.write_run(make_run())
    writer.write(make_batches(calls))
    close(engine)
    return shared_store_url


@pytest.fixture(params=["few", "many"])
def stored(
    request: pytest.FixtureRequest, filled_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Provenance]:
    """The store, which takes them for few, so that it sorts them, or for many."""
    if request.param == "many":
        monkeypatch.setattr(planner, "FEW", 3)
    with Provenance(open_for_reading(filled_url)) as provenance:
        yield provenance


def ids_of(of: Points) -> list[str]:
    """Ids of the calls of a chart."""
    columns = of.columns
    return [
        f"{of.ranks[rank][0]}:{of.ranks[rank][1]}:{step}:{row}"
        for rank, step, row in zip(columns.rank, columns.begin_step, columns.begin_row, strict=True)
    ]


def test_a_filter_finds_what_looking_at_every_record_finds(
    stored: Provenance, calls: list[CallRecord]
) -> None:
    random = Random(2)
    for _ in range(FILTERS):
        wanted = random_filter(random)
        expected = {call.id for call in matching(wanted, calls)}
        sort, descending = random.choice(SORTS), random.random() < 0.5
        found, cursor = [], None
        while True:
            page = stored.calls.page(wanted, sort, descending, limit=17, cursor=cursor)  # type: ignore[arg-type]
            found += page.calls
            cursor = page.next
            if cursor is None:
                break
        assert {call.id for call in found} == expected, wanted
        assert len(found) == len(expected) == stored.calls.count(wanted), wanted
        assert stored.calls.count(wanted, most=5) == min(5, len(expected)), wanted
        values = list(map(attrgetter(sort), found))
        assert values == sorted(values, reverse=descending), wanted
        assert {record.id for record in stored.calls.records(wanted)} == expected, wanted
        assert set(ids_of(found_points := points(stored.calls, wanted))) == expected, wanted
        assert found_points.anomalies + found_points.normal_calls == len(expected), wanted


def test_calls_of_a_path_have_the_same_callers(stored: Provenance, calls: list[CallRecord]) -> None:
    def on_path(call: CallRecord) -> tuple[Any, ...]:
        return (call.program, *(frame.function for frame in call.call_stack))

    by_id = {call.id: call for call in calls}
    every = stored.calls.page(CallFilter(label=None), limit=1000).calls
    assert {call.path for call in every} >= {0}
    for summary in every[:40]:
        same = stored.calls.page(CallFilter(label=None, path=summary.path), limit=1000).calls
        wanted = on_path(by_id[summary.id])
        assert {call.id for call in same} == {call.id for call in calls if on_path(call) == wanted}


def key_of(by: By, call: CallRecord, width_us: int) -> Any:
    keys = {
        "function": (call.program, call.function),
        "rank": (call.program, call.rank),
        "node": call.node,
        "path": (call.program, tuple(frame.function for frame in reversed(call.call_stack))),
        "step": call.step,
        "time": call.entry_us // width_us * width_us,
    }
    return keys[by]


def key_of_total(by: By, total: Total) -> Any:
    keys = {
        "function": (total.program, total.function),
        "rank": (total.program, total.rank),
        "node": total.node,
        "path": (total.program, tuple(total.functions or ())),
        "step": total.step,
        "time": total.start_us,
    }
    return keys[by]


@pytest.mark.parametrize("by", get_args(By))
def test_sums_are_those_of_the_calls_that_match(by: By, stored: Provenance, calls: list[CallRecord]) -> None:
    random = Random(3)
    for number in range(25):
        wanted = CallFilter() if number == 0 else random_filter(random)
        if wanted.label != "anomaly":
            with pytest.raises(ConfigError, match="abnormal"):
                stored.calls.totals(by, wanted)
            continue
        found = stored.calls.totals(by, wanted, width_us=2_000_000)
        expected = totals(lambda call: key_of(by, call, 2_000_000), matching(wanted, calls))
        assert {key_of_total(by, total): numbers(total) for total in found} == expected, wanted
        assert stored.calls.totals(by, wanted, limit=2, width_us=2_000_000) == found[:2]


def numbers(total: Total) -> tuple[Any, ...]:
    return (
        total.anomalies,
        total.severity_us,
        total.highest_severity_us,
        total.highest_score,
        total.first_us,
        total.last_us,
    )
