"""A traced program over SST: nothing of it is lost, however short it is, and nobody waits for long."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chimbuko.capture.trace.discovery import read_mark_of
from chimbuko.instrument.tracer.writer import READER_WAIT_S
from tests.capture.trace.whole_streams import Step, reading
from tests.instrument.tracer.traced_program import TRACE, environment, write_program
from tests.patience import PATIENCE_S

PROGRAM = """
    import sys, time

    def work(): time.sleep(0.01)

    until, calls = time.monotonic() + float(sys.argv[1]), 0
    while time.monotonic() < until:
        work()
        calls += 1
    print(calls)
"""


@contextmanager
def started(folder: Path, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    program = write_program(folder, PROGRAM)
    variables = environment(TAU_ADIOS2_ENGINE="SST", TAU_ADIOS2_PERIOD="200000")
    words = [*TRACE, str(program), str(seconds)]
    with subprocess.Popen(words, cwd=folder, env=variables, stdout=subprocess.PIPE) as process:
        yield process


def stream(folder: Path) -> Path:
    return folder / "tau-metrics-program-0.bp"


def calls_of(name: str, steps: list[Step]) -> int:
    timers = steps[-1].names.timers
    number = next(number for number, known in timers.items() if known.startswith(name))
    return sum(int((step.events[:, 3:5] == (1, number)).all(axis=1).sum()) for step in steps)


@pytest.mark.parametrize("seconds", [0.0, 0.3, 2.0])
def test_reader_gets_every_step(tmp_path: Path, seconds: float) -> None:
    # Of an earlier stream here: it says nothing of this one.
    read_mark_of(stream(tmp_path)).touch()
    with reading([stream(tmp_path)]) as (answer,), started(tmp_path, seconds) as process:
        steps = answer.recv()
        assert process.stdout is not None
        calls = int(process.stdout.read())
    assert process.returncode == 0
    assert [step.number for step in steps] == list(range(len(steps)))
    rows = [tuple(row) for step in steps for row in step.events[:, 3:5].tolist()]
    assert rows[0] == (0, 0) and rows[-1] == (1, 0)
    if seconds:
        assert calls_of("work [", steps) == calls > 0


def test_program_that_nobody_reads_waits_a_little(tmp_path: Path) -> None:
    began = time.monotonic()
    with started(tmp_path, 0.1) as process:
        assert process.wait(PATIENCE_S) == 0
    assert time.monotonic() - began > READER_WAIT_S


def test_writer_of_a_killed_program_waits_for_nobody(tmp_path: Path) -> None:
    # A busy machine takes long, too, but not each time.
    assert any(stays_s(tmp_path / str(number)) < READER_WAIT_S / 2 for number in range(5))


def stays_s(folder: Path) -> float:
    """How long the writer of a killed program is there."""
    folder.mkdir()
    contact = folder / "tau-metrics-program-0.bp.sst"
    with started(folder, 60) as process:
        while not contact.exists():
            time.sleep(0.01)
        process.kill()
        killed_s = time.monotonic()
    while contact.exists():
        time.sleep(0.01)
    return time.monotonic() - killed_s
