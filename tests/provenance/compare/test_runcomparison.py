"""Two runs of the same name nothing; one with a slower function names it first."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.causes.wording import Bound
from chimbuko.core.calls.functionnames import short_name
from chimbuko.core.errors import ConfigError
from chimbuko.observe.namespaces.analyses.metricfinding import Finding, Problem
from chimbuko.provenance.compare.levels import level_of_mean
from chimbuko.provenance.compare.profilemerging import merged
from chimbuko.provenance.compare.runcomparison import Comparison, Rate, compare
from chimbuko.provenance.compare.runprofile import (
    Findings,
    PathProfile,
    RankProfile,
    RunProfile,
    read_profile,
)
from chimbuko.provenance.compare.wording import sentences
from chimbuko.provenance.query.run import open_run
from tests.simulated_runs import (
    Noise,
    SimulatedFunction,
    SimulatedRun,
    delayed,
    log_normal,
    make_run,
    two_modes,
)

FUNCTIONS = (
    SimulatedFunction("relax [{heat.c} {47,0}]", log_normal(800.0, 0.1)),
    SimulatedFunction("apply [{heat.c} {61,0}]", log_normal(18.0, 0.3)),
    SimulatedFunction("send", log_normal(25.0, 0.6), 200),
    SimulatedFunction("step", log_normal(2.2, 0.2)),
    SimulatedFunction("MPI_Waitall()", log_normal(300.0, 1.2), 200),
    SimulatedFunction("residual", log_normal(11_000.0, 0.2), 10),
    SimulatedFunction("pack", two_modes(47.0, 0.2)),
)
QUIET = Noise(run=0.05, walk=0.02, function=0.004, function_walk=0.004, preempted=0.01)

NONE = Findings(0, 0.0)

Profile = Callable[..., RunProfile]


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """Lets a run happen, stores it and reads what it is compared by."""
    folder: Path = tmp_path_factory.mktemp("runs")

    def made(
        seed: int, functions: tuple[SimulatedFunction, ...] = FUNCTIONS, **differences: object
    ) -> RunProfile:
        run = SimulatedRun(seed, QUIET, **differences)  # type: ignore[arg-type]
        directory = make_run(folder / f"run-{len(list(folder.iterdir()))}", functions, run)
        with open_run(directory) as provenance:
            return read_profile(provenance)

    return made


@pytest.fixture(scope="module")
def before(profile: Profile) -> RunProfile:
    """The run that all others are compared with."""
    return profile(1)


def with_delays(name: str, share: float, delay_us: float) -> tuple[SimulatedFunction, ...]:
    """The functions, of which one takes so much longer in a share of its calls."""
    return tuple(
        dataclasses.replace(one, draw=delayed(one.draw, share, delay_us)) if one.name == name else one
        for one in FUNCTIONS
    )


def named(found: Comparison) -> list[tuple[str, str]]:
    changes = ((shift.name, shift.decisive.verdict) for shift in found.functions)
    return [(name, verdict) for name, verdict in changes if verdict in ("slower", "faster")]


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_two_runs_of_the_same_name_none(before: RunProfile, profile: Profile, seed: int) -> None:
    found = compare(before, profile(seed))
    assert named(found) == []
    assert found.new == found.vanished == []
    assert sentences(found)[1].startswith("The calls of no function are longer or shorter by 5 % or more")
    assert found.whole.verdict not in ("slower", "faster")
    assert {row.verdict for row in found.times} <= {"same", "unclear"}


@pytest.mark.parametrize("slower", ["relax [{heat.c} {47,0}]", "apply [{heat.c} {61,0}]", "step"])
def test_a_function_that_is_slower_by_a_tenth_is_named_first(
    before: RunProfile, profile: Profile, slower: str
) -> None:
    found = compare(before, profile(5, slower={slower: 1.1}))
    assert named(found) == [(slower, "slower")]
    worst = found.functions[0]
    usual = worst.usual
    assert usual.effect == pytest.approx(0.1, abs=0.035)
    assert usual.low is not None and usual.high is not None
    assert usual.low < 0.1 < usual.high
    assert usual.lost_us == pytest.approx(0.1 * (worst.ordinary_us[0] or 0) * worst.calls[1], rel=0.4)


@pytest.mark.parametrize(("name", "share"), [("relax [{heat.c} {47,0}]", 0.007), ("step", 0.02)])
def test_rare_delays_are_named_by_the_mean(
    before: RunProfile, profile: Profile, name: str, share: float
) -> None:
    """The usual call is the same, and a few take 80 ms."""
    delayed = profile(11, with_delays(name, share, 80_000.0))
    found = compare(before, delayed)
    assert named(found) == [(name, "slower")]
    worst = found.functions[0]
    assert worst.decided_by == "mean" and worst.usual.verdict not in ("slower", "faster")
    longer_us = worst.calls[1] * (worst.mean_us[1] - worst.mean_us[0])
    assert worst.mean.lost_us == pytest.approx(longer_us, rel=0.3)
    assert f"; most by {short_name(name)}: +" in sentences(found)[0]
    (line,) = (
        line for line in sentences(found) if line.startswith(f"{short_name(name)} is slower on average, ")
    )
    said = re.search(r"(\S+) % more of its calls now take about (\S+) ms", line)
    assert said is not None, line
    assert float(said[1]) == pytest.approx(100 * share, rel=0.3)
    assert float(said[2]) == pytest.approx(80, rel=0.15)
    gone = compare(delayed, before).functions[0]
    assert (gone.name, gone.mean.verdict) == (name, "faster")


def test_a_run_is_the_same_as_itself(before: RunProfile) -> None:
    found = compare(before, before)
    assert found.common == 0
    assert {change.effect for shift in found.functions for change in (shift.usual, shift.mean)} == {0.0}
    total = found.total
    assert total.before_us == total.after_us
    assert (total.by_number_us, total.by_length_us) == (0.0, 0.0)
    assert total.low_us < 0 < total.high_us


def test_what_waits_is_reported_after_what_it_waits_for(before: RunProfile, profile: Profile) -> None:
    found = compare(before, profile(6, slower={"relax [{heat.c} {47,0}]": 1.1, "MPI_Waitall()": 1.5}))
    assert [name for name, _ in named(found)] == ["relax [{heat.c} {47,0}]", "MPI_Waitall()"]
    assert [shift.is_waiting for shift in found.functions[:2]] == [False, True]


def test_a_slower_machine_is_told_apart_unless_all_shall_count(before: RunProfile, profile: Profile) -> None:
    after = profile(7, slower={function.name: 1.3 for function in FUNCTIONS})
    apart = compare(before, after)
    assert named(apart) == []
    assert apart.common == pytest.approx(0.3, abs=0.12)
    assert "relax [{heat.c} {47,0}]" in dict(named(compare(before, after, is_net=False)))


def test_lines_that_moved_make_no_new_function(before: RunProfile, profile: Profile) -> None:
    moved = (SimulatedFunction("relax [{heat.c} {52,0}]", FUNCTIONS[0].draw), *FUNCTIONS[1:-1])
    extra = SimulatedFunction("unpack", log_normal(9.0, 0.2))
    found = compare(before, profile(8, (*moved, extra)))
    assert [one.name for one in found.new] == ["unpack"]
    assert [one.name for one in found.vanished] == ["pack"]
    assert "relax [{heat.c} {52,0}]" in {shift.name for shift in found.functions}


def test_anomalies_that_are_more_frequent_are_reported(before: RunProfile, profile: Profile) -> None:
    found = compare(before, profile(9, anomalies={"send": 80}))
    assert [shift.name for shift in found.functions if shift.has_more_anomalies] == ["send"]
    rate = next(shift.rates for shift in found.functions if shift.name == "send")
    assert rate is not None and rate[0].low == 0 < rate[0].high
    assert rate[1].per_million == pytest.approx(10_000)


def test_findings_that_cost_twice_as_much_are_named(before: RunProfile) -> None:
    dearer = dataclasses.replace(before, incidents=Findings(3, 2e6), recurring=Findings(1, 1e6))
    cheaper = dataclasses.replace(before, incidents=Findings(2, 0.9e6), recurring=Findings(1, 0.9e6))
    said = [line for line in sentences(compare(cheaper, dearer)) if " cost " in line]
    assert said == ["Incidents cost 2 s instead of 900 ms (3 instead of 2)"]
    unsure = dataclasses.replace(dearer, incidents=Findings(3, 2e6, Bound.LEAST))
    assert "Incidents cost at least 2 s instead of 900 ms (3 instead of 2)" in sentences(
        compare(cheaper, unsure)
    )
    assert not [line for line in sentences(compare(before, before)) if " cost " in line]


def test_what_programs_publish_is_compared_by_what_is_wrong(before: RunProfile) -> None:
    wrong = [Finding(Problem.DEPARTURE, f"q{n}", (n,), 10, 20, 3.0) for n in range(6)]
    old, new = (
        dataclasses.replace(before, metrics={one.key: one.sentence for one in some})
        for some in (wrong[:2], wrong[1:])
    )
    found = compare(old, new)
    assert found.metrics.vanished == [wrong[0].sentence]
    assert found.metrics.new == [one.sentence for one in wrong[2:]]
    said = [line for line in sentences(found) if "the programs publish" in line]
    assert said[0] == f"New in what the programs publish: {wrong[2].sentence[:-1]}"
    assert said[3:] == [
        "New in what the programs publish: 1 more",
        f"Gone from what the programs publish: {wrong[0].sentence[:-1]}",
    ]
    both = compare(merged([old, new]), new)
    assert (both.metrics.vanished, both.metrics.new) == ([wrong[0].sentence], [])


def test_runs_that_judge_by_other_runtimes_are_refused(before: RunProfile, profile: Profile) -> None:
    with pytest.raises(ConfigError, match=r"exclusive runtimes and .* by inclusive"):
        compare(before, profile(10, metric="inclusive"))


def path(mean_us: float, *functions: str) -> PathProfile:
    return PathProfile("heat", functions, 10_000, mean_us, level_of_mean(10_000, mean_us, 0.1 * mean_us))


def run_of(paths: list[PathProfile], ranks: list[RankProfile]) -> RunProfile:
    return RunProfile("id", "name", "exclusive", 1_000_000, [], paths, ranks, NONE, NONE)


def test_paths_are_compared_by_all_their_functions() -> None:
    old = [
        path(10, "main", "solve"),
        path(20, "main", "init", "solve"),
        path(5, "main"),
        path(7, "main", "io"),
    ]
    new = [
        path(10, "main", "solve"),
        path(26, "main", "init", "solve"),
        path(5, "main"),
        path(7, "main", "io"),
    ]
    found = compare(run_of(old, []), run_of(new, []))
    worst = found.paths[0]
    assert (worst.callers, worst.name, worst.decisive.verdict) == (["main", "init"], "solve", "slower")
    assert [shift.decisive.verdict for shift in found.paths].count("slower") == 1


def test_ranks_that_lose_more_stand_first() -> None:
    old = [RankProfile("heat", rank, 100_000, 10, 5e4) for rank in range(4)]
    new = [*old[:2], RankProfile("heat", 2, 100_000, 90, 9e5), old[3]]
    found = compare(run_of([], old), run_of([], new))
    assert found.ranks[0].rank == 2 and found.ranks[0].has_more_anomalies
    assert sum(change.has_more_anomalies for change in found.ranks) == 1


@given(st.lists(st.floats(0.5, 1e6), min_size=1, max_size=12), st.floats(0.3, 3.0))
def test_a_common_factor_changes_no_effect(means_us: list[float], factor: float) -> None:
    def run(scale: float) -> RunProfile:
        return run_of([path(scale * mean, "main", f"f{number}") for number, mean in enumerate(means_us)], [])

    effects = [shift.usual.effect for shift in compare(run(1.0), run(factor)).paths]
    expected = 0.0 if len(means_us) >= 3 else factor - 1.0
    assert effects == pytest.approx([expected] * len(means_us), abs=1e-6)


def test_it_is_json(before: RunProfile) -> None:
    found = compare(before, before)
    again = msgspec.json.decode(msgspec.json.encode(found), type=Comparison)
    assert again == found
    assert not any(np.isnan(shift.mean.p_value) for shift in again.functions)


def test_more_anomalies_than_calls_are_all_of_them() -> None:
    """As in a store that somebody else has made."""
    assert Rate.of(3, 1).high == Rate.of(1, 1).high == 1e6


def test_one_busy_run_on_each_side_cannot_tell_what_quiet_ones_can(
    before: RunProfile, profile: Profile
) -> None:
    after = profile(5, slower={"step": 1.1})
    assert "1.5 % relative to the others is assumed. To" in sentences(compare(before, after))[-1]
    busy = compare(before, dataclasses.replace(after, waited=0.6))
    assert named(busy) == []
    told = "6.3 % relative to the others is assumed, as threads that could run waited 60 % of the time for a"
    assert told in sentences(busy)[-1]
