"""Annotated programs: what is in their trace files, and in their streams."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.instrument.tracer.traced_program import environment, read_whole, run_traced, write_program
from tests.patience import PATIENCE_S

Events = list[dict[str, Any]]

SMOKE = """
    from chimbuko.annotations import critical_path

    @critical_path(pointcut="around")
    def bas(): pass

    @critical_path()
    def bar(): bas()

    @critical_path
    def foo(): bar()

    for _ in range(4): foo()
"""
"""PerfFlowAspect's smoke test: four times foo, which calls bar, which calls bas."""


def run(
    folder: Path, text: str, options: str | None, own: bool = False, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program, in a process group of its ``own``."""
    chosen = {} if options is None else {"PERFFLOW_OPTIONS": options}
    return subprocess.run(
        [sys.executable, str(write_program(folder, text))],
        cwd=folder,
        env=environment(**chosen, **variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        start_new_session=own,
    )


def events_of(folder: Path) -> Events:
    """Of the one trace file."""
    (path,) = folder.glob("*.pfw")
    found = json.loads(path.read_text())
    events: Events = found["traceEvents"] if isinstance(found, dict) else found
    return events


def annotated(folder: Path, text: str, options: str = "") -> Events:
    done = run(folder, text, options)
    assert (done.returncode, done.stderr) == (0, "")
    return events_of(folder)


@pytest.mark.parametrize("form", ["Array", "Object"])
def test_the_smoke_test_gives_24_events_or_12(tmp_path: Path, form: str) -> None:
    verbose, compact = tmp_path / "verbose", tmp_path / "compact"
    for folder in (verbose, compact):
        folder.mkdir()
    events = annotated(verbose, SMOKE, f"log-format={form}")
    assert [(e["name"], e["ph"]) for e in events] == 4 * [
        *((name, "B") for name in ("foo", "bar", "bas")),
        *((name, "E") for name in ("bas", "bar", "foo")),
    ]
    assert {*events[0]} == {"name", "cat", "pid", "tid", "ts", "ph"} and events[0]["cat"] == "__main__"
    assert abs(events[0]["ts"] - 1e6 * time.time()) < 60e6
    compacted = annotated(compact, SMOKE, f"log-format={form}:log-event=Compact")
    assert [(e["name"], e["ph"]) for e in compacted] == 4 * [(name, "X") for name in ("bas", "bar", "foo")]
    (bas, bar, foo) = compacted[:3]
    for inner, outer in ((bas, bar), (bar, foo)):
        assert outer["ts"] <= inner["ts"]
        assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1


@pytest.mark.parametrize(
    ("pointcut", "verbose", "compact"),
    [
        ("around", "BE", "X"),
        ("before", "B", "B"),
        ("after", "E", "E"),
        ("around_async", "be", "be"),
        ("before_async", "b", "b"),
        ("after_async", "e", "e"),
    ],
)
def test_what_each_pointcut_writes(tmp_path: Path, pointcut: str, verbose: str, compact: str) -> None:
    text = f"""
        from chimbuko.annotations import critical_path

        @critical_path(pointcut="{pointcut}", scope="here")
        def work(n):
            "What it does."
            if n == 2: raise KeyError(n)
            return n + 1

        print(work(1), work.__name__, work.__doc__)
        try: work(2)
        except KeyError: print("raised")
    """
    for options, phases in (("", verbose), ("log-event=Compact", compact)):
        folder = tmp_path / (options or "verbose")
        folder.mkdir()
        done = run(folder, text, options)
        assert (done.stdout, done.stderr) == ("2 work What it does.\nraised\n", "")
        events = events_of(folder)
        assert "".join(e["ph"] for e in events) == 2 * phases
        if pointcut.endswith("async"):
            assert {e["scope"] for e in events} == {"here"}
            assert len({e["id"] for e in events}) == 2


def test_nothing_is_in_the_way_of_a_program_that_nobody_watches(tmp_path: Path) -> None:
    text = """
        from chimbuko.annotations import async_event, critical_path, sync_event

        def work(): return 7
        assert critical_path(work) is critical_path(pointcut="after", flow="out")(work) is work
        sync_event("before", "block", "main")
        async_event("after", "block", "main")
        print(work())
    """
    for options in (None, "log-enable=False"):
        done = run(tmp_path, text, options)
        assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")
    assert not [*tmp_path.glob("*.pfw")]


def test_options_without_sense_are_one_line_and_the_program_runs(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "from chimbuko.annotations import critical_path\nprint(critical_path(len))",
        "log-event=No",
    )
    assert (done.returncode, done.stdout) == (0, "<built-in function len>\n")
    assert done.stderr == (
        "chimbuko: PERFFLOW_OPTIONS: log-event is verbose or compact, not 'No'; annotations are not written\n"
    )


def test_a_pointcut_that_does_not_exist_is_refused_where_it_stands(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "from chimbuko.annotations import critical_path\n@critical_path('arund')\ndef f(): 0",
        None,
    )
    assert done.returncode == 1 and "not 'arund'" in done.stderr.splitlines()[-1]


def test_manual_events(tmp_path: Path) -> None:
    events = annotated(
        tmp_path,
        """
        from chimbuko.annotations import async_event, sync_event

        sync_event("before", "block", "main")
        async_event("before", "request", "net", scope="s", id=5)
        async_event("instant", "request", "net")
        async_event("after", "request", "net", scope="s", id=5)
        sync_event("after", "block", "main")
        """,
    )
    assert [e["ph"] for e in events] == ["B", "b", "n", "e", "E"]
    assert [(e.get("scope"), e.get("id")) for e in events[1:4]] == [("s", 5), (None, 123), ("s", 5)]


BLOCKS = """
    from chimbuko.annotations import critical_path, region

    @critical_path
    def solve():
        with region("assemble"), region("assemble", "grid"): pass

    solve()
    try:
        with region("fail"): raise ValueError
    except ValueError: pass
"""


def test_blocks_are_calls_of_their_module(tmp_path: Path) -> None:
    for number, (options, phases) in enumerate((("", "BBBEEEBE"), ("log-event=Compact", "XXXX"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        events = annotated(folder, BLOCKS, options)
        assert "".join(e["ph"] for e in events) == phases
        assert Counter((e["name"], e["cat"]) for e in events if e["ph"] in "EX") == {
            ("solve", "__main__"): 1,
            ("assemble", "__main__"): 1,
            ("assemble", "grid"): 1,
            ("fail", "__main__"): 1,
        }


def test_annotated_calls_are_regions_of_caliper(tmp_path: Path) -> None:
    """As far as its package sees it; without the package a line says so, and all else is as it was."""
    done = run(tmp_path, BLOCKS, "caliper-enable=True")
    assert done.returncode == 0 and "PERFFLOW_OPTIONS: caliper-enable needs pycaliper" in done.stderr
    assert len(events_of(tmp_path)) == 8
    package = tmp_path / "pycaliper"
    package.mkdir()
    (package / "__init__.py").touch()
    calls = "def begin_region(name): print('+', name)\ndef end_region(name): print('-', name)\n"
    (package / "instrumentation.py").write_text(calls)
    more = """
        from chimbuko.annotations import sync_event

        @critical_path
        def numbers(): yield

        sync_event("before", "block", "main")
        list(numbers())
        sync_event("after", "block", "main")
    """
    done = run(
        tmp_path, textwrap.dedent(BLOCKS) + textwrap.dedent(more), "caliper-enable=True:log-enable=False"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.replace("\n", " ") == (
        "+ solve + assemble + assemble - assemble - assemble - solve + fail - fail "
        "+ block + numbers - numbers + numbers - numbers - block "
    )


def test_flows_join_who_hands_on_and_who_takes(tmp_path: Path) -> None:
    events = annotated(
        tmp_path,
        """
        from chimbuko.annotations import critical_path

        @critical_path(flow="out")
        def make(): pass
        @critical_path(flow="inout")
        def change(): pass
        @critical_path(flow="in")
        def use(): pass

        make(); make(); change(); use(); use(); use()
        """,
    )
    flows = [(e["ph"], e["id"]) for e in events if e["name"] == "flow"]
    first, second, third = (number for phase, number in flows if phase == "s")
    assert flows == [
        *(("s", first), ("s", second), ("f", first), ("s", third)),
        *(("f", second), ("f", third)),
    ]


def test_processor_time_and_memory_of_a_call(tmp_path: Path) -> None:
    events = annotated(
        tmp_path,
        """
        import time
        from chimbuko.instrument.annotations import critical_path

        @critical_path
        def spin():
            end = time.thread_time() + 0.3
            while time.thread_time() < end: sum(range(10_000))
        @critical_path
        def sleep(): time.sleep(0.2)

        spin(); sleep()
        """,
        "cpu-mem-usage=True:log-event=Compact",
    )
    assert "".join(e["ph"] for e in events) == "CCXCCX"
    spin, none, call, sleep = events[:4]
    assert spin["ts"] == call["ts"] and spin["name"] == call["name"] == "spin"
    for share in ("cpu_usage", "thread_cpu_usage"):
        # On a busy machine the wall time is longer, but not this.
        assert 0.2e6 < spin["args"][share] / 100 * call["dur"] < 0.5e6
        assert sleep["args"][share] / 100 * events[5]["dur"] < 0.1e6
    assert spin["args"]["memory_usage"] > 5000
    assert none["args"] == {"cpu_usage": 0, "system_cpu_usage": 0, "memory_usage": 0, "thread_cpu_usage": 0}


def test_memory_of_a_call_in_a_program_that_closes_all_descriptors(tmp_path: Path) -> None:
    events = annotated(
        tmp_path,
        """
        import os
        from chimbuko.instrument.annotations import critical_path

        @critical_path
        def work(): pass

        work()
        os.closerange(3, 1 << 16)
        mine = os.open("mine", os.O_RDWR | os.O_CREAT)
        for number in range(4, 300): os.dup2(mine, number)
        work()
        """,
        "cpu-mem-usage=True:log-event=Compact",
    )
    assert "".join(e["ph"] for e in events) == "CCXCCX"
    assert events[3]["args"]["memory_usage"] > 5000


def test_recursion_threads_and_forks(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import multiprocessing, os, threading
        from chimbuko.instrument.annotations import critical_path

        @critical_path
        def down(n):
            if n: down(n - 1)

        if __name__ == "__main__":
            down(3)
            threads = [threading.Thread(target=down, args=(9,)) for _ in range(3)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            child = multiprocessing.get_context("fork").Process(target=down, args=(4,))
            child.start(); child.join()
            print(os.getpid(), child.pid)
        """,
        "log-event=Compact:log-filename-include=pid",
    )
    assert done.stderr == ""
    parent, child = done.stdout.split()
    of_parent, of_child = (
        Counter(e["tid"] for e in json.loads((tmp_path / f"perfflow.array.{pid}.pfw").read_text()))
        for pid in (parent, child)
    )
    assert sorted(of_parent.values()) == [4, 10, 10, 10] and of_parent[int(parent)] == 4
    assert of_child == {int(child): 5}


