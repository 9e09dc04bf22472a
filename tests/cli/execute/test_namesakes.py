"""Files of a program that are called as modules that Chimbuko needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chimbuko.cli.execute.recordedcommand import recorded_command

pytestmark = pytest.mark.cold


def test_a_file_beside_the_program_is_not_taken_for_a_module_of_ours(tmp_path: Path) -> None:
    for name in ("queue", "concurrent", "typing", "tempfile", "click", "msgspec", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not for Chimbuko')\n")
    (tmp_path / "app.py").write_text("print('done')\n")
    environment = os.environ | {"TAU_ADIOS2_FILENAME": str(tmp_path / "tau-metrics")}
    for words in ((sys.executable, "app.py"), (sys.executable, "-m", "chimbuko", "trace", "app.py")):
        command = recorded_command(words)
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
