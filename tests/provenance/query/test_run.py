from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from chimbuko.core.calls.record import CallRecord, Metadata, StepCount
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.errors import ConfigError, StoreError
from chimbuko.core.statistics.moments import Moments
from chimbuko.provenance.query.filters import CallFilter, CallSummary, Cursor, Sort
from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.provenance.store.decode import CallDetails
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.store.tables import CALLS, FUNCTIONS
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RecordBatch, RunStatistics
from chimbuko.runtime.runs.directory import RunInfo, new_run
from tests.sample_records import make_batches

Record = Callable[..., CallRecord]
Batch = Callable[..., RecordBatch]
ALL = CallFilter(label=None)


@pytest.fixture
def store_url(any_store_url: str) -> str:
    return any_store_url


@pytest.fixture
def store(writer: Writer, batch: Batch) -> Callable[..., None]:
    """Stores records."""
    return lambda *records: writer.write(make_batches(records))


def rows(provenance: Provenance, wanted: CallFilter) -> set[int]:
    """Last parts of the ids of the calls that a filter finds."""
    found = provenance.calls.page(wanted, limit=1000).calls
    assert provenance.calls.count(wanted) == len(found)
    return {int(call.id.rsplit(":", 1)[1]) for call in found}


def pages(
    provenance: Provenance, wanted: CallFilter, sort: Sort, descending: bool, limit: int
) -> list[CallSummary]:
    """All calls of a list, page by page."""
    page = provenance.calls.page(wanted, sort, descending, limit)
    calls = list(page.calls)
    while page.next is not None:
        page = provenance.calls.page(wanted, sort, descending, limit, page.next)
        assert page.calls
        calls += page.calls
    return calls


def test_a_summary_has_the_scalar_fields_of_the_record(
    store: Callable[..., None], provenance: Provenance, record: Record
) -> None:
    written = record(row=5, revision=4)
    store(written)
    [summary] = provenance.calls.page(CallFilter()).calls
    details = {*CallDetails.__struct_fields__, "node_state"}
    scalars = set(CallRecord.__struct_fields__) - details
    assert all(getattr(summary, name) == getattr(written, name) for name in scalars)
    assert set(CallSummary.__struct_fields__) == scalars | {"path"}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (CallFilter(), {0, 1, 2}),
        (CallFilter(label="normal"), {3}),
        (ALL, {0, 1, 2, 3}),
        (CallFilter(program=1), {1}),
        (CallFilter(rank=7), {2}),
        (CallFilter(thread=2), {0}),
        (CallFilter(step_min=5), {1, 2}),
        (CallFilter(step_max=5), {0, 1}),
        (CallFilter(step_min=5, step_max=5), {1}),
        (CallFilter(min_severity_us=20.5), {1, 2}),
        (CallFilter(min_score=8.0), {2}),
        (CallFilter(label=None, rank=1, min_score=7.0, step_max=4), {0, 3}),
        (CallFilter(rank=99), set()),
    ],
)
def test_filters_keep_what_they_name(
    store: Callable[..., None], provenance: Provenance, record: Record, wanted: CallFilter, found: set[int]
) -> None:
    store(
        record(row=0, thread=2, severity_us=10.0),
        record(row=1, program=1, step=5, severity_us=20.5),
        record(row=2, rank=7, step=6, severity_us=30.0, score=8.0),
        record(row=3, label=Label.NORMAL),
    )
    assert rows(provenance, wanted) == found


@pytest.mark.parametrize(
    ("first", "last", "found"),
    [
        (None, 99, set()),
        (None, 100, {0}),
        (200, None, {0, 1, 2}),
        (201, None, {1, 2}),
        (140, 160, {0, 1}),
        (450, None, {2}),
        (501, None, set()),
    ],
)
def test_a_time_window_finds_calls_that_overlap_it(
    store: Callable[..., None],
    provenance: Provenance,
    record: Record,
    first: int | None,
    last: int | None,
    found: set[int],
) -> None:
    intervals = [(100, 200), (150, 400), (180, 500)]
    store(*(record(row=row, entry_us=entry, exit_us=end) for row, (entry, end) in enumerate(intervals)))
    assert rows(provenance, CallFilter(time_min_us=first, time_max_us=last)) == found


