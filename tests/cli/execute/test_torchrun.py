"""What ``torchrun`` launches is recorded without further words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from chimbuko.cli.execute.interpreter import recorded_launch
from chimbuko.cli.execute.recordedcommand import recorded_command

OURS = [sys.executable, "-m", "chimbuko", "trace"]


@pytest.fixture
def torchrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A launcher, as pip installs it into the environment of a Python."""
    path = tmp_path / "torchrun"
    path.write_text(f"#!{sys.executable}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return "torchrun"


@pytest.mark.parametrize(
    ("given", "options", "run"),
    [
        (
            ["--nproc-per-node", "4", "train.py", "--lr", "1"],
            ["--nproc-per-node", "4"],
            ["train.py", "--lr", "1"],
        ),
        (
            ["--standalone", "--nproc_per_node=gpu", "a.py"],
            ["--standalone", "--nproc_per_node=gpu"],
            ["a.py"],
        ),
        (["--nnodes=2", "-m", "package.train", "x"], ["--nnodes=2"], ["-m", "package.train", "x"]),
        (["-r", "3", "-t", "1", "train.py"], ["-r", "3", "-t", "1"], ["train.py"]),
    ],
)
def test_a_script_is_recorded(torchrun: str, given: list[str], options: list[str], run: list[str]) -> None:
    wanted = [torchrun, "--no-python", *options, *OURS, sys.executable, "-u", *run]
    assert recorded_launch([torchrun, *given]) == wanted
    assert recorded_command((torchrun, *given)) == wanted
    module = [sys.executable, "-m", "torch.distributed.run"]
    assert recorded_launch([*module, *given]) == [*module, *wanted[1:]]


def test_a_recording_that_is_asked_for_is_no_script_of_python(torchrun: str) -> None:
    words = ["chimbuko", "trace", "train.py"]
    assert recorded_launch([torchrun, "--nproc-per-node=2", *words]) == [
        *(torchrun, "--no-python", "--nproc-per-node=2"),
        *words,
    ]


def test_other_commands_stay_as_they_are(torchrun: str, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("from chimbuko import tracer\ntracer.start()\n")
    for words in (
        [torchrun],
        [torchrun, "--no-python", "./app"],
        [torchrun, "own.py"],
        ["./not-there/torchrun", "train.py"],
        [sys.executable, "-m", "torch.utils", "train.py"],
        ["date"],
    ):
        assert recorded_launch(words) is None
