"""Which program the command line of a Python runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.cli.execute.interpreter import PythonCommand, is_interpreter, parse_command


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
