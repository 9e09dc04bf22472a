"""Which program the command line of a Python runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from chimbuko.cli.execute.interpreter import PythonCommand, is_interpreter, parse_command, records_itself
from chimbuko.cli.execute.run import _recorded


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["app.py", "-m", "other"], PythonCommand(script="app.py")),
        (["-u", "-W", "error", "-Xdev", "dir/app.py"], PythonCommand(script="dir/app.py")),
        (["-m", "package.tool", "-I"], PythonCommand(module="package.tool")),
        (["-um", "tool"], PythonCommand(module="tool")),
        (["-mtool"], PythonCommand(module="tool")),
        (["-c", "print()", "app.py"], PythonCommand()),
        (["-"], PythonCommand()),
        ([], PythonCommand()),
        (["--check-hash-based-pycs", "always", "app.py"], PythonCommand(script="app.py")),
        (["-I", "app.py"], PythonCommand(script="app.py", obstacle="-I")),
        (["-uS", "-m", "tool"], PythonCommand(module="tool", obstacle="-S")),
        (["-WI", "app.py"], PythonCommand(script="app.py")),
    ],
)
def test_words_of_a_python(words: list[str], wanted: PythonCommand) -> None:
    assert parse_command(words) == wanted


def test_package_is_the_top_one() -> None:
    assert PythonCommand(module="package.part.tool").package == "package"


def test_names_of_interpreters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("python", "python3", "python3.12", "python3.13t", "pythonx", "ipython"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [is_interpreter(name) for name in ("python", "python3", "python3.12", "python3.13t")] == [True] * 4
    assert not any(map(is_interpreter, ("pythonx", "ipython", "python3.11", "/nowhere/python")))
    # A file here comes first.
    monkeypatch.chdir(tmp_path)
    assert not is_interpreter("python")
    assert is_interpreter("./python")


def test_python_with_a_program_is_recorded_by_run(tmp_path: Path) -> None:
    trace = (sys.executable, "-m", "chimbuko", "trace")
    assert _recorded((sys.executable, "app.py", "1")) == (*trace, sys.executable, "app.py", "1")
    assert _recorded((sys.executable, "-m", "tool")) == (*trace, sys.executable, "-m", "tool")
    # A verb of ours records by itself.
    own = (sys.executable, "-m", "chimbuko", "trace", "app.py")
    for words in (own, (sys.executable, "-c", "1"), (sys.executable,), ("date",), ()):
        assert _recorded(words) == words


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("from chimbuko import tracer\ntracer.start('app', 2)", True),
        ("run([sys.executable, '-m', 'chimbuko', 'trace', '--rank', '1'])", True),
        ("os.system('chimbuko trace ./app')", True),
        ("from chimbuko import tracer\n@tracer.traced\ndef step(): pass", False),
        ("import chimbuko.tracer", False),
    ],
)
def test_script_that_records_itself_is_left_to_it(text: str, does: bool, tmp_path: Path) -> None:
    script = tmp_path / "app.py"
    script.write_text(text)
    assert records_itself(script) == does
    assert (_recorded((sys.executable, str(script))) == (sys.executable, str(script))) == does
    # A script by itself is Python's, whoever records it.
    assert (_recorded((str(script), "1")) == (sys.executable, str(script), "1")) == does
    assert not records_itself(tmp_path / "nowhere.py")


@pytest.mark.parametrize(
    ("name", "first", "by"),
    [
        ("app.py", "", (sys.executable,)),
        ("app.py", f"#!{sys.executable} -u", (sys.executable, "-u")),
        ("app.py", "#!/usr/bin/env python3", ("python3",)),
        ("app", "#!/usr/bin/env -S python3 -O", ("python3", "-O")),
        ("app", "", ()),
        ("app.py", "#!/bin/sh", ()),
    ],
)
def test_an_executable_script_is_recorded_by_the_python_of_its_first_line(
    name: str, first: str, by: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / name
    script.write_text(f"{first}\nprint(1)\n")
    script.chmod(0o755)
    trace = (sys.executable, "-m", "chimbuko", "trace")
    words = (str(script), "1")
    alone = by == (sys.executable,)
    assert _recorded(words) == ((*trace, *(() if alone else by), *words) if by else words)
    monkeypatch.chdir(tmp_path)
    # Not in PATH, but here: only a script of Python is meant by its bare name.
    bare = (name, "1")
    is_meant = bool(by) and name.endswith(".py")
    assert _recorded(bare) == ((*trace, *(() if alone else by), *bare) if is_meant else bare)
