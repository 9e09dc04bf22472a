"""What the monitor costs a program: interleaved runs with and without it, and CPU time of its samples.

    python benchmarks/monitor.py [--runs 60] [--seconds 2] [--json]

A fixed amount of work runs on one core and on two, in pairs, once with `chimbuko monitor` and once without;
chance decides which comes first. All are runs of the same processes, beside the same monitor, which stands
still (SIGSTOP) in those without it: so neither where in memory a process lies nor its start is part of a
difference. With its period of a second it samples two or three times in a run. Welch's test says whether the
means differ, and between what the difference lies (95 %); the same by pairs leaves out what changes slowly on
a machine, such as its clock. Beside the time that passed there is the CPU time of the work itself: others who
take its core do not lengthen that, but what the monitor does to its caches does. A period is all that the
monitor, or an agent, does in one, for a program whose threads all wake up between two of them. On a machine
that has other work the times are not figures. With the defaults it takes twelve minutes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from scipy import stats

from chimbuko.monitor.collector.collector import Collector
from chimbuko.monitor.collector.watched import Watched
from chimbuko.monitor.procfs.gpus import present_gpus
from chimbuko.monitor.sampling.threadreader import CLOSE_LOOK
from chimbuko.monitor.sampling.watch import Watch

WORK = """
import os, sys, time
from itertools import repeat
import numpy as np
core, additions = map(int, sys.argv[1:])
os.sched_setaffinity(0, {core})
values, sums = np.ones(additions), np.empty(additions)
for line in sys.stdin:
    began, cpu = time.perf_counter(), time.process_time()
    # Each addition waits for the one before, so that it takes as long whatever else the core does.
    for _ in repeat(None, int(line)):
        np.add.accumulate(values, out=sums)
    print(time.perf_counter() - began, time.process_time() - cpu, flush=True)
"""
ON_CORES = """
import subprocess, sys
work, additions, *cores = sys.argv[1:]
start = lambda core: subprocess.Popen(
    [sys.executable, "-c", work, core, additions], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
ranks = [start(core) for core in cores]
for line in sys.stdin:
    for rank in ranks:
        print(line, end="", file=rank.stdin, flush=True)
    print(*(rank.stdout.readline().strip() for rank in ranks), flush=True)
"""
ADDITIONS = 2_000
WAKING = """
import sys, threading, time

def wake():
    while True:
        time.sleep(0.1)

for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=wake, daemon=True).start()
print(1, flush=True)
wake()
"""
COMPUTING = """
print(1, flush=True)
while True:
    sum(range(10_000))
"""
THREADS = (32, 256)
FAST_FOR_S = 5.0
SETTLING = 6
"""Runs that do not count, of which the first ones say how much work takes how long."""
ROUNDS = 5
FIRST, TURNS = 10, 2
"""Samples that do not count, since at first all threads are looked at closely; and how often it is the turn
of each of them in those that do."""


class Times(NamedTuple):
    """Of a run, its start left out."""

    wall_s: float
    """Of the slowest process."""
    cpu_s: float
    """Of all processes, user and system."""


class Work:
    """Processes that do the same again and again, one on each core."""

    def __init__(self, cores: Sequence[int]) -> None:
        command = [sys.executable, "-c", ON_CORES, WORK, str(ADDITIONS), *map(str, cores)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def times(self, loops: int) -> Times:
        """Of so much work."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(loops, file=self.process.stdin, flush=True)
        found = list(map(float, self.process.stdout.readline().split()))
        return Times(max(found[::2]), sum(found[1::2]))

    def close(self) -> None:
        """End it."""
        self.process.communicate()


def compared(without: Sequence[float], with_it: Sequence[float]) -> dict[str, float]:
    """Means in s; the difference in percent with its 95 % intervals, by Welch and by pairs; p of both."""
    mean = statistics.mean(without)
    welch, paired = (
        stats.ttest_ind(with_it, without, equal_var=False),
        stats.ttest_rel(with_it, without),
    )
    by_welch, by_pairs = welch.confidence_interval(0.95), paired.confidence_interval(0.95)
    return {
        "without_s": mean,
        "with_s": statistics.mean(with_it),
        "overhead_percent": 100 * (statistics.mean(with_it) - mean) / mean,
        "low_percent": 100 * by_welch.low / mean,
        "high_percent": 100 * by_welch.high / mean,
        "paired_low_percent": 100 * by_pairs.low / mean,
        "paired_high_percent": 100 * by_pairs.high / mean,
        "p": float(welch.pvalue),
        "paired_p": float(paired.pvalue),
    }


