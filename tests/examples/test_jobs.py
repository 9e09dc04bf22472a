"""The job scripts in ``examples/jobs`` are those that ``chimbuko launch`` makes."""

from __future__ import annotations

import os

import pytest

from examples.jobs.generate import EXAMPLES, FOLDER, text_of


def test_each_script_has_its_command() -> None:
    assert {path.name for path in FOLDER.glob("*.sh")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_scripts_are_current(name: str) -> None:
    path = FOLDER / name
    assert path.read_text() == text_of(EXAMPLES[name]), "run: python -m examples.jobs.generate"
    assert os.access(path, os.X_OK)
