"""Processes of a Python that monitors functions (3.12 and newer): their calls are those of an older one."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.instrument.tracer.test_children import streams
from tests.instrument.tracer.traced_program import Stream, read_whole, run_traced, write_program
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
    assert done.stderr == ""
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


def test_program_of_another_python_is_recorded_where_that_is_traced(tmp_path: Path) -> None:
    """It has nothing of this package, keeps its options, and is the first of its family."""
    text = """
        import os, subprocess, sys, time
        def leaf(): pass
        if "child" in sys.argv:
            for _ in range(3): leaf()
            time.sleep(0.2)
            sys.exit()
        def main():
            leaf()
            subprocess.run([sys.executable, __file__, "child"])
        main()
        print(sys.version_info[:2], sys.flags.dont_write_bytecode, sys.argv)
        print("CHIMBUKO_FAMILY_FIRST" in os.environ)
        sys.exit(3)
    """
    program = write_program(tmp_path, text)
    python = newer_python()
    done = run_traced(Path(python), "--rank", "2", arguments=["-B", str(program), "-m"], folder=tmp_path)
    version = tuple(int(part) for part in python.rpartition("python")[2].split("."))
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout == f"{version} 1 {[str(program), '-m']}\nFalse\n"
    first, child = (read_whole(tmp_path / f"tau-metrics{number}-program-2.bp") for number in ("", ".1"))
    assert {"main": 1, "leaf": 1, "<module>": 1}.items() <= first.counts().items()
    assert first.open_timers() == []
    assert child.counts()["leaf"] == 3
    assert (2, 0, "Parent Process") not in first.names.metadata
    assert first.names.metadata[2, 0, "Python Version"].startswith(".".join(map(str, version)))


def test_python_that_cannot_be_recorded_is_said_to_be_so(tmp_path: Path) -> None:
    program = write_program(tmp_path, "print('ran')")
    done = run_traced(Path(sys.executable), arguments=["-I", str(program)], folder=tmp_path)
    assert done.stdout == "ran\n"
    assert done.stderr == "chimbuko: under Python's option -I nothing is recorded; leave it out\n"
    old = [*Path.home().glob(".pyenv/versions/3.[0-9].*/bin/python3.[0-9]")]
    if not old:
        pytest.skip("there is no Python before 3.11")
    done = run_traced(old[0], arguments=[str(program)], folder=tmp_path)
    assert done.stdout == "ran\n"
    assert done.stderr.count("\n") == 1 and "take 3.11 or newer" in done.stderr
    assert not list(tmp_path.glob("*.bp"))


COLLECTING = """
    import gc, sys
    gc.set_threshold(1)
    sys.setrecursionlimit(200)
    class Node: pass
    def down():
        nodes = [Node() for _ in range(3)]
        nodes.append(nodes)
        down()
    for _ in range(20):
        try: down()
        except RecursionError: pass
    sys.setrecursionlimit(1000)
    gc.set_threshold(0)
    nodes = [[[]] for _ in range(400_000)]
    gc.collect()
"""


def test_collections_at_the_limit_of_recursion_are_silent(tmp_path: Path) -> None:
    for stream in children(tmp_path, COLLECTING, [sys.executable, newer_python(13, 12)]):
        assert stream.counts()["down"] > 200
        # Long ones elsewhere are recorded.
        assert "Garbage collection: generation 2" in stream.names.counters.values()


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
