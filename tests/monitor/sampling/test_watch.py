"""New processes are found among the numbers that the kernel has given since."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chimbuko.monitor.sampling import watch as families
from chimbuko.monitor.sampling.procreader import ProcReader
from chimbuko.monitor.sampling.watch import Family, busiest_file, family

PROGRAM = """
import subprocess, sys, threading
children = []
def start():
    children.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
for line in sys.stdin:
    starter = threading.Thread(target=start)
    starter.start()
    starter.join()
    print(children[-1].pid, flush=True)
for child in children:
    child.communicate()
"""


@pytest.mark.parametrize("most_new", [0, 1000])
def test_children_of_threads_are_found_as_they_come_and_threads_are_none(
    most_new: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether few numbers were given since the last look, or very many."""
    monkeypatch.setattr(families, "MOST_NEW", most_new)
    files = ProcReader()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None and program.stdout is not None
        watched = Family([program.pid], files)
        assert watched.pids() == [program.pid]
        expected = {program.pid}
        for _ in range(3):
            print("go", file=program.stdin, flush=True)
            expected.add(int(program.stdout.readline()))
            assert set(watched.pids()) == set(family([program.pid])) == expected
        program.stdin.close()
    assert watched.pids() == [program.pid]
    assert os.getpid() not in watched.pids()
    files.close()


def test_the_file_that_is_written_farthest_is_named(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("read", "little", "much")]
    paths[0].write_bytes(bytes(10**7))
    with open(paths[0], "rb") as read, open(paths[1], "wb") as little, open(paths[2], "wb") as much:
        read.seek(10**7)
        # Beyond what any other file of this process is likely to have.
        os.lseek(little.fileno(), 1 << 38, os.SEEK_SET)
        os.lseek(much.fileno(), 1 << 39, os.SEEK_SET)
        assert busiest_file(os.getpid()) == str(paths[2])


def test_of_a_process_that_is_gone_there_is_none() -> None:
    assert busiest_file(1 << 30) == ""