def overhead(cores: Sequence[int], runs: int, seconds: float) -> dict[str, dict[str, float]]:
    """What is ``compared`` of both of ``Times``."""
    work, draw = Work(cores), random.Random(20)
    command = [sys.executable, "-m", "chimbuko", "monitor", "--pid", str(work.process.pid)]
    monitor = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    found: dict[bool, list[Times]] = {False: [], True: []}
    # Meanwhile it finds its core, and looks at all threads closely.
    loops = 1000
    for _ in range(SETTLING):
        loops = max(1, round(loops * seconds / work.times(loops).wall_s))
    for _ in range(runs):
        for is_with in draw.sample([False, True], 2):
            monitor.send_signal(signal.SIGCONT if is_with else signal.SIGSTOP)
            found[is_with].append(work.times(loops))
    monitor.send_signal(signal.SIGCONT)
    work.close()
    monitor.wait()
    return {
        name: compared(
            [getattr(one, name) for one in found[False]], [getattr(one, name) for one in found[True]]
        )
        for name in Times._fields
    }


@contextmanager
def started(program: str, *arguments: str) -> Iterator[int]:
    """The number of a process that has said that it runs."""
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def sample_cost(threads: int) -> dict[str, float]:
    """CPU time of a period, in µs, of a program of so many threads that all run between two of them: of
    `chimbuko monitor`, and of the agent of a live run. The median of some means: where in memory things lie
    makes a tenth of it.
    """
    rounds = [_sample_cost(threads) for _ in range(ROUNDS)]
    medians = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    return {"threads": threads, **medians}


def _sample_cost(threads: int) -> dict[str, float]:
    with started(WAKING, str(threads)) as pid:
        watch, collector = Watch([pid]), Collector("node")
        collector.watch(Watched(pid, 0, 0))
        found = {
            name: statistics.mean(_costs_us(one))
            for name, one in (("monitor", watch.step), ("agent", collector.period))
        }
        watch.close()
        collector.close()
    return {f"{name}_us": cost_us for name, cost_us in found.items()}


def _costs_us(step: Callable[[], object]) -> list[float]:
    costs = []
    for _ in range(FIRST + TURNS * CLOSE_LOOK):
        time.sleep(0.3)
        began = time.thread_time_ns()
        step()
        costs.append((time.thread_time_ns() - began) / 1000)
    return costs[FIRST:]


def fast_cost() -> float:
    """CPU time, in µs, that the fast samples of an agent take in a second of a program that computes."""
    with started(COMPUTING) as pid:
        collector = Collector("node")
        collector.watch(Watched(pid, 0, 0))
        for _ in range(2):
            collector.period()
            time.sleep(0.5)
        collector.costs.fast_us = 0
        end_s = time.monotonic() + FAST_FOR_S
        while time.monotonic() < end_s:
            collector.fast(time.time_ns() // 1000)
            time.sleep(collector.fast_s)
        cost_us = collector.costs.fast_us / FAST_FOR_S
        collector.close()
    return cost_us


def gpu_cost() -> float | None:
    """Mean CPU time, in µs, of one look at all GPUs of this machine; None where none can be read."""
    gpus = present_gpus()
    cost_us = statistics.mean(_costs_us(gpus.read)) if gpus.read() else None
    gpus.close()
    return cost_us


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=60, help="runs of each kind")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a run")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    # As in the monitor's own process.
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    costs, fast_us, gpu_us = [sample_cost(threads) for threads in THREADS], fast_cost(), gpu_cost()
    found = {
        count: overhead(cores[-count:], options.runs, options.seconds)
        for count in (1, 2)
        if count <= len(cores)
    }
    if options.json:
        samples = {"samples": costs, "fast_us_per_s": fast_us, "gpus_us": gpu_us}
        print(json.dumps({"overhead": found, **samples}))
        return
    for count, both in found.items():
        for name, one in both.items():
            what = "CPU time" if name == "cpu_s" else "time"
            print(
                f"{count} busy, {what}: {one['without_s']:.3f} s without, "
                f"{one['with_s']:.3f} s with: {one['overhead_percent']:+.2f} % "
                f"({one['low_percent']:+.2f} to {one['high_percent']:+.2f}, by pairs "
                f"{one['paired_low_percent']:+.2f} to {one['paired_high_percent']:+.2f}), "
                f"p = {one['p']:.3f}, by pairs {one['paired_p']:.3f}"
            )
    for cost in costs:
        print(
            f"{cost['threads']} threads: {cost['monitor_us'] / 1000:.2f} ms of CPU a period, "
            f"{cost['agent_us'] / 1000:.2f} ms in an agent"
        )
    print(f"fast samples of an agent: {fast_us / 1000:.2f} ms of CPU a second")
    if gpu_us is not None:
        print(f"its GPUs: {gpu_us / 1000:.2f} ms of CPU more a period")


if __name__ == "__main__":
    main()
