"""Processes that stand still, made-up ones and a real one; each is reported until it goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from msgspec.structs import replace

from chimbuko.monitor.report.findings import findings
from chimbuko.monitor.sampling import standstill
from chimbuko.monitor.sampling.span import Span, Standstill, ThreadWait
from chimbuko.monitor.sampling.standstill import Standstills, circle, is_deadlock, read_waits
from tests.monitor.sampling.made import span, thread
from tests.patience import PATIENCE_S

FIRST = ThreadWait(1, "app", awaited=2, is_mutex=True, is_inside=True)
SECOND = ThreadWait(2, "worker", awaited=1, is_mutex=True, is_inside=True)
SLEEPS = ThreadWait(3, "timer", is_for_a_time=True)
UNKNOWN = ThreadWait(4, "idle", is_inside=True)


def test_who_waits_for_each_other() -> None:
    assert circle([SLEEPS, FIRST, SECOND]) == [FIRST, SECOND]
    assert is_deadlock([SLEEPS, FIRST, SECOND]), "whatever the third one does"
    assert is_deadlock([replace(FIRST, awaited=1)]), "it holds the mutex itself"
    assert is_deadlock([UNKNOWN, replace(UNKNOWN, tid=5)]), "nobody is left to wake them"
    assert not is_deadlock([FIRST, SLEEPS]) and not is_deadlock([UNKNOWN]) and not is_deadlock([])


def period(still: bool, *tids: int) -> Span:
    return span(*(thread(tid, pid=1, state="S", still_periods=int(still)) for tid in tids), seconds=1.0)


def test_it_is_known_from_the_fifth_period_until_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standstill, "read_waits", lambda pid, tids: [FIRST, SECOND])
    watch = Standstills()
    for at in range(1, 5):
        assert watch.step(period(True, 1, 2), 1_000_000 * at) == {}
    found = watch.step(period(True, 1, 2), 5_000_000)
    other = span(thread(9), seconds=1.0)
    assert found == {1: Standstill(1, 0, 5_000_000, (FIRST, SECOND), is_deadlock=True)}
    assert watch.step(period(True, 1, 2), 6_000_000)[1].end_us == 6_000_000
    assert Standstills(found).step(other, 7_000_000)[1].has_ended
    assert watch.step(period(False, 1, 2), 7_000_000) == {}


def test_a_deadlock_is_a_finding_also_when_the_process_has_ended() -> None:
    waits = (FIRST, SECOND)
    one = Standstill(1, 0, 9_000_000, waits, is_deadlock=True, has_ended=True)
    (finding,) = findings(span(standstills={1: one}))
    assert finding.kind == "deadlock"
    assert "thread 1 (app) waits for a mutex that thread 2 (worker) holds; thread 2" in finding.text
    assert "for 9 s, until the process was ended" in finding.text
    still = thread(1, busy=0.0, state="S", still_periods=9)
    sleeping = Standstill(1, 0, 9_000_000, (SLEEPS,), is_deadlock=False)
    assert findings(span(still, standstills={1: sleeping})) == [], "it has named a time"
    waiting = Standstill(1, 0, 9_000_000, (UNKNOWN, SLEEPS), is_deadlock=False)
    assert findings(span(still, standstills={1: waiting})) == [], "its other thread has"
    for_ever = Standstill(1, 0, 9_000_000, (UNKNOWN,), is_deadlock=False)
    assert [each.kind for each in findings(span(still, standstills={1: for_ever}))] == ["stuck"]
    assert [each.kind for each in findings(span(still, standstills={1: one}))] == ["deadlock"]


DEADLOCK = """
import threading
held, wanted = threading.Lock(), threading.Lock()
both = threading.Barrier(2)
def take(first, second):
    with first:
        both.wait()
        with second: pass
threading.Thread(target=take, args=(held, wanted), daemon=True).start()
take(wanted, held)
"""


def test_threads_of_a_real_process_that_wait_for_each_other() -> None:
    with subprocess.Popen([sys.executable, "-c", DEADLOCK]) as process:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not is_deadlock(read_waits(process.pid, _threads(process.pid))):
                assert time.monotonic() < deadline, read_waits(process.pid, _threads(process.pid))
                time.sleep(0.05)
        finally:
            process.kill()


def _threads(pid: int) -> list[int]:
    return [int(tid) for tid in os.listdir(f"/proc/{pid}/task")]
