"""What wakes a reader that waits for the next step."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chimbuko.capture.follow.alarm import Alarm

LONG_S = 60.0


@pytest.fixture
def alarm(tmp_path: Path) -> Iterator[Alarm]:
    alarm = Alarm(tmp_path, 0.01)
    yield alarm
    alarm.close()


def waited_s(alarm: Alarm, timeout_s: float) -> float:
    began_s = time.monotonic()
    alarm.wait(timeout_s)
    return time.monotonic() - began_s


def test_a_file_that_comes_wakes_and_nothing_does_not(alarm: Alarm, tmp_path: Path) -> None:
    assert waited_s(alarm, 0.02) >= 0.02
    (tmp_path / "md.idx").write_bytes(b"")
    assert waited_s(alarm, LONG_S) < LONG_S
    assert waited_s(alarm, 0.02) >= 0.02


def test_a_signal_with_a_handler_wakes_also_one_that_came_before(alarm: Alarm) -> None:
    before = signal.signal(signal.SIGCONT, lambda *_: None)
    try:
        threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGCONT)).start()
        assert waited_s(alarm, LONG_S) < LONG_S
        os.kill(os.getpid(), signal.SIGCONT)
        assert waited_s(alarm, LONG_S) < LONG_S
        assert waited_s(alarm, 0.02) >= 0.02
    finally:
        signal.signal(signal.SIGCONT, before)
