"""The first programs of the documents print what stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.instrument.recorder.mpi import WHEEL, why_missing
from tests.places import ROOT

START = ROOT / "docs" / "start"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (START / page).read_text(), re.DOTALL)


def as_told(line: str) -> str:
    """A pattern for a line of a page: figures are others each time, and so is what follows "took" or "…".

    So are the numbers of incidents: a busy machine adds some of its own.
    """
    told = re.split(r"…| took ", line.strip())[0].split()
    return r"\s+".join(
        r"\S+" if re.match(r"I?[\d.]+", word) or word in ("ms", "s") else re.escape(word) for word in told
    )


def printed(page: str, folder: Path) -> str:
    """What the commands of a page print, one after the other, as a shell runs them in a folder."""
    binary = folder / "bin" / "chimbuko"
    binary.parent.mkdir()
    binary.write_text(f'#!/bin/sh\nexec {sys.executable} -m chimbuko "$@"\n')
    binary.chmod(0o755)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{binary.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    output = ""
    for line in "".join(blocks(page, "console")).splitlines():
        done = subprocess.run(
            line.removeprefix("$ "),
            shell=True,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        output += done.stdout
        assert done.returncode == 0, output
    return output


def assert_printed(page: str, output: str) -> None:
    for line in "".join(blocks(page, "text")).splitlines():
        assert re.search(as_told(line), output), f"{line}\nnot in\n{output}"


def test_figures_of_a_line_may_differ() -> None:
    pattern = as_told("  1.17 s  I1     work on rank 1 took 300 ms instead of 253 µs, …")
    assert re.search(pattern, "   990 ms  I1     work on rank 1 took 299 ms, 9× its usual")
    assert not re.search(pattern, "   990 ms  I1     main on rank 1 took 299 ms")


def test_the_first_python_program_prints_what_the_page_says(tmp_path: Path) -> None:
    [program] = blocks("first-python.md", "python")
    (tmp_path / "steps.py").write_text(program)
    assert_printed("first-python.md", printed("first-python.md", tmp_path))


def test_the_first_mpi_program_prints_what_the_page_says(tmp_path: Path) -> None:
    if reason := why_missing(WHEEL, "mpicc"):
        pytest.skip(reason)
    [program] = blocks("first-mpi.md", "c")
    (tmp_path / "ring.c").write_text(program)
    assert_printed("first-mpi.md", printed("first-mpi.md", tmp_path))
