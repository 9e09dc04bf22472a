"""Time in functions by thread: what is added up, what is handed on, and what is not."""

from __future__ import annotations

import pickle

import numpy as np

from chimbuko.ad.calls.callpaths import CallPaths, UsualRuntimes, busiest
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.calls.threadtimes import MOST_THREADS, ThreadTimes
from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.calls.pathtable import THREAD_PATH_TIME
from chimbuko.core.traceschema import TraceStep
from tests.reference.traces import RANK, made_names

NO_ROWS = np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64)
Times = dict[int, dict[int, tuple[int, float]]]


def times_of(lengths_us: dict[int, dict[int, int]], steps: int = 4, gpu: int = NONE) -> Times:
    """Return calls and time by function and thread of a stream: in each step each thread calls each function
    30 times, which takes it so long.
    """
    stacks, paths, times = CallStacks(RANK), CallPaths(), ThreadTimes()
    for number in range(steps):
        rows = []
        for thread, functions in lengths_us.items():
            now_us = 1_000_000 * (number + 1)
            for function, length_us in 30 * list(functions.items()):
                rows += [
                    [0, RANK, thread, 0, function, now_us],
                    [0, RANK, thread, 1, function, now_us + length_us],
                ]
                now_us += length_us
        rows.sort(key=lambda row: row[5])
        stacks.build(TraceStep(number, np.array(rows, np.uint64), *NO_ROWS), made_names())
        paths.read(stacks, UsualRuntimes(False))
        times.read(stacks)
        times = pickle.loads(pickle.dumps(times))
    rows_of_paths, kept = busiest(paths.times())
    threads = stacks.threads[: stacks.thread_count].copy()
    threads["id"][threads["id"] == gpu] = NONE
    found: Times = {}
    unequal = times.unequal(rows_of_paths["function"], kept, threads)
    for thread, path, calls, us in np.asarray(unequal, THREAD_PATH_TIME).tolist():
        found.setdefault(int(rows_of_paths["function"][path]), {})[thread] = calls, us
    return found


def test_threads_that_take_unequally_long() -> None:
    found = times_of({0: {1: 100, 2: 50}, 3: {1: 100, 2: 51}, 7: {1: 230, 2: 50}})
    calls = {thread: one[0] for thread, one in found[1].items()}
    means_us = {thread: us / calls for thread, (calls, us) in found[1].items()}
    assert means_us == {0: 100.0, 3: 100.0, 7: 230.0}
    # The first call of each thread is doubtful.
    assert calls == {0: 119, 3: 119, 7: 119}
    assert found.keys() == {NONE, 1}, "all that is alike stands together"
    assert [us / calls for calls, us in found[NONE].values()] == [50.0, 51.0, 50.0]


def test_what_is_not_compared() -> None:
    assert times_of({0: {1: 100}, 3: {1: 110}}) == {}, "alike"
    assert times_of({0: {1: 100}, 3: {2: 500}}) == {}, "each its own"
    assert times_of({0: {1: 100, 2: 900}}) == {}, "one thread"
    assert times_of({0: {1: 100}, 3: {1: 900}}, gpu=3) == {}, "a GPU"
    many = {thread: {1: 100} for thread in range(MOST_THREADS)} | {MOST_THREADS: {1: 900}}
    assert times_of(many, steps=1) == {}, "too many threads"
