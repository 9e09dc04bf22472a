"""Readers of other tools' traces, with files that are damaged in any way."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.fuzz.traces import MADE, one_round, otf2_round


def emptied(folder: Path) -> Path:
    """A new folder in the place of one."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


@pytest.mark.parametrize("name", MADE)
def test_what_came_before_the_damage_is_read(name: str, tmp_path: Path) -> None:
    for seed in range(8):
        one_round(name, seed, emptied(tmp_path / name))


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", MADE)
def test_many_rounds(name: str, tmp_path: Path) -> None:
    for seed in range(8, 1_000):
        one_round(name, seed, emptied(tmp_path / name))


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_archives_of_otf2(tmp_path: Path) -> None:
    for seed in range(200):
        otf2_round(seed, emptied(tmp_path / "archive"))
