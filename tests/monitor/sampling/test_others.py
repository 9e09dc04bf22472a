"""Whose the load is that a program's cores have beside it."""

from __future__ import annotations

import getpass
import subprocess
import sys
import time

import pytest

from chimbuko.monitor.procfs.task import TaskStat
from chimbuko.monitor.report.cores import taken_cores
from chimbuko.monitor.sampling.others import LOOK_EVERY, Others
from chimbuko.monitor.sampling.span import OtherLoad
from chimbuko.monitor.sampling.watch import Watch
from tests.monitor.sampling.made import span, thread

SPIN = """
import os, sys
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
open("/proc/self/comm", "w").write(sys.argv[1])
print(1, flush=True)
while True:
    pass
"""


def test_a_thief_is_named_with_his_user() -> None:
    programs = [
        subprocess.Popen([sys.executable, "-c", SPIN, name], stdout=subprocess.PIPE)
        for name in ("own", "a thief")
    ]
    watch = Watch([programs[0].pid])
    try:
        for program in programs:
            assert program.stdout is not None
            program.stdout.readline()
        # The first sample, one in which load of others shows, and one in which it is looked whose it is.
        for _ in range(40):
            watch.step()
            if watch.total and watch.total.others:
                break
            time.sleep(0.3)
        assert watch.total is not None
        assert watch.total.others["a thief", getpass.getuser()].seconds > 0
    finally:
        watch.close()
        for program in programs:
            program.kill()
            program.communicate()


def test_who_takes_most_is_in_the_finding_and_else_nobody() -> None:
    waiting = thread(1, busy=0.3, waited_s=6.0)
    others = {("stress", "eve"): OtherLoad(5.0), ("cron", "root"): OtherLoad(0.1)}
    (named,) = taken_cores(span(waiting, cores={0: 1.0}, others=others))
    assert "others are 1 process of eve (stress), 50 %" in named.text and "cron" not in named.text
    bound = {("stress", "eve"): OtherLoad(5.0, cpus=frozenset({0}))}
    (on_core,) = taken_cores(
        span(thread(1, (0, 1), busy=0.3, waited_s=6.0), cores={0: 1.0, 1: 1.0}, others=bound)
    )
    assert "1 process of eve (stress, bound to core 0), 25 %" in on_core.text
    (unknown,) = taken_cores(span(waiting, cores={0: 1.0}))
    assert "who they are is unknown" in unknown.text


def test_it_is_looked_less_and_less_often_while_the_load_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    periods: list[int] = []
    looks: list[int] = []

    def processes(but: object) -> dict[int, TaskStat]:
        looks.append(len(periods))
        return {}

    monkeypatch.setattr("chimbuko.monitor.sampling.others._processes", processes)
    others, loaded = Others(), span(thread(1, busy=0.3), cores={0: 1.0})
    while len(periods) < 60:
        others.step(loaded, [])
        periods.append(1)
    assert looks[:6] == [0, 1, 3, 6, 10, 15] and looks[-1] - looks[-2] == LOOK_EVERY
