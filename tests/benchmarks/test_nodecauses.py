"""The programs that their node delays really run, and what is most often found is what was done to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.nodecauses import PYTHON, SCENARIOS, build, causes, is_right
from tests.thorough import first

LEAST_OF_FIVE, LEAST_OF_THREE = 4, 2
"""Delays that must have their known cause, of the five of a program of MPI and the three of one in Python."""
MOST_NOT_EXPLAINED = 0.2


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("node") / "node"
    build(built)
    return built


@pytest.mark.thorough
@pytest.mark.parametrize("scenario", first(1, SCENARIOS))
def test_the_cause_is_the_known_one(program: Path, tmp_path: Path, scenario: str) -> None:
    try:
        found = causes(program, scenario, tmp_path)
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    assert is_right(scenario, found.delays), found
    wanted = SCENARIOS[scenario]
    least = LEAST_OF_THREE if scenario.startswith(PYTHON) else LEAST_OF_FIVE
    assert wanted is None or found.delays[wanted] >= least, found
    assert wanted is None or found.not_explained() <= MOST_NOT_EXPLAINED, found
