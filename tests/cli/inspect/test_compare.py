"""``chimbuko compare``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chimbuko.cli import main
from tests.simulated_runs import SimulatedFunction, SimulatedRun, log_normal, make_run

FUNCTIONS = tuple(
    SimulatedFunction(f"{name} [{{heat.c}} {{{line},0}}]", log_normal(median_us, 0.2))
    for line, (name, median_us) in enumerate(
        [("relax", 900.0), ("pack", 30.0), ("norm", 200.0), ("step", 9.0)]
    )
)
SLOWER = FUNCTIONS[0].name


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs: before, the same again, and one with a slower function."""
    folder = tmp_path_factory.mktemp("runs")
    make_run(folder / "before", FUNCTIONS, SimulatedRun(1))
    make_run(folder / "again", FUNCTIONS, SimulatedRun(2))
    make_run(folder / "slower", FUNCTIONS, SimulatedRun(3, slower={SLOWER: 1.1}))
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
    assert lines[2].startswith(f"{SLOWER} is slower: +")
    assert next(line for line in lines if line.startswith("▲")).rstrip().endswith(SLOWER)


def test_it_fails_on_what_is_slower_and_on_nothing_else(compare: Callable[..., Result]) -> None:
    assert compare("slower", "--fail-on", "5%").exit_code == 6
    assert compare("slower", "--fail-on", "20").exit_code == 0
    assert compare("again", "--fail-on", "5%").exit_code == 0


@pytest.mark.parametrize("share", ["much", "0", "-5%"])
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
    assert (worst["name"], worst["verdict"]) == (SLOWER, "slower")
    assert worst["low"] < 0.1 < worst["high"]
    assert sum(worst["distribution"]["after"]) == worst["calls"][1] == found["after"]["calls"] / 4
