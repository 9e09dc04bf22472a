"""Under the switch, words that trace run their program as if they were not there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chimbuko.plan.overheadswitch import PLAINLY, is_plain, without_tau

TRACE = [sys.executable, "-m", "chimbuko", "trace"]


def printed(words: list[str], folder: Path, **variables: str) -> str:
    environment = {**os.environ, "TAU_ADIOS2_FILENAME": str(folder / "streams" / "tau"), **variables}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["script", "module", "native"])
def test_chimbuko_trace_runs_the_program_plainly(tmp_path: Path, kind: str) -> None:
    (tmp_path / "streams").mkdir()
    (tmp_path / "program.py").write_text(
        "import sys; print(sys.argv[1:], 'chimbuko' in sys.modules); sys.exit(3)"
    )
    words = {
        "script": ["program.py", "--rank", "two words"],
        "module": ["-m", "program", "--rank", "two words"],
        "native": ["sh", "-c", 'echo "$0 $1"; exit 3', "--rank", "two words"],
    }[kind]
    said = printed([*TRACE, "--rank", "5", *words], tmp_path, **PLAINLY)
    expected = "--rank two words\n" if kind == "native" else "['--rank', 'two words'] False\n"
    assert said == expected
    assert list((tmp_path / "streams").iterdir()) == []


@pytest.mark.parametrize(
    "options", [[], ["-T", "mpi,pthread", "-adios2_trace"], ["-ebs", "-ebs_period", "1000"], ["-v", "--"]]
)
def test_tau_exec_is_replaced_as_a_word_and_within_scripts(tmp_path: Path, options: list[str]) -> None:
    words, environment = without_tau(
        ["env", "/opt/tau/bin/tau_exec", *options], tmp_path / "plainly", {"PATH": os.environ["PATH"]}
    )
    program = ["sh", "-c", 'echo "$0 $1"; exit 3', "-T", "two words"]
    assert printed([*words, *program], tmp_path) == "-T two words\n"
    within = ["sh", "-c", 'tau_exec "$@"', "script", *options, *program]
    assert printed(within, tmp_path, **environment) == "-T two words\n"


@pytest.mark.parametrize(("value", "plain"), [("1", True), ("0", False), ("", False)])
def test_the_switch_is_off_unless_it_is_on(value: str, plain: bool) -> None:
    assert is_plain({"CHIMBUKO_PLAINLY": value}) is plain
    assert not is_plain({})