NAMES = [
    "f",
    "F",
    "main",
    "f(double *) [{a.c} {12,1}]",
    "f(double x) [{a.c} {12,1}]",
    "100%_done",
    "100x_done",
    "a\nb",
    "σ",
]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("f", {"f"}),
        ("F", {"F"}),
        ("m*n", {"main"}),
        ("mai?", {"main"}),
        ("?", {"f", "F", "σ"}),
        ("*", set(NAMES)),
        ("f(double *) [{a.c} {12,1}]", {"f(double *) [{a.c} {12,1}]"}),
        ("f(double*[{a.c}*", {"f(double *) [{a.c} {12,1}]", "f(double x) [{a.c} {12,1}]"}),
        ("[fF]", set()),
        ("[fF]*", set()),
        ("100%_done", {"100%_done"}),
        ("100?_done", {"100%_done", "100x_done"}),
        ("100__done", set()),
        ("a?b", {"a\nb"}),
        ("", set()),
        ("nothing*", set()),
    ],
)
def test_function_patterns(
    store: Callable[..., None], provenance: Provenance, record: Record, pattern: str, found: set[str]
) -> None:
    store(*(record(row=row, function=name) for row, name in enumerate(NAMES)))
    assert rows(provenance, CallFilter(function=pattern)) == {NAMES.index(name) for name in found}


def test_a_pattern_may_match_more_functions_than_a_statement_takes_parameters(
    store: Callable[..., None], engine: Engine, provenance: Provenance, record: Record
) -> None:
    store(record(function="wanted"))
    others = [{"run": 1, "number": n, "program": 0, "name": f"wanted too {n}"} for n in range(100, 70_100)]
    with engine.begin() as connection:
        connection.execute(FUNCTIONS.insert(), others)
    assert rows(provenance, CallFilter(function="wanted*")) == {0}


numbers = st.integers(0, 4)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.tuples(numbers, numbers, st.booleans()), max_size=30),
    sort=st.sampled_from(get_args(Sort)),
    descending=st.booleans(),
    limit=st.integers(1, 7),
)
def test_pages_together_are_the_whole_list(
    engine: Engine,
    writer: Writer,
    provenance: Provenance,
    record: Record,
    batch: Batch,
    values: list[tuple[int, int, bool]],
    sort: Sort,
    descending: bool,
    limit: int,
) -> None:
    with engine.begin() as connection:
        connection.execute(CALLS.delete())
    # Few distinct values, so that many are equal.
    records = [
        record(
            row=row,
            score=score / 3,
            severity_us=float(severity),
            entry_us=severity,
            exit_us=10 * score + 10,
            step=score,
            label=Label.NORMAL if normal else Label.ANOMALY,
        )
        for row, (severity, score, normal) in enumerate(values)
    ]
    writer.write(make_batches(records))
    found = pages(provenance, CallFilter(), sort, descending, limit)
    wanted = {record.id for record in records if record.label is Label.ANOMALY}
    assert {call.id for call in found} == wanted
    assert len(found) == len(wanted)
    keys = [getattr(call, sort) for call in found]
    assert keys == sorted(keys, reverse=descending)


def test_calls_stored_between_two_pages_neither_repeat_nor_hide_any(
    store: Callable[..., None], provenance: Provenance, record: Record
) -> None:
    store(*(record(row=row, severity_us=float(row)) for row in range(0, 20, 2)))
    first = provenance.calls.page(CallFilter(), limit=5)
    store(*(record(row=row, severity_us=float(row)) for row in range(1, 20, 2)))
    second = provenance.calls.page(CallFilter(), limit=50, cursor=first.next)
    shown = [call.severity_us for call in first.calls + second.calls]
    assert shown == [18, 16, 14, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]


def test_the_last_page_has_no_next(
    store: Callable[..., None], provenance: Provenance, record: Record
) -> None:
    store(record(row=0), record(row=1))
    assert provenance.calls.page(CallFilter(), limit=2).next is None
    assert provenance.calls.page(CallFilter(), limit=1).next is not None
    assert provenance.calls.page(CallFilter(rank=99)).calls == []


