"""Programs in C that publish."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.instrument.recorder.library import INCLUDE
from chimbuko.observe.namespaces.client.relaying import LineReader
from chimbuko.observe.namespaces.exchange.keys import PLACE_VARIABLE
from chimbuko.observe.namespaces.exchange.namespacereader import Reader
from chimbuko.runtime.process.ranks import RANK_VARIABLES
from tests.integration.conftest import Command
from tests.observe.namespaces.served import served
from tests.places import ROOT

HEADER = INCLUDE / "chimbuko_namespaces.h"
SOURCE = ROOT / "tests" / "instrument" / "recorder" / "programs" / "namespaces.c"
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-overlength-strings")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    path = tmp_path_factory.mktemp("program") / "program"
    subprocess.run([compiler, *STRICT, "-O1", f"-I{INCLUDE}", str(SOURCE), "-o", str(path)], check=True)
    return path


def test_what_a_program_in_c_publishes_is_read(program: Path, tmp_path: Path) -> None:
    with served(tmp_path / "service", instances=2, namespaces=("application",)) as service:
        environment = {PLACE_VARIABLE: str(service.path), "PMI_RANK": "3"}
        command = Command("namespaces", "relay", "--", program, environment=environment)
        assert command.end() == 7, command.output
        with Reader(service.path) as reader:
            found = reader.read("application")
            history = reader.history("application")
    assert [(one.rank, one.instance) for one in history] == [(3, 1)] * 11
    assert [one.commits for one in history] == [50] * 10 + [1]
    np.testing.assert_array_equal(found.pop("residuals"), np.arange(500) / 3.0)
    np.testing.assert_array_equal(found.pop("profile"), [0.1, -1.5, 1e300])
    assert np.isnan(found.pop("nan"))
    assert found == {
        "step": 499,
        "note": "two\tfields\nand a \\",
        "Rank 3": {"mass": 0.1},
        "infinite": -np.inf,
        "is_stable": True,
    }
    wrong_type, no_key = command.lines
    assert "step: is a int64" in wrong_type and "convert it" in wrong_type
    assert "the empty path is no key" in no_key


def test_a_child_publishes_with_a_namespace_of_its_own(program: Path, tmp_path: Path) -> None:
    with served(tmp_path / "service", namespaces=("application",)) as service:
        words = ["namespaces", "relay", "--service", service.path, "--", program, "fork"]
        command = Command(*words)
        assert command.end() == 0, command.output
        with Reader(service.path) as reader:
            assert reader.read("application") == {"parent": 1.0, "child": 2.0}


def test_without_a_relay_it_does_nothing(program: Path, tmp_path: Path) -> None:
    done = subprocess.run([program], cwd=tmp_path, env={}, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (7, b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_reads_is_bounded(program: Path, tmp_path: Path) -> None:
    """A file that holds as much as may wait gets nothing more."""
    script = f'touch "$0/$$"; until [ -s "$0/$$" ]; do sleep 0.02; done; exec "{program}"'
    environment = {**os.environ, "CHIMBUKO_RELAY": str(tmp_path)}
    process = subprocess.Popen(["sh", "-c", script, str(tmp_path)], env=environment)
    path = tmp_path / str(process.pid)
    while not path.exists():
        pass
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 65 << 20)
    assert process.wait() == 7
    assert path.stat().st_size == 65 << 20


def test_c_plus_plus_takes_the_header(tmp_path: Path) -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    words = [compiler, *STRICT, "-x", "c++", f"-I{INCLUDE}", "-fsyntax-only", str(SOURCE)]
    subprocess.run(words, check=True)


def test_the_documented_program_compiles(tmp_path: Path) -> None:
    (text,) = re.findall(
        r"```c\n(.*?)```", (ROOT / "docs" / "howto" / "namespaces.md").read_text(), re.DOTALL
    )
    (tmp_path / "documented.c").write_text(text)
    words = ["cc", *STRICT, f"-I{INCLUDE}", "-fsyntax-only", str(tmp_path / "documented.c")]
    subprocess.run(words, check=True)


def test_the_header_knows_the_same_launchers() -> None:
    (listed,) = re.findall(r"variables\[\] = \{(.*?)\}", HEADER.read_text(), re.DOTALL)
    assert tuple(re.findall(r'"(\w+)"', listed)) == RANK_VARIABLES


@settings(max_examples=50)
@given(st.binary(max_size=200), st.integers(0, 200))
def test_damaged_lines_are_counted_and_cost_no_others(damage: bytes, cut: int) -> None:
    reader = LineReader()
    reader.take(damage)
    reader.take(b"\n=\ta\ti\t1\n!\tapplication\t0\t1\t0\n"[:cut])
    publications = reader.take(b"\n!\tx\t0\t1\t0\n=\ta\td\t0x1p-1\n!\tapplication\t2\t5\t0\n")
    assert publications[-1].updates[-1][1:] == ("a", 0.5)
    assert (publications[-1].namespace, publications[-1].rank, publications[-1].commits) == (
        "application",
        2,
        5,
    )