@pytest.mark.parametrize(("method", "begins_early"), [("forkserver", True), ("fork", False)])
def test_children_that_are_the_first_to_annotate_end_their_files(
    tmp_path: Path, method: str, begins_early: bool
) -> None:
    imported = "from chimbuko.annotations import critical_path"
    done = run(
        tmp_path,
        f"""
        import multiprocessing
        {imported if begins_early else ""}

        def work():
            {imported}
            critical_path(print)("worked", flush=True)

        if __name__ == "__main__":
            child = multiprocessing.get_context("{method}").Process(target=work)
            child.start(); child.join()
        """,
        "log-event=Compact",
    )
    assert (done.stdout, done.stderr) == ("worked\n", "")
    assert [e["name"] for e in events_of(tmp_path)] == ["print"]


def test_the_file_is_whole_whenever_the_program_is_killed(tmp_path: Path) -> None:
    program = write_program(
        tmp_path,
        """
        from chimbuko.annotations import critical_path

        import time

        @critical_path
        def work(): time.sleep(0.001)
        while True: work()
        """,
    )
    process = subprocess.Popen(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env=environment(PERFFLOW_OPTIONS=""),
        stdout=subprocess.DEVNULL,
    )
    try:
        sizes: set[int] = set()
        while len(sizes) < 4:
            time.sleep(0.05)
            sizes |= {path.stat().st_size for path in tmp_path.glob("*.pfw")}
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    phases = Counter(e["ph"] for e in until_whole(tmp_path))
    assert phases["B"] - phases["E"] in (0, 1)


