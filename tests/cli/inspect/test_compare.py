"""``chimbuko compare``."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chimbuko.cli import main
from chimbuko.provenance.compare.runprofile import Findings, RunProfile, read_profile
from chimbuko.provenance.query.run import Provenance
from tests.simulated_runs import SimulatedFunction, SimulatedRun, delayed, log_normal, make_run

FUNCTIONS = tuple(
    SimulatedFunction(f"{name} [{{heat.c}} {{{line},0}}]", log_normal(median_us, 0.2))
    for line, (name, median_us) in enumerate(
        [("relax", 900.0), ("pack", 30.0), ("norm", 200.0), ("step", 9.0)]
    )
)
SLOWER = FUNCTIONS[0].name
TIMES_AS_LONG = dict(zip([function.name for function in FUNCTIONS], (0.4, 0.5, 1.25, 1.0), strict=True))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Before, the same again, a slower function, rare long calls of it, more calls of it, another variant."""
    folder = tmp_path_factory.mktemp("runs")
    make_run(folder / "before", FUNCTIONS, SimulatedRun(1))
    make_run(folder / "again", FUNCTIONS, SimulatedRun(2))
    make_run(folder / "slower", FUNCTIONS, SimulatedRun(3, slower={SLOWER: 1.1}))
    rarely = dataclasses.replace(FUNCTIONS[0], draw=delayed(FUNCTIONS[0].draw, 0.007, 80_000.0))
    make_run(folder / "delayed", (rarely, *FUNCTIONS[1:]), SimulatedRun(4))
    more = (dataclasses.replace(FUNCTIONS[0], calls_per_tick=130), *FUNCTIONS[1:])
    make_run(folder / "more", more, SimulatedRun(6))
    variant = (dataclasses.replace(FUNCTIONS[0], calls_per_tick=200), *FUNCTIONS[1:])
    make_run(folder / "variant", variant, SimulatedRun(5, slower=TIMES_AS_LONG))
    return folder


@pytest.fixture
def compare(runs: Path) -> Callable[..., Result]:
    """Compares one of the runs with the one before."""

    def run(after: str, *options: str) -> Result:
        return CliRunner().invoke(main, ["compare", str(runs / "before"), str(runs / after), *options])

    return run


def test_the_slower_function_is_named_first(compare: Callable[..., Result]) -> None:
    answer = compare("slower")
    assert answer.exit_code == 0
    lines = answer.stdout.splitlines()
    assert lines[2].startswith("All calls together are slower: ") and "; most by relax: +" in lines[2]
    assert lines[3].startswith("relax is slower: +")
    assert next(line for line in lines if line.startswith("▲")).rstrip().endswith("relax")


def test_it_fails_on_what_is_slower_and_on_nothing_else(
    compare: Callable[..., Result], capfd: pytest.CaptureFixture[str]
) -> None:
    assert compare("slower", "--fail-on", "5%").exit_code == 6
    assert "--fail-on: relax is slower by 1" in capfd.readouterr().err
    assert compare("slower", "--fail-on", "20").exit_code == 0
    assert compare("slower", "--fail-on", "usual:5%").exit_code == 6
    assert compare("slower", "--fail-on", "total:100s").exit_code == 0
    assert compare("again", "--fail-on", "5%", "--fail-on", "total:1ms").exit_code == 0


def test_it_fails_on_more_calls(compare: Callable[..., Result], capfd: pytest.CaptureFixture[str]) -> None:
    for limit in ("5%", "total:5%", "total:1s", "function:5%", "function:1s"):
        assert compare("more", "--fail-on", limit).exit_code == 6, limit
        assert "relax: +1.1" in capfd.readouterr().err
        assert compare("again", "--fail-on", limit).exit_code == 0, limit
    for limit in ("usual:5%", "mean:5%", "function:50%", "function:2s", "total:2s"):
        assert compare("more", "--fail-on", limit).exit_code == 0, limit
    assert compare("more", "--fail-on", "5%", "--absolute").exit_code == 6


def test_rows_of_time_add_up_to_the_difference(compare: Callable[..., Result]) -> None:
    lines = compare("more", "--limit", "1").stdout.splitlines()
    first, others = (
        lines[lines.index(next(line for line in lines if "DIFFERENCE" in line)) + at] for at in (1, 2)
    )
    assert re.match(r"▲ +\+1\.\d+ s .* 4,000 +5,200 +more calls +relax", first), first
    assert others.split()[-2:] == ["all", "others"]
    (said,) = (line for line in lines if line.startswith("Time of all ranks: "))
    assert re.search(r": \+1\.\d+ s = \+1\.\d+ s by more calls, ", said) or said.endswith("by more calls")