def test_wrong_orders_limits_and_cursors_are_refused(
    store: Callable[..., None], provenance: Provenance, record: Record
) -> None:
    store(record(row=0), record(row=1))
    cursor = provenance.calls.page(CallFilter(), limit=1).next
    assert cursor is not None
    with pytest.raises(ConfigError, match="not one that"):
        provenance.calls.page(CallFilter(), cursor="nonsense")
    with pytest.raises(ConfigError, match="not one that"):
        provenance.calls.page(CallFilter(), cursor="σ")
    with pytest.raises(ConfigError, match="not one that a list"):
        provenance.calls.page(CallFilter(), cursor=Cursor("severity_us", True, 1.5, 1 << 63).encode())
    with pytest.raises(ConfigError, match="not one that"):
        provenance.calls.page(CallFilter(), cursor=cursor[:-2])
    with pytest.raises(ConfigError, match="sorted by severity_us, descending"):
        provenance.calls.page(CallFilter(), sort="score", cursor=cursor)
    with pytest.raises(ConfigError, match="sorted by severity_us, descending"):
        provenance.calls.page(CallFilter(), descending=False, cursor=cursor)
    with pytest.raises(ConfigError, match="limit 0"):
        provenance.calls.page(CallFilter(), limit=0)
    with pytest.raises(ConfigError, match="sort 'id'"):
        provenance.calls.page(CallFilter(), sort="id")  # type: ignore[arg-type]


def test_an_unknown_call_is_refused(provenance: Provenance) -> None:
    with pytest.raises(ConfigError, match="'0:1:2:3': not recorded"):
        provenance.calls.record("0:1:2:3")


def test_the_normal_call_to_compare_with_is_the_nearest_of_its_function(
    store: Callable[..., None], provenance: Provenance, record: Record
) -> None:
    anomaly = record(row=0, rank=1, step=10)
    store(anomaly)
    assert provenance.calls.normal_like(anomaly) is None

    def normal(row: int, **changes: Any) -> CallRecord:
        made = record(row=row, label=Label.NORMAL, **changes)
        store(made)
        return made

    normal(1, rank=1, step=10, function="another")
    normal(2, rank=1, step=10, program=1)
    assert provenance.calls.normal_like(anomaly) is None
    elsewhere = normal(3, rank=2, step=10)
    assert provenance.calls.normal_like(anomaly) == elsewhere
    far = normal(4, rank=1, step=2)
    assert provenance.calls.normal_like(anomaly) == far
    near = normal(5, rank=1, step=13)
    assert provenance.calls.normal_like(anomaly) == near
    assert provenance.calls.normal_like(near) == far


@pytest.fixture
def counted(writer: Writer, batch: Batch) -> list[StepCount]:
    """Steps of two programs and three ranks, in the order in which they are given back."""
    anomalies = {(0, 0): [0, 0, 4, 1, 0], (0, 1): [2], (1, 0): [0, 0, 0]}
    steps = [
        StepCount(program, rank, step, 100 * step, 100 * step + 99, 50, number, 1.5 * number)
        for (program, rank), counts in anomalies.items()
        for step, number in enumerate(counts)
    ]
    writer.write([batch(steps=steps[::-1])])
    return steps


def test_step_counts_of_ranks_and_ranges(counted: list[StepCount], provenance: Provenance) -> None:
    assert provenance.steps.counts() == counted
    assert provenance.steps.counts([(0, 1), (1, 0)]) == counted[5:]
    assert provenance.steps.counts([]) == []
    assert provenance.steps.counts([(0, 0)], step_min=1, step_max=3) == counted[1:4]


def test_the_time_range_is_that_of_all_steps(provenance: Provenance, request: pytest.FixtureRequest) -> None:
    assert provenance.steps.time_range() is None
    request.getfixturevalue("counted")
    # The first step is given the time 0, as one without events: it has none.
    assert provenance.steps.time_range() == (100, 499)


