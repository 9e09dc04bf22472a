"""Samples of real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chimbuko.monitor.sampling.difference import difference
from chimbuko.monitor.sampling.identity import maps_openmp, read_identity, start_ticks_of
from chimbuko.monitor.sampling.procreader import ProcReader
from chimbuko.monitor.sampling.sample import kind_of
from chimbuko.monitor.sampling.sampler import Sampler
from chimbuko.monitor.sampling.watch import family

WAITING = (
    "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); print(1, flush=True)"
)
SPINNING = "print(1, flush=True)\nwhile True: pass"


@pytest.fixture
def sampler() -> Iterator[Sampler]:
    made = Sampler()
    yield made
    made.close()


def program(text: str, **variables: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, env={**os.environ, **variables}
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def asleep(sampler: Sampler, pid: int) -> None:
    """Wait until all threads of a process sleep."""
    for _ in range(1000):
        if {one.state for one in sampler.sample([pid]).threads.values()} == {"S"}:
            return
        time.sleep(0.01)
    raise AssertionError(f"{pid} does not sleep")


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_a_spinner_runs_or_waits_and_a_sleeper_does_neither(sampler: Sampler) -> None:
    spinner, sleeper = program(SPINNING), program(WAITING)
    try:
        asleep(sampler, sleeper.pid)
        pids = [spinner.pid, sleeper.pid]
        first, share = sampler.sample(pids), 0.0
        # On a core of its own or not: it never sleeps. But a wait that goes on is not counted yet.
        while share <= 0.7:
            time.sleep(0.5)
            found = difference(first, sampler.sample(pids))
            busy = found.threads[spinner.pid]
            share = busy.busy_share + (busy.waited_share or 0)
        assert busy.user_s + busy.system_s > 0
        assert not busy.still_periods
        sleeping = [one for one in found.threads.values() if one.pid == sleeper.pid]
        assert len(sleeping) == 2
        assert all(one.still_periods == 1 and one.busy_share == 0 for one in sleeping)
        assert set(found.cores) >= set(os.sched_getaffinity(0))
        assert found.processes[spinner.pid].resident_bytes > 2**20
    finally:
        end(spinner)
        end(sleeper)


def test_a_stopped_thread_and_a_moved_one_are_seen_though_they_do_not_run(sampler: Sampler) -> None:
    sleeper = program(WAITING)
    try:
        asleep(sampler, sleeper.pid)
        os.kill(sleeper.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED)
        assert {one.state for one in sampler.sample([sleeper.pid]).threads.values()} == {"T"}
        os.kill(sleeper.pid, signal.SIGCONT)
        last = max(os.sched_getaffinity(0))
        os.sched_setaffinity(sleeper.pid, {last})
        for _ in range(10):
            found = sampler.sample([sleeper.pid])
        assert found.threads[sleeper.pid].cpus == str(last)
    finally:
        end(sleeper)


def test_threads_that_end_are_forgotten(sampler: Sampler) -> None:
    go = threading.Event()
    threads = [threading.Thread(target=go.wait) for _ in range(20)]
    assert len(sampler.sample([os.getpid()]).threads) >= 1
    before = len(os.listdir("/proc/self/fd"))
    for one in threads:
        one.start()
    assert len(sampler.sample([os.getpid()]).threads) >= 21
    assert len(os.listdir("/proc/self/fd")) >= before + 60
    go.set()
    for one in threads:
        one.join()
    later = sampler.sample([os.getpid()])
    assert len(os.listdir("/proc/self/fd")) < before + 60
    assert os.getpid() in later.threads


def test_what_the_sampler_uses_itself_is_looked_at_by_turns_and_at_the_end(sampler: Sampler) -> None:
    me = os.getpid()
    first = sampler.sample([me], own=me).processes[me]
    block = bytearray(b"1" * 2**26)
    assert sampler.sample([me], own=me).processes[me] is first
    last = sampler.sample([me], closely=True, own=me).processes[me]
    assert last.memory.peak_bytes >= first.memory.resident_bytes + len(block) // 2
    assert sampler.sample([me]).processes[me].io is not None


def test_what_is_gone_is_not_in_a_sample(sampler: Sampler) -> None:
    process = program(WAITING)
    assert process.pid in sampler.sample([process.pid]).threads
    end(process)
    found = sampler.sample([process.pid, 2**22 + 1])
    assert not found.threads and not found.processes
    assert start_ticks_of(process.pid) is None


def test_what_has_not_run_is_not_made_anew(sampler: Sampler) -> None:
    sleeper = program(WAITING)
    try:
        asleep(sampler, sleeper.pid)
        first, second = sampler.sample([sleeper.pid]), sampler.sample([sleeper.pid])
        assert all(second.threads[tid] is one for tid, one in first.threads.items())
        found = difference(first, second).threads[sleeper.pid]
        assert (found.voluntary, found.user_s, found.still_periods) == (0, 0.0, 1)
    finally:
        end(sleeper)


def test_without_room_for_descriptors_files_are_opened_each_time() -> None:
    reader = ProcReader(most_open=1)
    for _ in range(3):
        assert reader.read("/proc/self/stat").startswith(str(os.getpid()).encode())
        assert reader.read("/proc/self/status").startswith(b"Name:")
    assert reader.read("/proc/self/nothing") == b""
    reader.close()


def test_identity_of_a_rank() -> None:
    last = max(os.sched_getaffinity(0))
    process = program(WAITING, SLURM_PROCID="3", SLURM_NTASKS="8", OMP_NUM_THREADS="7", SECRET_TOKEN="x")
    try:
        os.sched_setaffinity(process.pid, {last})
        found = read_identity(process.pid)
        assert found is not None
        assert (found.rank, found.size, found.cpus) == (3, 8, (last,))
        assert found.variables["OMP_NUM_THREADS"] == "7"
        assert "SECRET_TOKEN" not in found.variables
        assert found.command.startswith(sys.executable)
        assert found.start_ticks == start_ticks_of(process.pid)
        assert process.pid in family([os.getpid()])
    finally:
        end(process)
    assert read_identity(process.pid) is None


@pytest.fixture
def one_core() -> Iterator[None]:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    yield
    os.sched_setaffinity(0, allowed)


@pytest.mark.usefixtures("one_core")
def test_a_process_that_was_started_just_now_has_its_rank() -> None:
    # Its parent goes on a moment before the kernel knows its environment. On one core it does so at once.
    environment = {**os.environ, "SLURM_PROCID": "3"}
    for _ in range(20):
        with subprocess.Popen(["sleep", "60"], env=environment) as process:
            found = read_identity(process.pid)
            process.kill()
        assert found is not None
        assert (found.rank, found.command) == (3, "sleep 60")


@pytest.mark.parametrize(
    ("tid", "name", "process", "openmp", "kind"),
    [
        (1, "app", "app", True, "Main"),
        (2, "app", "app", True, "OpenMP"),
        (2, "app", "app", False, "Other"),
        (2, "python3", "python3", True, "Python"),
        (2, "openmp_worker", "app", False, "OpenMP"),
        (2, "async_progress", "app", True, "MPI"),
        (2, "cuda-EvtHandlr", "app", True, "GPU"),
        (2, "a b) c", "app", True, "Other"),
    ],
)
def test_kinds(tid: int, name: str, process: str, openmp: bool, kind: str) -> None:
    assert kind_of(1, tid, name, process, openmp) == kind


def test_openmp_is_known_by_its_library() -> None:
    assert maps_openmp(b"7f0-7f1 r-xp 00000000 fe:00 12 /usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0\n")
    assert maps_openmp(b"7f0-7f1 r-xp 00000000 fe:00 12 /opt/llvm/lib/libomp.so\n")
    assert not maps_openmp(
        Path("/proc/self/maps").read_bytes().replace(b"libgomp", b"").replace(b"libomp", b"")
    )
