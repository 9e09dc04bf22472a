"""The analysis of one stream: what is learned, what is flagged, what is handed out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.core.calls.record import CallRecord, StreamHealth
from chimbuko.core.calls.recordarrays import PackedRecords, unpack
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.core.traceschema import MAX_TIME_US, StreamNames, TraceStep
from tests.plainpython import examples

RANK = 1
ALPHA = 1.7123
SSTD = {"detector": "sstd", "threshold": ALPHA, "fast_side": True, "min_anomaly_us": 0}
"""Low, and no ratio that small whole numbers make: many flags and none exactly at the limit."""
START_US = 1_000_000
NAMES = StreamNames(timers={0: "main", 1: "solve", 2: "MPI_Send()", 3: "inner"})
HEALTH = StreamHealth(0, RANK, "node1", "reading", 0, 0, 0, 0, 0, 0, {})
EXAMPLES = examples(60)

Call = tuple[int, int]
"""Function and runtime in µs."""


def make_analysis(**changes: object) -> StreamAnalysis:
    config = AnalysisConfig(**{**SSTD, **changes})  # type: ignore[arg-type]
    return StreamAnalysis(StreamIdentity(0, RANK, "node1"), config)


def flat_step(number: int, calls: Iterable[Call], thread: int = 0) -> TraceStep:
    """Calls one after the other."""
    time = START_US + number * 1_000_000_000
    rows = []
    for function, runtime_us in calls:
        rows.append([0, RANK, thread, 0, function, time])
        rows.append([0, RANK, thread, 1, function, time + runtime_us])
        time += runtime_us + 1
    return step_of(number, rows)


def step_of(number: int, rows: list[list[int]]) -> TraceStep:
    events = np.array(rows, np.uint64).reshape(-1, 6)
    return TraceStep(number, events, np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64))


def unpacked(records: PackedRecords) -> list[CallRecord]:
    return unpack(records, HEALTH, "sstd")


def anomalies(records: PackedRecords) -> list[CallRecord]:
    return [r for r in unpacked(records) if r.label is Label.ANOMALY and r.revision == 1]


def normals(records: PackedRecords) -> list[CallRecord]:
    return [r for r in unpacked(records) if r.label is Label.NORMAL and r.revision == 1]


calls_of_step = st.lists(st.tuples(st.integers(1, 2), st.integers(0, 50)), max_size=25)
many_steps = st.lists(calls_of_step, min_size=1, max_size=4)


@EXAMPLES
@given(many_steps)
def test_calls_are_learned_and_then_labelled(steps: list[list[Call]]) -> None:
    """The flags of a step are what NumPy says of all runtimes up to and including that step."""
    analysis = make_analysis()
    known: dict[int, list[int]] = {1: [], 2: []}
    entered: set[int] = set()
    for number, calls in enumerate(steps):
        judged = []
        for row, (function, runtime_us) in enumerate(calls):
            if function in entered:
                known[function].append(runtime_us)
                judged.append((row, function, runtime_us))
            entered.add(function)
        limit = {f: ALPHA * np.std(v, ddof=1) if len(v) > 1 else np.inf for f, v in known.items()}
        expected = [
            f"0:{RANK}:{number}:{2 * row}"
            for row, function, runtime_us in judged
            if abs(runtime_us - np.mean(known[function])) > limit[function] + 1e-9
        ]
        result = analysis.analyse(flat_step(number, calls), NAMES)
        found = anomalies(result.records)
        assert [record.id for record in found] == expected
        assert (result.count.calls, result.count.anomalies) == (len(calls), len(expected))
        for record in found:
            values = known[{"solve": 1, "MPI_Send()": 2}[record.function]]
            assert record.seen == len(values)
            # What is usual on the path is half a microsecond at least, where the clock says 0.
            mean_us = np.mean(values)
            assert record.expected_us == pytest.approx(mean_us) or mean_us < record.expected_us == 0.5
            assert record.spread_us == pytest.approx(np.std(values, ddof=1))
            assert record.severity_us == pytest.approx(max(record.exclusive_us - np.mean(values), 0.0))
        assert result.count.severity_us == pytest.approx(sum(record.severity_us for record in found))
        assert result.count.highest_score == max((record.score for record in found), default=0.0)


def seen_of(analysis: StreamAnalysis) -> dict[str, Moments]:
    learned = analysis.hand_out(0).learned
    return {
        NAMES.timers[timer]: Moments.from_row(row)
        for timer, row in zip(learned.timers.tolist(), learned.table, strict=True)
    }


def test_the_first_call_per_function_and_thread_teaches_nothing_and_is_not_flagged() -> None:
    analysis = make_analysis()
    for thread in (0, 5):
        slow_first = [(1, 10_000), *[(1, 10)] * 20]
        result = analysis.analyse(flat_step(thread and 1, slow_first, thread), NAMES)
        assert anomalies(result.records) == []
    assert seen_of(analysis) == {"solve": Moments.of([10] * 40)}


def test_calls_open_across_a_gap_teach_nothing_and_are_not_flagged() -> None:
    analysis = make_analysis()
    analysis.analyse(flat_step(0, [(1, 10 + row % 2) for row in range(30)]), NAMES)
    begun = step_of(1, [[0, RANK, 0, 0, 1, 2 * START_US]])
    ended = step_of(3, [[0, RANK, 0, 1, 1, 90 * START_US]])
    analysis.analyse(begun, NAMES)
    result = analysis.analyse(ended, NAMES)
    assert result.records.count == 0 and result.count.calls == 1
    assert seen_of(analysis)["solve"].n == 29
    assert analysis.health("reading").gap_steps == 1


def test_calls_of_a_function_without_a_name_teach_nothing() -> None:
    analysis = make_analysis()
    analysis.analyse(flat_step(0, [(77, 10)] * 10), NAMES)
    assert seen_of(analysis) == {}
    assert analysis.health("reading").losses == {"rows of a timer not named yet": 20}


@pytest.mark.parametrize(("metric", "function"), [("exclusive", "inner"), ("inclusive", "solve")])
def test_the_metric_decides_which_call_is_abnormal(metric: str, function: str) -> None:
    """Exclusively the inner call is slow alone; inclusively the outer one shares its delay."""
    analysis = make_analysis(metric=metric, threshold=5.0)
    rows: list[list[int]] = []
    for call in range(60):
        start, inner_us = START_US + 10_000 * call, 4000 if call == 50 else 20 + call % 3
        rows.append([0, RANK, 0, 0, 1, start])
        rows.append([0, RANK, 0, 0, 3, start + 5])
        rows.append([0, RANK, 0, 1, 3, start + 5 + inner_us])
        rows.append([0, RANK, 0, 1, 1, start + 10 + inner_us])
    found = anomalies(analysis.analyse(step_of(0, rows), NAMES).records)
    assert function in {record.function for record in found}
    assert {record.function for record in found} <= {"inner", function}
    slow = next(record for record in found if record.function == function)
    assert slow.entry_us in (START_US + 500_000, START_US + 500_005)
    assert slow.severity_us > 3000


def test_one_typical_normal_call_is_recorded_beside_the_anomalies() -> None:
    """The normal call nearest to the middle, once, and not again until the function is flagged again."""
    analysis = make_analysis(threshold=6.0)
    calls = [(1, 100 + row % 5) for row in range(100)]
    slow_twice = [*calls, (1, 5000), (1, 6000)]
    records = analysis.analyse(flat_step(0, slow_twice), NAMES).records
    assert [record.exclusive_us for record in anomalies(records)] == [5000, 6000]
    (normal,) = normals(records)
    assert normal.exclusive_us == 104 and normal.function == "solve"
    again = analysis.analyse(flat_step(1, calls), NAMES).records
    assert anomalies(again) == normals(again) == []


def test_the_longest_of_few_calls_is_recorded_for_the_final_judgement() -> None:
    """Its rank alone has too few calls to judge it; what others take is known in the end."""
    analysis = make_analysis(detector="robust", threshold=4.5, fast_side=False)
    steps = [[(1, 20_000), (1, 20_000)], [(1, 1_200_000)], [(1, 90_000)], [(1, 1_300_000)]]
    recorded = [
        [one.exclusive_us for one in normals(analysis.analyse(flat_step(number, calls), NAMES).records)]
        for number, calls in enumerate(steps)
    ]
    assert recorded == [[], [1_200_000], [], [1_300_000]]


def test_delays_among_few_calls_are_recorded_for_when_there_are_more() -> None:
    analysis = make_analysis(detector="robust", threshold=4.5, fast_side=False)
    steps = [[(1, 300)] * 9, [(1, 24_000), (1, 300), (1, 25_000)], [(1, 12_000)], [(1, 9_000)]]
    recorded = [
        [one.exclusive_us for one in normals(analysis.analyse(flat_step(number, calls), NAMES).records)]
        for number, calls in enumerate(steps)
    ]
    assert recorded == [[], [24_000, 25_000], [12_000], []]


def test_a_wanted_normal_call_is_taken_from_a_later_step() -> None:
    analysis = make_analysis(threshold=6.0)
    analysis.analyse(flat_step(0, [(1, 100 + row % 5) for row in range(100)]), NAMES)
    alone = analysis.analyse(flat_step(1, [(1, 5000)]), NAMES).records
    assert len(anomalies(alone)) == 1 and normals(alone) == []
    later = analysis.analyse(flat_step(2, [(1, 101), (1, 102)]), NAMES).records
    assert len(normals(later)) == 1
    assert normals(analysis.analyse(flat_step(3, [(1, 101)]), NAMES).records) == []


actions = st.lists(
    st.one_of(
        st.tuples(st.just("step"), calls_of_step),
        st.tuples(st.sampled_from(("hand out", "new generation", "merge", "take model")), st.none()),
    ),
    max_size=25,
)


@pytest.mark.compiled
@examples(120)
@given(actions)
def test_no_call_is_counted_twice_or_lost(sequence: list[tuple[str, list[Call] | None]]) -> None:
    """However late others merge and return it: own, handed-out and global parts make up all calls."""
    analysis = make_analysis()
    outbox: list[tuple[int, np.ndarray]] = []
    generation, merged_generation = 0, -1
    model = PROFILE.empty(len(NAMES.timers))
    known: dict[int, list[int]] = {1: [], 2: []}
    entered: set[int] = set()
    number = 0

    def hand_out() -> None:
        learned = analysis.hand_out(generation).learned
        table = PROFILE.empty(len(model))
        table[learned.timers] = learned.table
        outbox.append((generation, table))

    for action, calls in sequence:
        if action == "step":
            for function, runtime_us in calls or ():
                if function in entered:
                    known[function].append(runtime_us)
                entered.add(function)
            for record in anomalies(analysis.analyse(flat_step(number, calls or ()), NAMES).records):
                assert record.seen == len(known[{"solve": 1, "MPI_Send()": 2}[record.function]])
            number += 1
        elif action == "hand out":
            hand_out()
        elif action == "new generation":
            generation += 1
        elif action == "merge":
            # Others merge whole generations, and only those that are over.
            for part in [part for part in outbox if part[0] < generation]:
                PROFILE.merge(model, range(len(model)), part[1])
            outbox = [part for part in outbox if part[0] == generation]
            merged_generation = generation - 1
        else:
            analysis.take_model(model.copy(), merged_generation, 1)
    hand_out()
    for _, table in outbox:
        PROFILE.merge(model, range(len(model)), table)
    for function, values in known.items():
        total, exact = Moments.from_row(model[function]), Moments.of(values)
        assert total.n == exact.n
        assert total.mean == pytest.approx(exact.mean) and total.m2 == pytest.approx(exact.m2, abs=1e-6)


def test_a_global_model_alone_is_enough_to_flag() -> None:
    """What other ranks know flags a call that this one meets for the second time."""
    analysis = make_analysis(threshold=6.0)
    model = PROFILE.empty(4)
    model[1, PROFILE.slices["exclusive_us"]] = Moments.of([10, 11] * 500).row()
    analysis.take_model(model, -1, 1)
    found = anomalies(analysis.analyse(flat_step(0, [(1, 10), (1, 10_000)]), NAMES).records)
    assert [(record.exclusive_us, record.seen) for record in found] == [(10_000, 1001)]


def test_anomalies_and_severity_are_handed_out_with_the_runtimes() -> None:
    analysis = make_analysis(threshold=6.0)
    result = analysis.analyse(flat_step(0, [*[(1, 10)] * 60, (1, 5000)]), NAMES)
    learned = analysis.hand_out(0).learned
    assert learned.table[:, PROFILE.slices["anomalies"]].tolist() == [[1.0]]
    assert learned.table[0, PROFILE.slices["severity_us"]] == pytest.approx(result.count.severity_us)


def test_step_times_are_those_that_are_possible() -> None:
    """One absurd timestamp must not become the end of a step, which stores and charts would take over."""
    analysis = make_analysis()
    rows = [[0, RANK, 0, 0, 1, START_US], [0, RANK, 0, 1, 1, START_US + 5]]
    rows += [[0, RANK, 0, 0, 1, absurd] for absurd in (0, MAX_TIME_US, (1 << 64) - 1)]
    count = analysis.analyse(step_of(0, rows), NAMES).count
    assert (count.start_us, count.end_us) == (START_US, START_US + 5)
    empty = analysis.analyse(step_of(1, []), NAMES).count
    assert (empty.start_us, empty.end_us, empty.calls) == (START_US + 5, START_US + 5, 0)


def test_health_counts_rows_bytes_calls_and_losses() -> None:
    analysis = make_analysis()
    analysis.analyse(flat_step(0, [(1, 10)] * 3), NAMES)
    analysis.analyse(step_of(1, [[0, RANK + 1, 0, 0, 1, START_US]]), NAMES)
    health = analysis.health("reading")
    assert (health.steps, health.rows, health.size_bytes, health.calls) == (2, 7, 7 * 48, 3)
    assert health.losses == {"rows of another program or rank": 1}


def test_a_record_has_metrics_the_state_of_the_node_and_its_launch() -> None:
    """A slow kernel on thread 7, launched by the last call on thread 0, where each EXIT has a metric."""
    names = StreamNames(
        timers=NAMES.timers,
        counters={0: "CPU_TIME", 1: "Correlation ID", 2: "monitoring: load"},
        metadata={(RANK, 7, "CUDA Stream"): "3"},
    )
    step = flat_step(0, [*[(1, 10)] * 60, (1, 200)])
    launch, kernels = step.events[-2], flat_step(0, [*[(3, 10)] * 60, (3, 5000)], thread=7).events
    counters = [[0, RANK, 0, 2, 9, START_US]]
    counters += [[0, RANK, 0, 0, 3 * row[5], row[5]] for row in step.events[1::2].tolist()]
    counters += [[0, RANK, 0, 1, 77, launch[5] + 200], [0, RANK, 7, 1, 77, kernels[-1, 5]]]
    counters.sort(key=lambda row: row[5])
    step = TraceStep(0, np.concatenate([step.events, kernels]), step.comms, np.array(counters, np.uint64))
    analysis = make_analysis(threshold=6.0, min_anomaly_us=5)
    slow_launch, slow_kernel = anomalies(analysis.analyse(step, names).records)
    (metric,) = slow_launch.metrics
    assert (metric.counter, metric.value, metric.call_id) == ("CPU_TIME", 3 * 201, slow_launch.id)
    assert [value.counter for value in slow_launch.counters] == ["Correlation ID"]
    assert (slow_kernel.is_gpu, slow_launch.is_gpu) == (True, False)
    assert (slow_kernel.launch_id, slow_kernel.launch_stack) == (slow_launch.id, slow_launch.call_stack)
    for record in (slow_launch, slow_kernel):
        assert [(value.counter, value.value) for value in record.node_state] == [("monitoring: load", 9)]
    assert {one.name for one in analysis.counter_statistics()} == {"CPU_TIME", "monitoring: load"}


@pytest.mark.parametrize(
    ("first", "last", "recorded"), [(0, None, [1, 2, 3]), (2, None, [2, 3]), (0, 2, [1, 2]), (2, 2, [2])]
)
def test_calls_are_recorded_of_the_wanted_steps_and_learned_and_counted_of_all(
    first: int, last: int | None, recorded: list[int]
) -> None:
    analysis = make_analysis(threshold=6.0, record_from_step=first, record_to_step=last)
    flagged, counted = set(), []
    for number in range(4):
        slow = [(1, 5000)] if number else []
        result = analysis.analyse(
            flat_step(number, [*[(1, 10 + call % 3) for call in range(100)], *slow]), NAMES
        )
        flagged |= {record.step for record in unpacked(result.records)}
        counted.append(result.count.anomalies)
    assert sorted(flagged) == recorded
    assert counted == [0, 1, 1, 1]
    assert analysis.health("ended").anomalies == 3
    assert analysis.hand_out(0).learned.table[0, PROFILE.slices["anomalies"].start] == 3


@pytest.mark.compiled
def test_of_a_flood_all_is_counted_and_the_most_severe_calls_are_recorded() -> None:
    usual = [(1, 10)] * 2000
    flood = [(1, 1000 + call) for call in range(50)]
    limited, unlimited = make_analysis(max_anomalies_per_function=2), make_analysis()
    for analysis in (limited, unlimited):
        analysis.analyse(flat_step(0, usual), NAMES)
    kept, all_of_them = (analysis.analyse(flat_step(1, flood), NAMES) for analysis in (limited, unlimited))
    assert kept.count == all_of_them.count
    assert kept.count.anomalies == 50
    assert kept.left_out == {"solve": 30}
    assert [r.exclusive_us for r in anomalies(kept.records)] == [1000 + call for call in range(30, 50)]
    assert all_of_them.left_out == {}
    assert limited.hand_out(1).learned.table.tolist() == unlimited.hand_out(1).learned.table.tolist()
    # Marks of neighbours are of all.
    earliest = anomalies(kept.records)[0]
    assert [call.is_anomaly for call in earliest.window] == [True] * len(earliest.window)
