"""The process from which writers are forked, and the folder in which it serves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.instrument.recorder.streams import record
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


RANK = """
import fcntl, os, signal, struct, termios, time

def unread(descriptor):
    try:
        return struct.unpack("i", fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)))[0]
    except OSError:
        return 0

def work():
    time.sleep(0.01)

while not any(unread(int(name)) > 100 for name in os.listdir("/proc/self/fd") if int(name) >= 256):
    work()
os.kill(os.getpid(), signal.SIGKILL)
"""
LAUNCHER = """
import os, subprocess, sys
said = [{"PMI_RANK": rank, "PMI_SIZE": "2"} for rank in "10"]
ranks = [subprocess.Popen([sys.executable, "rank.py"], env={**os.environ, **one}) for one in said]
print(*(rank.wait() for rank in ranks))
"""
STARTER = """
import glob, os, signal, subprocess, sys, time

def writers():
    own = f"TAU_ADIOS2_FILENAME={os.environ['TAU_ADIOS2_FILENAME']}"
    for process in glob.glob("/proc/[0-9]*"):
        try:
            with open(f"{process}/cmdline") as command, open(f"{process}/environ") as environment:
                if "writerserver" in command.read() and own in environment.read():
                    with open(f"{process}/stat") as status:
                        yield int(process[6:]), int(status.read().split()[3])
        except OSError:
            pass

while len(found := dict(writers())) < 2:
    time.sleep(0.01)
(server,) = set(found.values()) & set(found)
os.kill(server, signal.SIGSTOP)
launched = subprocess.run([sys.executable, "launcher.py"], capture_output=True, text=True)
os.kill(server, signal.SIGCONT)
print(launched.stdout, launched.stderr)
"""


def test_ranks_of_a_job_keep_theirs_though_they_end_before_the_server_takes_them_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("rank", RANK), ("launcher", LAUNCHER), ("starter", STARTER)):
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    streams = record(tmp_path, ["starter.py"])
    names = [stream.path.name.removeprefix("tau-metrics").removesuffix(".bp") for stream in streams]
    assert names == ["-starter-0", ".1-starter-0", ".2-starter-0", ".2-starter-1"]
