"""As many samples as in half an hour: what they leave behind does not grow."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from chimbuko.monitor.report.csvwriter import CsvWriter
from chimbuko.monitor.sampling.watch import Watch

PERIODS = 1800
MOST_MORE = 1.02


def kept_blocks(period: Callable[[int], object]) -> tuple[int, int]:
    """Blocks of memory after half of the periods and after all; in each of them a thread begins and ends."""
    halves = []
    for number in range(PERIODS):
        end = threading.Event()
        one = threading.Thread(target=end.wait)
        one.start()
        period(number)
        end.set()
        one.join()
        if number in (PERIODS // 2 - 1, PERIODS - 1):
            gc.collect()
            halves.append(sys.getallocatedblocks())
    return halves[0], halves[1]


@pytest.mark.thorough
def test_the_memory_of_a_monitor_stays_as_it_is(tmp_path: Path) -> None:
    watch, table = Watch([os.getpid()]), CsvWriter(tmp_path, "here")

    def period(_: int) -> None:
        span = watch.step()
        if span is not None and watch.total is not None:
            table.write(span, watch.total, watch.identities)

    half, whole = kept_blocks(period)
    watch.close()
    table.close()
    assert watch.total is not None and watch.total.dropped_threads > 0
    assert whole <= MOST_MORE * half
