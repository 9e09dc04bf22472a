"""The process from which writers are forked, and the folder in which it serves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

BEGINNING = """
import os, signal, subprocess, sys
from chimbuko.instrument.tracer import writerserverstart

def started_and_ended(command, check, **options):
    started = subprocess.Popen(command, **options)
    os.killpg(0, int(sys.argv[1]))
    started.wait()

subprocess.run = started_and_ended
writerserverstart.start_writer_server()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_program_whose_group_is_ended_as_it_begins_leaves_no_folder(
    number: signal.Signals, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEGINNING, str(int(number))],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert done.returncode == -number
    patience_until = time.monotonic() + PATIENCE_S
    while any(tmp_path.iterdir()):
        assert time.monotonic() < patience_until, "the folder is still there"
        time.sleep(0.05)
