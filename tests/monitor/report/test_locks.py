"""Locks of each thread, counted by a library that a real program loads."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chimbuko.monitor.report.layout import report
from chimbuko.monitor.report.locks import LockCounts, LockFile
from tests.monitor.report.test_layout import identity
from tests.monitor.sampling.made import span, thread

PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static void *work(void *times)
{
    for (long at = 0; at < (long)times; at++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_trylock(&mutex);
        pthread_mutex_unlock(&mutex);
        pthread_rwlock_rdlock(&shared);
        pthread_rwlock_unlock(&shared);
        pthread_spin_trylock(&spin);
        pthread_spin_unlock(&spin);
    }
    printf("%ld %ld\\n", syscall(SYS_gettid), (long)times);
    fflush(stdout);
    usleep(400000);
    return NULL;
}
int main(void)
{
    pthread_t others[2];
    pthread_spin_init(&spin, 0);
    for (long at = 0; at < 2; at++) {
        pthread_create(&others[at], NULL, work, (void *)(1000 * (at + 1)));
        pthread_join(others[at], NULL);
    }
    if (fork() == 0) {
        work((void *)7L);
        _exit(0);
    }
    wait(NULL);
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("program")
    (folder / "locking.c").write_text(PROGRAM)
    words = [compiler, "-O1", "-o", str(folder / "locking"), str(folder / "locking.c"), "-pthread"]
    subprocess.run(words, check=True)
    return folder / "locking"


def loops_of(output: str) -> dict[int, int]:
    return {int(tid): int(times) for tid, times in map(str.split, output.splitlines())}


def test_each_thread_counts_for_itself(program: Path) -> None:
    counting = LockFile(f"chimbuko-test-{os.getpid()}")
    try:
        ran = subprocess.run(
            [program], env=counting.environment(os.environ), capture_output=True, text=True, check=True
        )
        counts = counting.counts()
    finally:
        counting.close()
    loops = loops_of(ran.stdout)
    assert sorted(loops.values()) == [7, 1000, 2000]
    assert counts is not None
    assert {tid: counts[tid] for tid in loops} == {
        tid: LockCounts(locks=2 * times, trylocks=2 * times, failed=times) for tid, times in loops.items()
    }
    (main,) = counts.keys() - loops.keys()
    assert counts[main] == LockCounts()
    assert counting.counts() is None


def test_monitor_reports_them(program: Path) -> None:
    words = [sys.executable, "-m", "chimbuko", "monitor", "--locks", "--period", "100ms", "--", str(program)]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    # A thread that no sample has seen has its counts in a line for all such.
    found = re.findall(r"locks: (\d+), trylocks: (\d+)(?: \((\d+) in vain\))?", ran.stderr)
    times = sum(loops_of(ran.stdout).values())
    sums = [sum(int(number or 0) for number in numbers) for numbers in zip(*found, strict=True)]
    assert sums == [2 * times, 2 * times, times]
    assert not list(Path("/dev/shm").glob("chimbuko-monitor-*.locks"))


def test_report_says_only_what_was_counted() -> None:
    made = span(thread(7, (1,)), thread(8, (1,)), thread(9, (1,), pid=7), cores={1: 0.5})
    identities = {7: identity(7, None, (1,)), 8: identity(8, None, (1,))}
    counts = {7: LockCounts(), 9: LockCounts(5, 2), 40: LockCounts(1, 2, 1), 41: LockCounts(3)}
    lines = report(made, identities, "n", locks=counts)
    said = {
        line.split(":")[0]: line.partition(", locks: ")[2].partition(", CPUs")[0]
        for line in lines
        if line.startswith("LWP ") and " - " in line
    }
    # Nothing has counted in process 8.
    assert said == {"LWP 7": "0, trylocks: 0", "LWP 9": "5, trylocks: 2", "LWP 8": ""}
    assert "2 threads without a line here: locks: 4, trylocks: 2 (1 in vain)" in lines
    assert not any("without a line" in line for line in report(made, identities, "n", 7, counts))
    assert any(line.startswith("no locks are counted") for line in report(made, identities, "n", locks={}))
    assert not any("locks" in line for line in report(made, identities, "n"))
