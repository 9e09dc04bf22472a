"""Several runs on each side: equal programs are seldom said to differ, and what differs is found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from chimbuko.causes.wording import Bound
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.compare.levels import level_of_mean
from chimbuko.provenance.compare.profilemerging import merged
from chimbuko.provenance.compare.runcomparison import compare
from chimbuko.provenance.compare.runprofile import (
    Findings,
    FunctionProfile,
    PathProfile,
    RankProfile,
    RunProfile,
)
from chimbuko.provenance.compare.wording import sentences
from tests.simulated_runs import says_a_difference

CALLS = 20_000
USUAL_US = (800.0, 18.0, 25.0, 2.2, 300.0, 11_000.0, 4.7, 200.0)
SPREADS = (0.005, 0.01, 0.01, 0.02, 0.06, 0.004, 0.01, 0.03)
"""Of each function, from run to run."""
LATE_US = 80_000.0
LATE = (1e-4, 0.0, 2e-5, 0.0, 1e-4, 1e-3, 0.0, 0.0)
"""Share of the calls that take so much longer, in the middle of all runs."""
MACHINE = 0.1


def run(random: np.random.Generator, slower: dict[int, float] | None = None) -> RunProfile:
    """A run as it may be stored; ``slower``: functions to the factor by which they take longer."""
    machine = math.exp(MACHINE * random.standard_normal())
    anomalies = random.poisson(20 * math.exp(0.5 * random.standard_normal()), len(USUAL_US))
    functions, paths = [], []
    for at, (usual_us, spread, late) in enumerate(zip(USUAL_US, SPREADS, LATE, strict=True)):
        us = (slower or {}).get(at, 1.0) * machine * usual_us * math.exp(spread * random.standard_normal())
        mean_us = us + LATE_US * random.poisson(CALLS * late * math.exp(random.standard_normal())) / CALLS
        level, of_all = level_of_mean(CALLS, us, us / 5), level_of_mean(CALLS, mean_us, us / 5)
        name = f"f{at}"
        functions.append(
            FunctionProfile("heat", name, CALLS, int(anomalies[at]), 0.0, mean_us, level, of_all)
        )
        paths.append(PathProfile("heat", ("main", name), CALLS, us, level))
    ranks = [RankProfile("heat", rank, 40_000, int(anomalies[rank]), 0.0) for rank in range(4)]
    incidents = Findings(3, 2e6 * random.exponential(), Bound.ESTIMATED)
    recurring = Findings(1, 1e6 * random.exponential())
    return RunProfile("id", "run", "exclusive", 10**7, functions, paths, ranks, incidents, recurring)


def several(random: np.random.Generator, number: int, slower: dict[int, float] | None = None) -> RunProfile:
    return merged([run(random, slower) for _ in range(number)])


@pytest.mark.parametrize(
    ("before", "after"),
    [(3, 3), *(pytest.param(*runs, marks=pytest.mark.thorough) for runs in [(2, 2), (4, 1)])],
)
def test_equal_programs_are_said_to_differ_in_at_most_one_comparison_of_twenty(
    before: int, after: int
) -> None:
    random = np.random.default_rng(1)
    comparisons = [compare(several(random, before), several(random, after)) for _ in range(120)]
    assert sum(map(says_a_difference, comparisons)) <= 0.05 * len(comparisons)


def test_what_is_slower_in_three_runs_is_named_first() -> None:
    random = np.random.default_rng(2)
    hits = 0
    for _ in range(40):
        found = compare(several(random, 3), several(random, 3, {0: 1.1}))
        named = [shift for shift in found.functions if shift.usual.verdict == "slower"]
        hits += [shift.name for shift in named] == ["f0"]
        assert found.functions[0].calls == (CALLS, CALLS)
    assert hits >= 36


def test_it_says_what_the_runs_can_tell() -> None:
    random = np.random.default_rng(3)
    found = compare(several(random, 3), several(random, 2))
    assert (found.before.runs, found.after.runs) == (3, 2)
    assert "measured from 3 runs before and 2 after" in sentences(found)[-1]
    assert "cannot show" in sentences(compare(run(random), run(random)))[-1]


def test_times_are_means_per_run_and_rates_of_all_calls() -> None:
    random = np.random.default_rng(4)
    runs = [run(random) for _ in range(3)]
    found = compare(merged(runs[:2]), runs[2])
    times_us = [sum(one.calls * one.mean_us for one in of_run.functions) for of_run in runs]
    assert found.total.before_us == pytest.approx(sum(times_us[:2]) / 2)
    assert found.total.after_us == pytest.approx(times_us[2])
    assert found.before.calls == len(USUAL_US) * CALLS
    assert (found.before.incidents.bound, found.before.recurring.bound) == (Bound.ESTIMATED, Bound.EXACT)
    assert found.before.rate.calls == 2 * len(USUAL_US) * CALLS


def test_a_function_that_not_every_run_calls_is_neither_new_nor_judged() -> None:
    random = np.random.default_rng(5)
    runs = [run(random) for _ in range(4)]
    for one in (runs[0], runs[2], runs[3]):
        one.functions.append(FunctionProfile("heat", "rare", 50, 0, 0.0, 9.0, None))
    for one in runs[2:]:
        one.functions.append(FunctionProfile("heat", "unpack", 50, 0, 0.0, 9.0, None))
    found = compare(merged(runs[:2]), merged(runs[2:]))
    assert [one.name for one in found.new] == ["unpack"]
    assert "rare" not in {shift.name for shift in found.functions}
    assert found.vanished == []


def test_lines_that_moved_in_one_of_the_runs_do_not_part_a_function() -> None:
    random = np.random.default_rng(6)
    runs = [run(random) for _ in range(3)]
    for line, one in enumerate(runs):
        one.functions.append(FunctionProfile("heat", f"move [{{a.c}} {{{line},0}}]", 50, 0, 0.0, 9.0, None))
    (shift,) = (one for one in compare(merged(runs[:2]), runs[2]).functions if "move" in one.name)
    assert shift.name == "move [{a.c} {2,0}]"


def test_runs_of_one_side_that_judge_by_other_runtimes_are_refused() -> None:
    random = np.random.default_rng(7)
    other = RunProfile("id", "other", "inclusive", 1, [], [], [], Findings(0, 0.0), Findings(0, 0.0))
    with pytest.raises(ConfigError, match="inclusive"):
        merged([run(random), other])
