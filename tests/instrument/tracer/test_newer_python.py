"""Processes of a Python that monitors functions (3.12 and newer): their calls are those of an older one."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.instrument.tracer.test_children import streams
from tests.instrument.tracer.traced_program import Stream, run_traced, write_program
from tests.newerpython import newer_python

CHILD = """
    import _thread, asyncio, cProfile, json, threading, time

    def leaf(): pass

    def fail(n):
        if n: fail(n - 1)
        raise ValueError

    def numbers():
        try:
            yield 1
            yield 2
        except KeyError:
            yield 3

    async def task():
        await asyncio.sleep(0)
        leaf()

    async def tasks():
        await asyncio.gather(task(), task())

    class Solver:
        def step(self):
            return [leaf() for _ in range(3)]

    def work():
        Solver().step()

    def main():
        json.dumps([1])
        try: fail(2)
        except ValueError: pass
        list(numbers())
        thrown = numbers()
        next(thrown)
        thrown.throw(KeyError)
        thrown.close()
        asyncio.run(tasks())
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    main()
    time.sleep(0.1)
"""
RAW_THREAD = """
    def other():
        leaf()
        ended.release()

    ended = _thread.allocate_lock()
    for _ in range(3):
        ended.acquire()
        _thread.start_new_thread(other, ())
        ended.acquire()
        ended.release()
        time.sleep(0.3)
    cProfile.run("leaf()", "profile")
    leaf()
    time.sleep(0.1)
"""


def children(folder: Path, text: str, pythons: list[str], *options: str) -> list[Stream]:
    """Streams of a program that is run by each of some Pythons."""
    write_program(folder, text, "child.py")
    starts = f"import subprocess\nfor python in {pythons!r}: subprocess.run([python, 'child.py'], check=True)"
    done = run_traced(write_program(folder, starts), *options)
    assert done.returncode == 0
    # At the limit of recursion a collection cannot call the recorder of pauses, and Python says so.
    is_known = "Pauses._collected" in done.stderr and "RecursionError" in done.stderr
    assert done.stderr == "" or is_known, done.stderr
    return [*streams(folder).values()][1:]


def calls_by_thread(stream: Stream) -> dict[int, list[tuple[str, int]]]:
    """Names and depths of calls in the order of each thread, or task: rows of several have none in a step."""
    found: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for call in stream.calls():
        found[call.thread].append((call.name, call.depth))
    return found


def test_calls_are_the_same_in_a_newer_python(tmp_path: Path) -> None:
    older, newer = children(tmp_path, CHILD, [sys.executable, newer_python()])
    assert calls_by_thread(newer) == calls_by_thread(older)
    assert {"fail": 3, "leaf": 5, "task": 2, "Solver.step": 1}.items() <= newer.counts().items()
    assert newer.open_timers() == []


@pytest.mark.thorough
def test_threads_of_any_kind_and_a_profiler_of_the_programs_own(tmp_path: Path) -> None:
    (stream,) = children(tmp_path, CHILD.rstrip() + RAW_THREAD, [newer_python()])
    assert (stream.counts()["other"], stream.counts()["leaf"]) == (3, 5 + 3 + 2)
    assert len({call.thread for call in stream.calls() if call.name == "other"}) < 3
    assert stream.open_timers() == []


@pytest.mark.thorough
def test_all_functions_that_there_are_can_be_included(tmp_path: Path) -> None:
    (stream,) = children(tmp_path, CHILD, [newer_python()], "--include", "*")
    counts = stream.counts()
    assert counts["leaf"] == 5 and counts["dumps"] == 1 and counts["Thread._bootstrap"] == 1
    assert counts["Recorder._hand_over"] == 0
