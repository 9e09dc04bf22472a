"""Imported calls add up by step, stream and function; each model is reported once for as long as it stays."""

from __future__ import annotations

from chimbuko.core.calls.record import StepCount
from chimbuko.core.calls.schema import Label
from chimbuko.core.statistics.moments import Moments
from chimbuko.provenance.importing.cppmodels import FunctionProfile, Learned, RunStatistics, RuntimeProfile
from chimbuko.provenance.importing.cpprecords import ForeignCall
from chimbuko.provenance.importing.tally import ImportTally
from tests.sample_records import make_record

EARLY, LATE = Learned(Moments.of([1.0, 2.0])), Learned(Moments.of([1.0, 2.0, 6.0]))


def call(row: int, learned: Learned | None = EARLY, **changes: object) -> ForeignCall:
    return ForeignCall(make_record(row, function="solve", **changes), learned, None, [])


def test_a_model_is_reported_when_it_changes() -> None:
    tally = ImportTally("sstd", "exclusive")
    given = [tally.add(call(row, learned)) for row, learned in enumerate((EARLY, EARLY, LATE, None))]
    assert [record.model_version for record, _ in given] == [1, 1, 2, 0]
    assert [[model.version for model in models] for _, models in given] == [[1], [], [2], []]
    assert tally.version_after(0, "solve") == 3
    assert tally.version_after(0, "other") == 1


def test_steps_are_as_long_as_their_records_say() -> None:
    tally = ImportTally("sstd", "exclusive")
    tally.add(call(0, severity_us=5.0, score=9.0))
    tally.add(call(1, severity_us=2.0, score=3.0))
    tally.add(call(2, label=Label.NORMAL, severity_us=7.0))
    tally.add(call(3, step=8, step_start_us=0, step_end_us=0, entry_us=5_000_000, exit_us=5_000_100))
    assert tally.steps()[0] == StepCount(0, 1, 3, 1_000_000, 2_000_000, 3, 2, 7.0, 9.0)
    assert (tally.steps()[1].start_us, tally.steps()[1].end_us) == (5_000_000, 5_000_100)
    assert (tally.first_us, tally.last_us) == (1_000_000, 5_000_100)
    health = tally.health(0, 1)
    assert (health.node, health.steps, health.calls, health.anomalies) == ("node7", 2, 4, 3)


def test_a_node_that_records_do_not_name_is_that_of_the_metadata() -> None:
    tally = ImportTally("sstd", "exclusive")
    tally.name_node(0, 1, "n01")
    record, _ = tally.add(call(0, node=""))
    assert record.node == tally.first_node == tally.health(0, 1).node == "n01"
    assert tally.health(4, 4).node == ""


def test_what_is_reported_of_a_function_comes_before_what_was_recorded() -> None:
    tally = ImportTally("sstd", "exclusive")
    tally.add(call(0, LATE, severity_us=40.0))
    tally.add(call(1, EARLY, label=Label.NORMAL))
    (own,) = tally.function_statistics([])
    assert (own.calls, own.anomalies, own.severity_us) == (3, 1, 40.0)
    assert (own.exclusive_mean_us, own.exclusive_maximum_us, own.inclusive_mean_us) == (3.0, 6.0, 0.0)
    runtimes = RuntimeProfile(RunStatistics(50, 4.0, maximum=9.0), RunStatistics(50, 7.0, maximum=30.0))
    profiles = [FunctionProfile("solve", 0, runtimes), FunctionProfile("idle", app=2)]
    reported, other = tally.function_statistics(profiles)
    assert (reported.name, reported.calls, reported.inclusive_maximum_us) == ("solve", 50, 30.0)
    assert (other.program, other.name, other.calls) == (2, "idle", 0)
    assert tally.function_statistics([FunctionProfile("solve")]) == [own]


def test_abnormal_calls_are_counted_by_step_where_records_report_of_all() -> None:
    tally = ImportTally("sstd", "exclusive")
    for row, (rank, step) in enumerate([(1, 3), (1, 3), (2, 3), (1, 5)]):
        tally.add(call(row, rank=rank, step=step))
    (all_of_it,) = tally.function_statistics([])
    assert (all_of_it.flagged_steps, all_of_it.fewest_flagged, all_of_it.most_flagged) == (3, 1, 2)
    assert (all_of_it.flagged_squares, all_of_it.flagged_cubes, all_of_it.flagged_fourths) == (
        6.0,
        10.0,
        18.0,
    )
    more = RunStatistics(50, 4.0, maximum=9.0)
    (some_of_it,) = tally.function_statistics([FunctionProfile("solve", 0, RuntimeProfile(more, more))])
    assert (some_of_it.anomalies, some_of_it.flagged_steps) == (0, 0)
