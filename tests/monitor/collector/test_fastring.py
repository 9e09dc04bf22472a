"""Fast samples of threads: what they sleep in, and whether they wait for a core."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from chimbuko.monitor.collector import fastring
from chimbuko.monitor.collector.fastring import KEPT_US, FastRing, SliceRing
from chimbuko.monitor.procfs.systemcalls import LOCKS, PIPE
from chimbuko.monitor.sampling.procreader import ProcReader
from chimbuko.monitor.sampling.rows import CORE

FOREVER = 1 << 60
WAITING = "import subprocess; subprocess.run(['sleep', '60'])"
SYNCING = "import os, sys\nwith open(sys.argv[1], 'wb') as f:\n while f.write(bytes(99_999)): os.fsync(f)"
LOCKED = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX)"


def slept_in(pid: int) -> int:
    """The call that a process sleeps in."""
    ring = FastRing(ProcReader())
    ring.read({pid: pid})
    time.sleep(0.02)
    ring.read({pid: pid})
    call = int(ring.take(0, FOREVER)["call"][-1])
    ring.close()
    return call


def test_a_read_of_a_pipe_is_none_of_a_file() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as reader:
        while slept_in(reader.pid) != PIPE:
            assert reader.poll() is None
        reader.kill()


def test_a_lock_of_a_file_is_a_lock(tmp_path: Path) -> None:
    with open(tmp_path / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with subprocess.Popen([sys.executable, "-S", "-c", LOCKED, file.name]) as waiter:
            while slept_in(waiter.pid) not in LOCKS:
                assert waiter.poll() is None
            waiter.kill()


def awaited(pid: int) -> set[str]:
    """What a process slept for in some looks at it."""
    ring = FastRing(ProcReader())
    for _ in range(4):
        ring.read({pid: pid})
        time.sleep(0.01)
    found = {one.name for one in ring.awaited(0, FOREVER)}
    ring.close()
    return found


def test_who_waits_for_a_child_is_asked_which() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", WAITING], start_new_session=True) as waiter:
        while "sleep" not in awaited(waiter.pid):
            assert waiter.poll() is None
        os.killpg(waiter.pid, signal.SIGKILL)


def test_who_waits_for_a_file_is_asked_which(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", SYNCING, str(tmp_path / "file")]) as writer:
        while str(tmp_path / "file") not in awaited(writer.pid):
            assert writer.poll() is None
        writer.kill()


class Scripted(ProcReader):
    """Files of which each says one thing after the other, and then the last one again."""

    def __init__(self, said: dict[str, list[bytes]]) -> None:
        super().__init__()
        self._said = said

    def file(self, path: str) -> ScriptedFile:  # type: ignore[override]
        return ScriptedFile(self._said.get(Path(path).name, [b""]))


class ScriptedFile:
    def __init__(self, said: list[bytes]) -> None:
        self._said = list(said)

    def read(self) -> bytes:
        return self._said.pop(0) if len(self._said) > 1 else self._said[0]

    def close(self) -> None:
        pass


def stat(state: str) -> bytes:
    return b"7 (app) %s 1 %s\n" % (state.encode(), b" ".join([b"0"] * 45))


def test_a_thread_that_runs_no_longer_and_could_waits_now_though_the_kernel_has_not_counted_that() -> None:
    for state, waits in (("R", True), ("S", False)):
        files = Scripted({"stat": [stat(state)], "schedstat": [b"100 0 1", b"200 0 2", b"200 0 2"]})
        ring = FastRing(files)
        assert [ring.read({7: 7}) for _ in range(3)] == [False, False, waits]


def test_a_frozen_thread_stands_still_as_if_it_were_stopped() -> None:
    for state, place in (("D", b"__refrigerator"), ("S", b"do_freezer_trap")):
        said = {"stat": [stat(state)], "schedstat": [b"100 0 1", b"200 0 2"], "wchan": [place]}
        ring = FastRing(Scripted(said))
        for _ in range(4):
            ring.read({7: 7})
            time.sleep(0.001)
        assert ring.take(0, FOREVER)["state"].tolist()[0] == b"T"
        assert [stretch.is_stopped for _, stretch in ring.stretches()][-2:] == [True, True]


RESTLESS = "import time\nwhile True: time.sleep(1e-4)"
LOOKS = 400


def test_a_reading_of_a_restless_thread_takes_no_kilobytes() -> None:
    """An agent keeps thousands of them, and the file with the moves of such a thread takes 2 to 8 kB."""
    with subprocess.Popen([sys.executable, "-S", "-c", RESTLESS]) as restless:
        ring = FastRing(ProcReader(), capacity=LOOKS)
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(LOOKS + 1):
            ring.read({restless.pid: restless.pid})
            time.sleep(0.002)
        taken = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        ring.close()
        restless.kill()
    assert taken / LOOKS < 1500


def test_the_last_look_says_who_sleeps() -> None:
    spinning = [sys.executable, "-S", "-c", "while True: pass"]
    with subprocess.Popen(["sleep", "60"]) as sleeper, subprocess.Popen(spinning) as spinner:
        ring = FastRing(ProcReader())
        threads = {one.pid: one.pid for one in (sleeper, spinner)}
        ring.read(threads)
        assert not list(ring.latest()), "a look stands for the time since the one before"
        looks: dict[int, bool] = {}
        while looks != {sleeper.pid: True, spinner.pid: False}:
            assert sleeper.poll() is spinner.poll() is None
            time.sleep(0.02)
            ring.read(threads)
            looks = {one.pid: one.is_asleep for one in ring.latest()}
        assert all(one.length_us > 0 for one in ring.latest())
        ring.close()
        sleeper.kill()
        spinner.kill()


def test_what_is_old_is_kept_no_longer_however_little_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory would grow for hours where few threads are looked at."""
    rows = SliceRing(CORE, 1_000)
    for begin_us in range(0, 4 * KEPT_US, KEPT_US // 2):
        one = np.zeros(1, CORE)
        one["begin_us"] = begin_us
        rows.put(one)
    assert sorted(rows.take(-1, FOREVER)["begin_us"] / KEPT_US) == [2.5, 3.0, 3.5]
    monkeypatch.setattr(fastring, "READINGS_KEPT_US", 0)
    ring = FastRing(Scripted({"stat": [stat("R")], "schedstat": [b"100 0 1"]}))
    for _ in range(5):
        ring.read({7: 7})
        time.sleep(0.001)
    assert len(ring.take(0, FOREVER)) == 1


def test_all_that_was_read_of_a_process_can_be_asked_for_from_its_first_reading_on() -> None:
    ring, own = FastRing(ProcReader()), os.getpid()
    counts = []
    for _ in range(3):
        ring.read({own: own})
        time.sleep(0.001)
        counts.append([len(read) for read in ring.readings({own}).values()])
    times_us = [one.time_us for one in ring.readings({own})[own]]
    assert counts == [[1], [2], [3]] and times_us == sorted(times_us)
    assert not ring.readings({own + 1})
    ring.close()
