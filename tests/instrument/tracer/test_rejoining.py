"""A program that closes all descriptors, as daemons do, is recorded on."""

from __future__ import annotations

from pathlib import Path

from tests.instrument.tracer.test_children import streams
from tests.instrument.tracer.traced_program import run_traced, write_program

CLOSER = """
    import os, sys, time

    def step(): pass

    def become_daemon():
        os.setsid()
        if os.fork(): os._exit(0)
        time.sleep(0.2)
        os.closerange(3, 4096)
        # Its number may be that of the closed descriptor.
        for _ in range(300): os.open(os.devnull, os.O_RDONLY)

    def work():
        for _ in range(6):
            step()
            time.sleep(0.05)

    work()
    if sys.argv[1] == "daemon":
        if not os.fork():
            become_daemon()
            work()
            sys.exit()
        os.wait()
        time.sleep(1)
    else:
        for _ in range(2):
            os.closerange(3, 4096)
            work()
"""


def test_calls_after_the_descriptors_are_closed_are_in_the_same_stream(tmp_path: Path) -> None:
    program = write_program(tmp_path, CLOSER.replace("sys.argv[1]", "'plain'"))
    done = run_traced(program)
    assert (done.returncode, done.stderr) == (0, "")
    (stream,) = streams(tmp_path).values()
    assert stream.counts()["step"] == 18
    assert stream.open_timers() == []


def test_a_process_that_becomes_a_daemon_is_recorded(tmp_path: Path) -> None:
    program = write_program(tmp_path, CLOSER.replace("sys.argv[1]", "'daemon'"))
    done = run_traced(program)
    assert (done.returncode, done.stderr) == (0, "")
    assert [stream.counts()["step"] for stream in streams(tmp_path).values()] == [6, 6]
