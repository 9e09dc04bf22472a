"""What the monitor costs a program: interleaved runs with and without it, and CPU time of its samples.

    python benchmarks/monitor.py [--runs 10] [--seconds 3] [--json]

A fixed amount of work runs on one core and on two, with and without `chimbuko monitor` in turns; Welch's test
says whether the means differ, and between what the difference lies (95 %). A period is all that the monitor
does in one, for a program whose threads all wake up between two of them. On a machine that has other work the
times are not figures. With the defaults it takes some four minutes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from scipy import stats

from chimbuko.monitor.sampling.threadreader import CLOSE_LOOK
from chimbuko.monitor.sampling.watch import Watch

MONITOR = (sys.executable, "-m", "chimbuko", "monitor", "--")
WORK = """
import os, sys, time
core, loops = map(int, sys.argv[1:])
os.sched_setaffinity(0, {core})
began = time.perf_counter()
for _ in range(loops):
    sum(range(10_000))
# In one piece: two of them write into one pipe.
sys.stdout.write(f"{time.perf_counter() - began}\\n")
"""
ON_CORES = """
import subprocess, sys
work, loops, *cores = sys.argv[1:]
ranks = [subprocess.Popen([sys.executable, "-c", work, core, loops]) for core in cores]
sys.exit(max(rank.wait() for rank in ranks))
"""
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
THREADS = (32, 256)
FIRST, TURNS = 10, 2
"""Samples that do not count, since at first all threads are looked at closely; and how often it is the turn
of each of them in those that do."""


def slowest_s(before: Sequence[str], loops: int, cores: Sequence[int]) -> float:
    """Time of the slowest process that works on these cores, its start left out."""
    command = [*before, sys.executable, "-c", ON_CORES, WORK, str(loops), *map(str, cores)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return max(map(float, done.stdout.split()))


def overhead(cores: Sequence[int], runs: int, seconds: float) -> dict[str, float]:
    """Means with and without, in s; the difference and its 95 % interval in percent; Welch's p."""
    loops = max(1, round(1000 * seconds / slowest_s((), 1000, cores)))
    without, with_it = [], []
    for _ in range(runs):
        without.append(slowest_s((), loops, cores))
        with_it.append(slowest_s(MONITOR, loops, cores))
    test = stats.ttest_ind(with_it, without, equal_var=False)
    interval = test.confidence_interval(0.95)
    mean = statistics.mean(without)
    return {
        "cores": len(cores),
        "without_s": mean,
        "with_s": statistics.mean(with_it),
        "overhead_percent": 100 * (statistics.mean(with_it) - mean) / mean,
        "low_percent": 100 * interval.low / mean,
        "high_percent": 100 * interval.high / mean,
        "p": float(test.pvalue),
    }


def sample_cost(threads: int) -> dict[str, float]:
    """Mean CPU time of a period, in µs, of a program of so many threads that all run between two of them."""
    command = [sys.executable, "-c", WAKING, str(threads)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        watch = Watch([program.pid])
        watch.step()
        costs = []
        for _ in range(FIRST + TURNS * CLOSE_LOOK):
            time.sleep(0.3)
            began = time.thread_time_ns()
            watch.step()
            costs.append((time.thread_time_ns() - began) / 1000)
        watch.close()
        program.kill()
    return {"threads": threads, "sample_us": statistics.mean(costs[FIRST:])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=10, help="runs of each kind")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a run")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    # As in the monitor's own process.
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    costs = [sample_cost(threads) for threads in THREADS]
    found = [
        overhead(cores[-count:], options.runs, options.seconds) for count in (1, 2) if count <= len(cores)
    ]
    if options.json:
        print(json.dumps({"overhead": found, "samples": costs}))
        return
    for one in found:
        print(
            f"{one['cores']} busy: {one['without_s']:.3f} s without, {one['with_s']:.3f} s with: "
            f"{one['overhead_percent']:+.2f} % ({one['low_percent']:+.2f} to {one['high_percent']:+.2f}), "
            f"p = {one['p']:.3f}"
        )
    for cost in costs:
        print(f"{cost['threads']} threads: {cost['sample_us'] / 1000:.2f} ms of CPU a period")


if __name__ == "__main__":
    main()
