"""Readers of other tools' traces, with files that are damaged in any way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.traces import MADE, one_round, otf2_round


@pytest.mark.parametrize("name", MADE)
def test_what_came_before_the_damage_is_read(name: str) -> None:
    for seed in range(8):
        one_round(name, seed)


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", MADE)
def test_many_rounds(name: str) -> None:
    for seed in range(8, 1_000):
        one_round(name, seed)


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_archives_of_otf2(tmp_path: Path) -> None:
    for seed in range(200):
        otf2_round(tmp_path / str(seed), seed)