def until_whole(folder: Path) -> Events:
    """Of the one trace file, which another process may be about to write."""
    while True:
        with suppress(json.JSONDecodeError):
            return events_of(folder)


LONG = """
    import glob, os, signal, sys, time
    from chimbuko.instrument.annotations import aspects, critical_path

    @critical_path
    def work(): time.sleep(0.001)

    def work_until(is_so):
        count = 0
        while not is_so():
            work()
            count += 1
        return count

    def writers():
        "Processes that have the trace file open; other programs have their own."
        found = []
        (file,) = glob.glob(os.path.join(os.getcwd(), "*.pfw"))
        for path in glob.glob("/proc/[0-9]*/fd/*"):
            try:
                if os.readlink(path) == file: found.append(int(path.split("/")[2]))
            except OSError: pass
        return found

    count = work_until(lambda: glob.glob("*.pfw"))
"""
"""What runs until its file is there, which another process writes then."""


@pytest.mark.parametrize("has_process", [True, False])
def test_the_file_has_all_calls_whoever_writes_it(tmp_path: Path, has_process: bool) -> None:
    text = "import sys\nsys.executable = ''" if not has_process else ""
    done = run(
        tmp_path,
        text
        + textwrap.dedent(LONG)
        + textwrap.dedent(
            """
            print(os.getpid() in writers())
            try: os.wait()
            except ChildProcessError: print("no child")
            print(count + work_until(lambda: True))
            """
        ),
        "",
    )
    is_own, wait, count = done.stdout.splitlines()
    assert (is_own, wait, done.stderr) == (str(not has_process), "no child", "")
    assert Counter(e["ph"] for e in events_of(tmp_path)) == {"B": int(count), "E": int(count)}


