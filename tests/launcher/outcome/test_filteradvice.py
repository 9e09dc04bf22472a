"""What is proposed to be left out of a trace, and how TAU's select file says it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chimbuko.capture.trace.tausettings import SST_TIMERS, Patterns, TimerFilter
from chimbuko.core.calls.record import StreamHealth
from chimbuko.launcher.outcome.filteradvice import (
    LONGEST_WILDCARD,
    FilterAdvice,
    advise,
    exclusion_pattern,
    mend_step,
)
from chimbuko.runtime.protocol.messages import FunctionStatistics

HEALTH = [StreamHealth(0, rank, "node1", "ended", 10, 30_000, 1_500_000, 14_000, 3, 0, {}) for rank in (0, 1)]


def statistics(name: str, calls: int, mean_us: float, program: int = 0, **changes: Any) -> FunctionStatistics:
    usual: dict[str, Any] = dict.fromkeys(FunctionStatistics.__struct_fields__, 0)
    usual |= {"program": program, "name": name, "calls": calls}
    usual |= {"exclusive_mean_us": mean_us, "inclusive_mean_us": mean_us}
    return FunctionStatistics(**usual | changes)


def excluded(advice: FilterAdvice) -> set[str]:
    return {function.name for function in advice.functions if function.is_excluded}


MAIN = statistics("main", 2, 5e6)


def test_short_frequent_and_harmless_functions_are_left_out() -> None:
    advice = advise(
        [
            MAIN,
            statistics("norm(double)", 10_000, 2.0),
            statistics("solve", 10_000, 200.0),
            statistics("rare", 100, 2.0),
            statistics("MPI_Testall()", 10_000, 2.0),
            statistics("MPI Collective Sync", 10_000, 2.0),
            statistics("addr=<559bb3460262> [{app} {0,0}] (rank 1)", 10_000, 2.0),
            statistics("with children", 10_000, 2.0, inclusive_mean_us=500.0),
            statistics("slow at times", 10_000, 2.0, anomalies=3, severity_us=20_000.0),
            statistics("hardly slow", 10_000, 2.0, anomalies=3, severity_us=5_000.0),
        ],
        HEALTH,
    )
    assert excluded(advice) == {"norm(double)", "hardly slow"}
    assert advice.patterns == ["hardly slow", "norm(double)"]
    assert (advice.rows, advice.size_bytes) == (60_000, 3_000_000)
    assert (advice.saved_rows, advice.saved_bytes) == (40_000, 40_000 * 48)
    assert advice.saved_us == 20_000 * 1.3
    assert advice.functions[-1].name == "main"


def test_name_that_another_program_needs_is_left_in() -> None:
    short, needed = statistics("step", 10_000, 2.0), statistics("step", 10_000, 900.0, program=1)
    assert excluded(advise([MAIN, short, needed], HEALTH)) == set()


def test_pattern_that_would_match_too_much_is_not_used() -> None:
    short, needed = statistics("f(int)#1", 10_000, 2.0), statistics("f(int)#2", 10_000, 900.0)
    assert advise([MAIN, short], HEALTH).patterns == ["f(int)?1"]
    assert advise([MAIN, short, statistics("f(int)?1", 1, 900.0)], HEALTH).patterns == []
    assert advise([MAIN, short, needed], HEALTH).patterns == ["f(int)?1"]


def test_no_functions_give_no_advice() -> None:
    advice = advise([], [])
    assert (advice.functions, advice.patterns, advice.saved_us) == ([], [], 0)


@given(st.text(st.sampled_from("ab #?\n[{}]()*.+\\é"), min_size=1, max_size=20))
def test_pattern_matches_its_name_and_survives_the_file(name: str) -> None:
    pattern = exclusion_pattern(name)
    written = TimerFilter(Patterns(exclude=(pattern,))).text().splitlines()
    assert written[1:-1] == [pattern]
    assert not written[1].startswith("#")
    # As TAU reads it: blanks at both ends go.
    assert not Patterns(exclude=(written[1].strip(" \n\r\t"),)).allows(name)


def test_name_too_long_for_a_wildcard_is_left_in() -> None:
    assert exclusion_pattern("f" * 5000) == "f" * 5000
    assert exclusion_pattern("#" + "f" * LONGEST_WILDCARD) == ""


def test_large_step_is_mended_by_a_shorter_period_or_by_leaving_out_functions() -> None:
    health = [StreamHealth(0, 3, "node1", "ended", 10, 30_000, 3_000_000, 14_000, 3, 0, {}, None, 12_500_000)]
    needed = statistics("solve", 10_000, 200.0)
    enough = advise([MAIN, statistics("norm", 10_000, 2.0), statistics("dot", 9_900, 2.0), needed], health)
    mended = mend_step(health[0], enough, 1.0)
    assert (mended.rank, mended.size_bytes, mended.period_s) == (3, 12_500_000, 0.4)
    # 60 % of the trace has to go, and each of the two is about a third of it.
    assert mended.exclude == ["norm", "dot"]
    too_few = advise([MAIN, statistics("norm", 10_000, 2.0), needed], health)
    assert mend_step(health[0], too_few, 0.77).exclude == []
    assert mend_step(health[0], too_few, 0.77).period_s == 0.3
    assert mend_step(health[0], too_few, 0.0).period_s == 0.0


def test_select_file_keeps_what_was_left_out_before() -> None:
    advice = advise([MAIN, statistics("norm", 10_000, 2.0)], HEALTH)
    before = TimerFilter(Patterns(("inc#",), (SST_TIMERS, "old")), Patterns(exclude=("counter",)))
    file = advice.select_file(before)
    assert file.timers == Patterns(("inc#",), (SST_TIMERS, "old", "norm"))
    assert file.counters == before.counters
    assert advice.select_file(TimerFilter()).timers.exclude == (SST_TIMERS, "norm")
    assert advice.select_file(advice.select_file(before)) == file
