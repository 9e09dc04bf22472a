"""The time in which a process could do anything."""

from __future__ import annotations

import os
import signal
import time

import pytest

from chimbuko.ad.streams.streamhandle import CoreUse, core_use, own_time_s
from tests.ad.spinning import spinning


@pytest.mark.parametrize(
    ("before", "now", "own_s"),
    [
        (CoreUse("S", 10**9, 0), CoreUse("S", 10**9, 0), 0.25),
        (CoreUse("R", 10**9, 0), CoreUse("R", 1_250_000_000, 0), 0.25),
        (CoreUse("R", 10**9, 0), CoreUse("R", 1_050_000_000, 200_000_000), 0.05),
        (CoreUse("R", 10**9, 0), CoreUse("R", 10**9, 0), 0.0),
        (CoreUse("R", 10**9, 0), CoreUse("S", 1_001_000_000, 9 * 10**9), 0.0),
        (CoreUse("R", 10**9, 0), CoreUse("T", 10**9, 0), 0.25),
        (None, CoreUse("R", 10**9, 0), 0.25),
        (CoreUse("R", 10**9, 0), None, 0.25),
    ],
)
def test_own_time(before: CoreUse | None, now: CoreUse | None, own_s: float) -> None:
    assert own_time_s(before, now, 0.25) == pytest.approx(own_s)


def test_a_process_beside_others_waits_most_of_its_time() -> None:
    core = min(os.sched_getaffinity(0))
    with spinning(core), spinning(core), spinning(core), spinning(core) as watched:
        before, began_s = core_use(watched), time.monotonic()
        own_s = passed_s = 0.0
        while passed_s < 1.0:
            time.sleep(0.2)
            now, looked_s = core_use(watched), time.monotonic()
            own_s += own_time_s(before, now, looked_s - began_s)
            passed_s += looked_s - began_s
            before, began_s = now, looked_s
    assert own_s < 0.8 * passed_s


def test_a_stopped_process_is_seen_to_be() -> None:
    with spinning(min(os.sched_getaffinity(0))) as pid:
        os.kill(pid, signal.SIGSTOP)
        while (use := core_use(pid)) is not None and not use.is_stopped:
            time.sleep(0.01)
    assert use is not None and core_use(pid) is None