def test_a_killed_writer_or_closed_descriptors_end_the_file_and_not_the_program(tmp_path: Path) -> None:
    ends = {
        "the process that writes it was killed": """
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            (writer,) = writers()
            os.kill(writer, signal.SIGKILL)
        """,
        "the program has closed it": """
            os.closerange(3, 1 << 16)
            mine = os.open("mine", os.O_RDWR | os.O_CREAT)
            for number in range(4, 300): os.dup2(mine, number)
        """,
    }
    for number, (why, end) in enumerate(ends.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        last = """
            work_until(lambda: aspects._file._has_failed)
            print(os.path.exists("mine") and os.path.getsize("mine"))
        """
        done = run(folder, "".join(map(textwrap.dedent, (LONG, end, last))), "")
        assert (done.returncode, done.stdout) == (0, ("False\n", "0\n")[number])
        (line,) = done.stderr.splitlines()
        assert line.endswith(f".pfw: {why}; annotations are not written any more")
        assert until_whole(folder)


def test_ctrl_c_leaves_the_file_whole(tmp_path: Path) -> None:
    done = run(tmp_path, textwrap.dedent(LONG) + "os.killpg(0, signal.SIGINT); time.sleep(60)", "", own=True)
    assert done.returncode == -signal.SIGINT and done.stderr.endswith("KeyboardInterrupt\n")
    phases = Counter(e["ph"] for e in events_of(tmp_path))
    assert phases["B"] == phases["E"] > 0


def test_a_full_disk_ends_the_file_and_not_the_program(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import glob, resource, signal, time
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
        from chimbuko.instrument.annotations import critical_path

        @critical_path
        def work(): pass
        work()
        while not glob.glob("*.pfw"): time.sleep(0.01)
        for _ in range(500): work()
        print("done")
        """,
        "",
    )
    assert (done.returncode, done.stdout) == (0, "done\n")
    (line,) = done.stderr.splitlines()
    assert "annotations are not written any more" in line
    assert len(events_of(tmp_path)) > 0


ASYNC = """
    import asyncio
    from chimbuko.instrument.annotations import critical_path

    @critical_path(pointcut="{pointcut}")
    async def fetch(n):
        await asyncio.sleep(0.02 * n)
        if n == 3: raise OSError(n)
        return n

    @critical_path
    def numbers(most):
        for n in range(most):
            got = yield n
        return "over"

    @critical_path
    async def stream():
        for n in range(2):
            yield n
            await asyncio.sleep(0.001)

    async def main():
        print(await asyncio.gather(*(fetch(n) for n in (1, 2, 3)), return_exceptions=True))
        print([n async for n in stream()])

    asyncio.run(main())
    print(list(numbers(3)))
"""


def test_coroutines_and_generators_are_calls_by_turns_or_as_a_whole(tmp_path: Path) -> None:
    for pointcut, phases in (("around", "BE"), ("around_async", "be")):
        folder = tmp_path / pointcut
        folder.mkdir()
        done = run(folder, ASYNC.format(pointcut=pointcut), "")
        assert done.stdout == "[1, 2, OSError(3)]\n[0, 1]\n[0, 1, 2]\n" and done.stderr == ""
        events = events_of(folder)
        counts = Counter((e["name"], e["ph"]) for e in events)
        # Twice each: until it sleeps, and from then on.
        assert [counts["fetch", phase] for phase in phases] == ([6, 6] if pointcut == "around" else [3, 3])
        assert counts["numbers", "B"] == counts["numbers", "E"] == 4
        stack: list[str] = []
        for event in events:
            if event["ph"] == "B":
                stack.append(event["name"])
            elif event["ph"] == "E":
                assert stack.pop() == event["name"]
        assert stack == []


def test_annotated_functions_are_calls_of_the_stream_alone_or_beside_all_others(tmp_path: Path) -> None:
    text = """
        from chimbuko.annotations import critical_path, region, sync_event

        @critical_path(pointcut="before")
        def solve(): helper()

        def helper(): pass

        @critical_path
        def numbers():
            yield 1
            yield 2

        for _ in range(3): solve()
        sync_event("before", "block", "main")
        assert sum(numbers()) == 3
        sync_event("after", "block", "main")
        with region("part"): pass
    """
    for options, helpers in (((), 3), (("--annotated-only",), 0)):
        folder = tmp_path / f"with{len(options)}"
        folder.mkdir()
        done = run_traced(write_program(folder, text), *options, PERFFLOW_OPTIONS="log-event=Compact")
        assert (done.returncode, done.stderr) == (0, "")
        counts = read_whole(folder / "tau-metrics-program-0.bp").counts()
        assert (counts["solve"], counts["helper"], counts["numbers"]) == (3, helpers, 3)
        assert counts["block"] == counts["part"] == 1
        assert Counter(e["ph"] for e in events_of(folder)) == {"B": 3 + 1, "E": 1, "X": 3 + 1}
