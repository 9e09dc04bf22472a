"""What a process does before there is an agent is read, and counts from its beginning."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from chimbuko.monitor.collector.collector import Collector
from chimbuko.monitor.collector.earlylooks import EARLY_LOOKS, take_early
from chimbuko.monitor.collector.watched import Watched
from chimbuko.monitor.procfs.systemcalls import NAPS
from tests.viz.asking import wait_until

PROGRAM = "import time; time.sleep(3)"


def test_a_program_that_is_over_before_there_is_an_agent_has_samples(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "chimbuko.monitor.collector.earlylooks", str(tmp_path)]
    lookout = subprocess.Popen(words)
    wait_until((tmp_path / EARLY_LOOKS).exists)
    began_us = time.time_ns() // 1000
    environment = os.environ | {"TAU_ADIOS2_FILENAME": f"{tmp_path}/tau-metrics"}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment) as program:
        pid = program.pid
    readings = take_early(tmp_path)
    # Nobody wants more of them.
    assert lookout.wait(60) == 0
    assert {one.pid for one in readings} == {pid}
    assert not (tmp_path / EARLY_LOOKS).exists()

    with closing(Collector("here")) as collector:
        collector.remember(readings)
        assert collector.was_there(pid)
        assert not collector.was_there(2**22)
        collector.period()
        collector.watch(Watched(pid, 0, 3))
        collector.period()
        batch = collector.around([(began_us, time.time_ns() // 1000)])
        assert batch is not None
        looks = batch.look_rows()
        slept_us = looks["length_us"][(looks["state"] == b"S") & np.isin(looks["call"], list(NAPS))]
        # On a busy machine looks are seldom.
        assert 100_000 < slept_us.sum() < 5_000_000
        assert [(one.pid, one.rank) for one in batch.names] == [(pid, 3)]
        whole = collector.due_sum(time.time_ns() // 1000, is_last=True)
        assert whole is not None
        [row] = whole.thread_rows()
        assert row["pid"] == pid
        assert row["length_us"] >= 400_000
        assert 0 < row["ran_us"] < row["length_us"]


def test_without_early_looks_there_are_no_readings(tmp_path: Path) -> None:
    assert take_early(tmp_path) == []
