"""``chimbuko agent``: its arguments, and what it costs a node."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from chimbuko.cli import main
from chimbuko.core.errors import ConfigError
from chimbuko.runtime.process.cores import core_numbers


@pytest.mark.parametrize(
    ("text", "numbers"), [("0", {0}), ("0,2-5", {0, 2, 3, 4, 5}), ("3-3,1", {1, 3}), ("5-2", set())]
)
def test_lists_of_cores(text: str, numbers: set[int]) -> None:
    assert core_numbers(text) == numbers


@pytest.mark.parametrize("text", ["", "a", "0,", "1-", "-1", "0-1-2", "0 1", "²"])
def test_what_is_no_list_of_cores(text: str) -> None:
    with pytest.raises(ConfigError, match="not a list of cores"):
        core_numbers(text)


def test_arguments_that_cannot_be_meant_are_refused(tmp_path: Path) -> None:
    missing = max(os.sched_getaffinity(0)) + 1
    for arguments, words in (
        (["--cores", str(missing)], "not all of them can be used here"),
        (["--cores", "5-2"], "not all of them can be used here"),
        (["--streams", tmp_path / "nowhere"], "no such folder"),
        (["--node", "../elsewhere"], "no name for a folder"),
        (["--node", ".."], "no name for a folder"),
    ):
        command = ["agent", *map(str, [tmp_path / "run", *arguments])]
        refused = CliRunner().invoke(main, command)
        assert refused.exit_code == 2 and words in refused.stderr, refused.stderr


def test_the_process_that_looks_after_the_agent_is_small() -> None:
    """It stays on each node for the whole run; compiler and database would take twice as much as it has."""
    code = "import sys, chimbuko.cli.execute.agent; print({'numba', 'sqlalchemy', 'rich'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout == "set()\n"