def test_it_fails_on_what_rare_long_calls_cost(compare: Callable[..., Result]) -> None:
    for limit in ("5%", "mean:5%", "total:0.5s", "total:5%"):
        assert compare("delayed", "--fail-on", limit).exit_code == 6, limit
    for limit in ("usual:5%", "total:100%", "findings:1ms"):
        assert compare("delayed", "--fail-on", limit).exit_code == 0, limit
    (headline,) = (line for line in compare("delayed").stdout.splitlines() if " is slower on average" in line)
    assert headline.startswith("relax is slower on average, ")
    assert re.search(r"[0-9.]+ % more of its calls now take about \d+", headline)


def test_it_fails_on_what_findings_cost(
    compare: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An incident of 20 s of core time, which no function's calls show."""

    def read(provenance: Provenance) -> RunProfile:
        return dataclasses.replace(read_profile(provenance), incidents=Findings(1, next(costs_us)))

    monkeypatch.setattr("chimbuko.cli.inspect.compare.read_profile", read)
    limits = {"5%": 6, "findings:5%": 6, "findings:2s": 6, "findings:60s": 0, "usual:5%": 0}
    for limit, code in limits.items():
        costs_us = iter((0.0, 20e6))
        assert compare("again", "--fail-on", limit).exit_code == code, limit
        assert ("--fail-on: incidents cost 20.0 s more" in capfd.readouterr().err) is (code == 6)


@pytest.mark.parametrize("share", ["much", "0", "-5%", "mean:much", "usual:"])
def test_a_share_that_is_none_is_refused(compare: Callable[..., Result], share: str) -> None:
    answer = compare("again", "--fail-on", share)
    assert answer.exit_code == 2
    assert "as in 5%" in answer.stderr


def test_functions_are_chosen_with_or_without_their_place(compare: Callable[..., Result]) -> None:
    for pattern in ("relax", SLOWER, "rel*"):
        found = json.loads(compare("slower", "--json", "--function", pattern).stdout)
        assert [shift["name"] for shift in found["functions"]] == [SLOWER]


def test_json_has_it_all(compare: Callable[..., Result]) -> None:
    found = json.loads(compare("slower", "--json").stdout)
    worst = found["functions"][0]
    change = worst[worst["decided_by"]]
    assert (worst["name"], change["verdict"]) == (SLOWER, "slower")
    assert change["low"] < 0.1 < change["high"]
    assert sum(worst["distribution"]["after"]) == worst["calls"][1] == found["after"]["calls"] / 4


def test_several_runs_on_each_side(runs: Path) -> None:
    """Two equal runs do not differ from a third, which the usual call of the slower one does beyond them."""

    def compare(*options: str) -> Result:
        named = ["--before", str(runs / "before"), "--before", str(runs / "again"), *options]
        return CliRunner().invoke(main, ["compare", *named])

    answer = compare("--after", str(runs / "slower"))
    assert answer.exit_code == 0
    assert "before, again: mean of 2 runs: 2 ranks" in answer.stdout
    assert "is measured from 2 runs before and 1 after" in answer.stdout
    assert json.loads(compare("--after", str(runs / "slower"), "--json").stdout)["before"]["runs"] == 2
    for wrong in (
        ("--after", str(runs / "before")),
        (),
        (str(runs / "slower"),),
        ("--after", str(runs / "slower"), str(runs / "delayed")),
    ):
        refused = compare(*wrong)
        assert refused.exit_code == 2, wrong


def test_speedups_of_a_variant(compare: Callable[..., Result]) -> None:
    found = json.loads(compare("variant", "--speedup", "--json").stdout)
    assert found["functions"][0]["name"] == SLOWER
    for one in found["functions"]:
        true, speedup = 1 / TIMES_AS_LONG[one["name"]], one["speedup"]
        assert speedup["low"] < true < speedup["high"] < 1.2 * speedup["low"], one
        before_us, after_us = one["runtime_us"]
        assert speedup["times"] == pytest.approx(before_us / after_us)
        assert one["gained_us"] == pytest.approx(one["calls"][1] * (before_us - after_us), rel=0.1)
    # Twice as many calls of one of them, at 900 µs each, are no part of it.
    per_call_us = [900.0 * 2, 30.0, 200.0, 9.0]
    faster_us = sum(us * times for us, times in zip(per_call_us, TIMES_AS_LONG.values(), strict=True))
    total = found["total"]
    assert total["low"] < sum(per_call_us) / faster_us < total["high"] < 1.4 * total["low"]


def test_speedups_are_a_table(compare: Callable[..., Result]) -> None:
    answer = compare("variant", "--speedup", "--limit", "2")
    assert answer.exit_code == 0
    lines = answer.stdout.splitlines()
    assert lines[2].startswith("All calls together are 2.") and "times as fast (95 %: " in lines[2]
    assert next(line for line in lines if "SPEED-UP" in line).split()[:3] == ["SPEED-UP", "95", "%"]
    (row,) = (line for line in lines if line.rstrip().endswith(" relax"))
    assert re.match(r" *2\.[45]\d +2\.\d\d to 2\.\d\d +4\.\d\d s +usual ", row)
    assert not [line for line in lines if line.rstrip().endswith(" norm")]