def test_rank_statistics_count_steps_without_anomalies(
    counted: list[StepCount], provenance: Provenance
) -> None:
    found = provenance.steps.rank_statistics()
    assert [(rank.program, rank.rank, rank.steps, rank.total) for rank in found] == [
        (0, 0, 5, 5),
        (0, 1, 1, 2),
        (1, 0, 3, 0),
    ]
    first = found[0]
    values = [0, 0, 4, 1, 0]
    moments = Moments.of(values)
    assert (first.minimum, first.maximum, first.last_step, first.severity_us) == (0, 4, 4, 7.5)
    assert (first.mean, first.stddev) == pytest.approx((statistics.mean(values), statistics.stdev(values)))
    assert (first.skewness, first.kurtosis) == pytest.approx((moments.skewness, moments.kurtosis))


@pytest.mark.usefixtures("counted")
def test_rank_statistics_of_equal_counts_have_no_spread(provenance: Provenance) -> None:
    alone, still = provenance.steps.rank_statistics()[1:]
    assert (alone.mean, alone.stddev, alone.skewness, alone.kurtosis) == (2.0, 0.0, 0.0, 0.0)
    assert (still.mean, still.stddev, still.skewness, still.kurtosis) == (0.0, 0.0, 0.0, 0.0)


def test_metadata_of_a_program_or_rank(writer: Writer, batch: Batch, provenance: Provenance) -> None:
    attributes = [
        Metadata(program, rank, 0, key, f"{program} {rank} {key}")
        for program in (0, 1)
        for rank in (0, 1)
        for key in ("CPU", "Hostname")
    ]
    writer.write([batch(metadata=attributes)])
    assert provenance.metadata() == attributes
    assert provenance.metadata(rank=1) == [attribute for attribute in attributes if attribute.rank == 1]
    assert provenance.metadata(program=1, rank=0) == attributes[4:6]


def test_programs(writer: Writer, provenance: Provenance) -> None:
    writer.write_statistics(RunStatistics({1: "coupler", 0: "heat"}))
    writer.write_statistics(RunStatistics({0: "heat4"}))
    assert provenance.programs() == {0: "heat4", 1: "coupler"}


def test_the_newest_run_is_meant_where_none_is_named(
    engine: Engine, writer: Writer, provenance: Provenance, run_info: Callable[..., RunInfo]
) -> None:
    Writer(engine, "older").write_run(run_info("older", started_us=5))
    Writer(engine, "newer").write_run(run_info("newer", started_us=5_000_000))
    assert Provenance(engine).run_id == "newer"
    assert Provenance(engine, "older").run().started_us == 5
    with pytest.raises(ConfigError, match="no run 'other'"):
        Provenance(engine, "other").run()


def test_a_store_without_a_run_says_so(engine: Engine) -> None:
    with pytest.raises(StoreError, match="holds no run yet"):
        Provenance(engine)


def test_a_run_is_opened_by_its_folder_also_when_that_was_moved(
    tmp_path: Path, record: Record, batch: Batch
) -> None:
    run = new_run(tmp_path / "first", ["./heat"], AnalysisConfig(), None)
    info = run.read_info()
    engine = open_for_writing(info.store_url)
    writer = Writer(engine, info.id)
    writer.write_run(info)
    writer.write([batch(records=[record()])])
    with open_run(run) as provenance:
        assert provenance.calls.count(ALL) == 1
    engine.dispose()
    moved = type(run)(run.path.rename(tmp_path / "second"))
    with open_run(moved) as provenance:
        assert provenance.calls.record("0:1:3:0") == record()


def test_a_run_in_a_store_elsewhere_is_opened_by_its_url(
    tmp_path: Path, writer: Writer, store_url: str, record: Record, batch: Batch
) -> None:
    run = new_run(tmp_path / "run", ["./heat"], AnalysisConfig(), store_url)
    run.write_store_url(store_url)
    other = Writer(writer._engine, run.read_info().id)
    other.write_run(run.read_info())
    other.write([batch(records=[record()])])
    with open_run(run) as provenance:
        assert provenance.calls.record("0:1:3:0") == record()
