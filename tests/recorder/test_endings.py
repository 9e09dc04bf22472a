"""What a program was in when it died, and what becomes of it when our processes die."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.places import EXAMPLES
from tests.recorder.mpi import WHEEL
from tests.recorder.streams import TRACE, Stream, await_drains, drains, streams
from tests.recorder.test_functions import PROGRAMS, compiled


def run_to_its_end(folder: Path, how: str) -> tuple[int, Stream]:
    program = compiled(PROGRAMS / "crash.c", folder / "crash", "-finstrument-functions", "-O0")
    environment = {**os.environ, "TAU_ADIOS2_FILENAME": str(folder / "tau-metrics")}
    done = subprocess.run([*TRACE, program, how], capture_output=True, env=environment, timeout=60)
    await_drains(folder)
    (stream,) = streams(folder)
    return done.returncode, stream


@pytest.mark.parametrize(
    ("how", "number"), [("segfault", signal.SIGSEGV), ("abort", signal.SIGABRT), ("overflow", signal.SIGSEGV)]
)
def test_fatal_signal_leaves_stack_and_backtrace(tmp_path: Path, how: str, number: signal.Signals) -> None:
    code, stream = run_to_its_end(tmp_path, how)
    # As it would end without us.
    assert code == -number
    said = stream.metadata("Ending")
    stack, _, backtrace = said.partition("; backtrace: ")
    assert re.match(rf"died \({number.name}\) in .*fail$", stack), said
    assert "fail" in backtrace and (how == "overflow" or "solve < main" in backtrace), said
    open_calls = [stream.function(row[4]) for row in stream.events.tolist() if row[3] == 0]
    assert open_calls[:4] == [".TAU application", "main", "solve", "fail"]
    assert how == "overflow" or (stream.events[:, 3] == 1).sum() == 0


def test_killed_program_is_said_to_be(tmp_path: Path) -> None:
    code, stream = run_to_its_end(tmp_path, "kill")
    assert code == -signal.SIGKILL
    assert stream.metadata("Ending") == "died (killed, or ended without an exit) in main > solve > fail"


def test_program_that_leaves_without_ado_has_ended_in_order(tmp_path: Path) -> None:
    code, stream = run_to_its_end(tmp_path, "leave")
    assert code == 3 and stream.metadata("Ending") == ""
    stream.nesting()


def test_program_does_not_notice_that_its_drain_is_killed(tmp_path: Path) -> None:
    program = WHEEL.build(EXAMPLES / "heat_mpi.c", tmp_path / "heat", "mpicc", "-finstrument-functions")
    environment = {**os.environ, "TAU_ADIOS2_FILENAME": str(tmp_path / "tau-metrics")}
    words = [*WHEEL.launch(2), *TRACE, program, "--seconds", "3"]
    running = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
    latest = time.monotonic() + 120
    while not list(tmp_path.glob("*.bp")):
        assert time.monotonic() < latest and running.poll() is None
        time.sleep(0.05)
    for drain in drains(tmp_path):
        os.kill(drain, signal.SIGKILL)
    output, _ = running.communicate(timeout=60)
    assert running.returncode == 0
    assert "2 ranks, 300 iterations" in output
