"""The list of verbs: what it says of each, and how fast it is there."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from chimbuko.cli import VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_the_list_says_what_the_verb_says(verb: str) -> None:
    assert import_module(f"chimbuko.cli.{verb}").command.get_short_help_str(80) == VERBS[verb]


def test_the_list_loads_no_verb() -> None:
    program = "import sys; from chimbuko.cli import main; main(['--help'], standalone_mode=False); "
    program += "print(sorted(name for name in sys.modules if name.startswith(('chimbuko.', 'numpy'))))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert all(f"  {verb} " in done.stdout for verb in VERBS)
    assert done.stdout.splitlines()[-1] == "['chimbuko.cli', 'chimbuko.errors']"


def test_a_run_loads_no_database_that_it_does_not_use() -> None:
    program = "import sys; import chimbuko.cli.run; "
    program += "print([name for name in sys.modules if name.startswith('sqlalchemy.dialects.postgresql')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
