"""Ctrl-C at any moment: a command ends, and shows no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.places import ROOT

pytestmark = pytest.mark.cold

INTERRUPTED_AT = """
import atexit, os, signal, sys

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            interrupt()

moment = sys.argv.pop(1)
sys.meta_path.insert(0, Interrupting())
if moment == "the end":
    atexit.register(interrupt)
from chimbuko.command import start
start()
"""
BEFORE_OURS = "init_import_site"
"""In the traceback of an interpreter that had not begun with the command."""


@pytest.mark.parametrize(
    ("moment", "words", "code"),
    [
        ("chimbuko.cli", ["query", "--help"], -signal.SIGINT),
        ("click.core", ["query", "--help"], -signal.SIGINT),
        ("chimbuko.cli.inspect.query", ["query", "--help"], -signal.SIGINT),
        ("numpy", ["query", "--help"], -signal.SIGINT),
        ("chimbuko.provenance.importing.importer", ["runs", "import", "."], 130),
        ("msgspec", ["run", "--help"], -signal.SIGINT),
        ("the end", ["query", "--help"], -signal.SIGINT),
    ],
)
def test_no_moment_of_a_command_shows_a_traceback(
    moment: str, words: list[str], code: int, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT, moment, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr and "KeyboardInterrupt" not in done.stderr


def test_a_background_job_of_a_shell_goes_on() -> None:
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    code += "from chimbuko.command import start\n"
    code += "try: start()\nfinally: print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"
    done = subprocess.run([sys.executable, "-c", code, "-V"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("words", "latest_s"),
    [
        (["query", "--help"], 1.0),
        (["doctor"], 4.0),
        (["run", "--no-dashboard", "-o", "run", "--", "chimbuko", "trace", "etl.py"], 5.0),
    ],
    ids=["help", "doctor", "run"],
)
def test_ctrl_c_at_many_moments(words: list[str], latest_s: float, tmp_path: Path) -> None:
    program = "import time\ndef load(): time.sleep(0.01)\nfor _ in range(200): load()\n"
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "etl.py").write_text(program)
        with subprocess.Popen(
            [sys.executable, "-m", "chimbuko", *words],
            cwd=folder,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as command:
            time.sleep(latest_s * number / 20)
            os.killpg(command.pid, signal.SIGINT)
            _, errors = command.communicate(timeout=PATIENCE_S)
        ours = [line for line in errors.splitlines() if line.startswith("Traceback")]
        # The traced program is the user's, and ends as Python does.
        assert not ours or BEFORE_OURS in errors or "etl.py" in errors, errors
