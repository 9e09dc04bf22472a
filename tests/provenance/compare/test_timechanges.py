"""Rows of a comparison add up to the difference of its runs, and say what makes a run slower."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.provenance.compare.levels import level_of_mean
from chimbuko.provenance.compare.profilemerging import merged
from chimbuko.provenance.compare.runcomparison import Comparison, compare
from chimbuko.provenance.compare.runprofile import Findings, FunctionProfile, RankProfile, RunProfile, Spent
from chimbuko.provenance.compare.timechanges import at_most
from chimbuko.provenance.compare.wording import sentences

NONE = Findings(0, 0.0)
RANKS = [RankProfile("heat", rank, 1000, 0, 0.0) for rank in range(2)]
Calls = Mapping[str, tuple[int, float]]
"""Functions to the number of calls and their mean runtime in µs."""
USUAL: Calls = {
    "solve": (1000, 5000.0),
    "exchange": (1000, 2000.0),
    "refine": (400, 3000.0),
    "norm": (1000, 100.0),
    "MPI_Recv": (1000, 400.0),
    "setup": (2, 800_000.0),
}


def run(calls: Calls, wall_us: float | None = None) -> RunProfile:
    """A run with as much time outside of its calls as is missing from its wall time, 20 ms or so."""
    functions = [
        FunctionProfile(
            "heat", name, n, 0, 0.0, us, level_of_mean(n, us, us / 5), level_of_mean(n, us, us / 5)
        )
        if n >= 20
        else FunctionProfile("heat", name, 0, 0, 0.0, us, None, all_calls=Spent(n, n * us))
        for name, (n, us) in calls.items()
    ]
    total_us = sum(n * us for n, us in calls.values()) + 40_000.0
    duration_us = round(total_us / 2 if wall_us is None else wall_us)
    return RunProfile(
        "id", "run", "exclusive", duration_us, functions, [], RANKS, NONE, NONE, ranks_us=2.0 * duration_us
    )


def changed(**calls: tuple[int, float]) -> Comparison:
    return compare(run(USUAL), run({**USUAL, **calls}))


def slower(found: Comparison) -> list[tuple[str, str]]:
    return [(row.name, row.kind) for row in found.times if row.verdict == "slower"]


def test_equal_runs_give_no_finding() -> None:
    found = changed()
    assert slower(found) == [] and found.whole.verdict == "same"
    assert "setup" not in {shift.name for shift in found.functions}
    assert sentences(found)[0] == "The run took as long as before: 5.17 s instead of 5.17 s (+0.0 %)"


@pytest.mark.parametrize(
    ("name", "calls", "kind", "phrase"),
    [
        ("solve", (1300, 5000.0), "more calls", "solve: +1.50 s by more calls (1,300 instead of 1,000)"),
        (
            "solve",
            (1000, 6000.0),
            "longer calls",
            "solve: +1.00 s by longer calls (on average 6.00 ms instead of",
        ),
        ("setup", (2, 2_400_000.0), "called once", "setup: +3.20 s (called once, 2.40 s instead of 800 ms)"),
        (
            "MPI_Recv",
            (1000, 1400.0),
            "longer calls",
            "MPI_Recv: +1.00 s by longer calls (on average 1.40 ms",
        ),
        ("unpack", (1000, 900.0), "new", "unpack: +900 ms (new)"),
    ],
)
def test_a_regression_is_the_headline(name: str, calls: tuple[int, float], kind: str, phrase: str) -> None:
    found = changed(**{name: calls})
    assert slower(found) == [(name, kind)]
    assert found.whole.verdict == "slower"
    headline = sentences(found)[0]
    assert headline.startswith("The run is slower: ") and f"; most by {phrase}" in headline


def test_time_in_no_known_call_is_told() -> None:
    before = run(USUAL)
    found = compare(before, run(USUAL, before.duration_us + 1_500_000.0))
    assert slower(found) == [("", "in no known call")]
    assert sentences(found)[0].endswith("; most by time in no known call: +3.00 s")


def test_the_headline_goes_the_way_of_the_whole() -> None:
    """The run has become much faster, though one function has become slower."""
    found = changed(solve=(1000, 2000.0), exchange=(1000, 2800.0))
    assert found.whole.verdict == "faster"
    assert "The run is faster: " in sentences(found)[0] and "; most by solve: −3.00 s" in sentences(found)[0]
    assert slower(found) == [("exchange", "longer calls")]
    assert [shift.name for shift in found.functions[:2]] == ["solve", "exchange"]
    assert any(line.startswith("exchange is slower: ") for line in sentences(found)[1:])
    assert not any(line.startswith("exchange: ") for line in sentences(found))


def test_who_waits_is_named_after_who_is_waited_for() -> None:
    found = changed(solve=(1000, 6000.0), MPI_Recv=(1000, 3400.0))
    assert "; most by solve: +1.00 s" in sentences(found)[0]
    assert any(line.startswith("MPI_Recv") and "waits for others" in line for line in sentences(found)[1:])
    assert found.whole.waits_us == pytest.approx(3_000_000.0)


def test_calls_that_became_shorter_are_not_said_to_be_longer() -> None:
    """All calls take a quarter less, but one function only an eighth."""
    after = {name: (n, us * 0.75) for name, (n, us) in USUAL.items()} | {"norm": (1000, 87.5)}
    shift = next(one for one in compare(run(USUAL), run(after)).functions if one.name == "norm")
    change = shift.decisive
    assert change.raw == pytest.approx(-0.125) and change.effect == pytest.approx(0.5 / 3)
    said = [line for line in sentences(compare(run(USUAL), run(after))) if line.startswith("norm")]
    assert all(" is slower" not in line for line in said) and len(said) == 1
    assert said[0].startswith("norm takes 87.5 µs instead of 100 µs, but all functions changed: against them")


def test_a_slower_machine_makes_no_function_slower() -> None:
    after = run({name: (n, us * 1.3) for name, (n, us) in USUAL.items() if n >= 20})
    before = run({name: of for name, of in USUAL.items() if of[0] >= 20})
    found = compare(before, after)
    assert found.whole.verdict not in ("slower", "faster") and slower(found) == []
    assert compare(before, after, is_net=False).whole.verdict == "slower"


CALLS = st.dictionaries(
    st.sampled_from(["solve", "setup", "norm", "MPI_Wait", "io", "pack"]),
    st.tuples(st.integers(1, 5000), st.floats(0.5, 1e6)),
)


@given(st.lists(st.tuples(CALLS, st.floats(0.0, 1e9)), min_size=2, max_size=5), st.integers(1, 4))
def test_rows_add_up_to_the_difference(runs: list[tuple[Calls, float]], split: int) -> None:
    profiles = [run(calls, wall_us) for calls, wall_us in runs]
    split = min(split, len(profiles) - 1)
    before, after = merged(profiles[:split]), merged(profiles[split:])
    found = compare(before, after)
    whole = found.whole
    mean_us = [sum(one.total_us for one in side) / len(side) for side in (profiles[:split], profiles[split:])]
    scale = 1e-9 * max(mean_us) + 1e-3
    assert whole.time_us == pytest.approx(mean_us, abs=scale)
    for number in (0, 2, 100):
        rows = at_most(found.times, number)
        assert sum(row.change_us for row in rows) == pytest.approx(whole.change_us, abs=scale)
    assert all(
        row.by_number_us + row.by_length_us == pytest.approx(row.change_us, abs=scale) for row in found.times
    )
    total = found.total
    by_parts = total.by_number_us + total.by_machine_us + total.by_length_us
    assert by_parts == pytest.approx(total.after_us - total.before_us, abs=scale)
    causes = (
        whole.by_number_us,
        whole.by_length_us,
        whole.once_us,
        whole.waits_us,
        whole.new_us,
        whole.gone_us,
        whole.elsewhere_us,
    )
    assert sum(causes) == pytest.approx(whole.change_us, abs=scale)
