"""Processes that a traced program forks or starts: each has a stream of its own, and none of them notices."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from chimbuko.core.traceschema import UNTRACED_CHILDREN
from chimbuko.instrument.tracer.writerserver import MOST_AT_A_TIME
from tests.instrument.tracer.traced_program import (
    TRACE,
    Stream,
    environment,
    read_whole,
    run_traced,
    working_in,
    write_program,
)
from tests.patience import PATIENCE_S
from tests.thorough import first


def traced(folder: Path, text: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program, which must not notice: it prints what it does without us."""
    program = write_program(folder, text)
    alone = subprocess.run(
        [sys.executable, str(program)], cwd=folder, env=environment(), capture_output=True, text=True
    )
    done = run_traced(program, *options, **variables)
    assert (done.returncode, done.stdout, done.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    return done


def streams(folder: Path) -> dict[int, Stream]:
    """All whole streams of the program, by rank, once no writer is left."""
    give_up = time.monotonic() + PATIENCE_S
    while left := working_in(folder):
        assert time.monotonic() < give_up, left
        time.sleep(0.02)
    found = {}
    for path in folder.glob("tau-metrics*.bp"):
        prefix = path.name.removesuffix("-program-0.bp")
        found[int(prefix.partition(".")[2] or 0)] = read_whole(path)
    return dict(sorted(found.items()))


def metadata(stream: Stream, key: str) -> str:
    return stream.names.metadata.get((0, 0, key), "")


WORK = """
    import os, signal, subprocess, sys, time
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    def work(n):
        for _ in range(3): item()
        return n

    def item(): time.sleep(0.1)
"""


@pytest.mark.parametrize("method", first(1, ["spawn", "fork", "forkserver"]))
def test_processes_of_multiprocessing_are_ranks(tmp_path: Path, method: str) -> None:
    text = f"""{WORK}
    if __name__ == "__main__":
        context = multiprocessing.get_context("{method}")
        processes = [context.Process(target=work, args=(n,)) for n in range(2)]
        for process in processes: process.start()
        for process in processes: process.join()
        print([process.exitcode for process in processes])
    """
    traced(tmp_path, text)
    found = streams(tmp_path)
    assert [*found] == [0, 1, 2]
    for rank in (1, 2):
        assert (found[rank].counts()["work"], found[rank].counts()["item"]) == (1, 3)
        assert found[rank].calls()[-1].name == ".TAU application"
        assert metadata(found[rank], "Parent Process").startswith("rank 0, pid ")
    assert found[0].counts()["work"] == 0
    assert metadata(found[0], UNTRACED_CHILDREN) == ""


@pytest.mark.parametrize("method", first(1, ["forkserver", "fork", "spawn"]))
def test_pools_are_traced_to_their_orderly_end(tmp_path: Path, method: str) -> None:
    text = f"""{WORK}
    if __name__ == "__main__":
        context = multiprocessing.get_context("{method}")
        pool = context.Pool(2)
        print(pool.map(work, range(6), chunksize=1))
        pool.close()
        pool.join()
        with ProcessPoolExecutor(2, context) as executor:
            print(list(executor.map(work, range(6))))
    """
    traced(tmp_path, text)
    found = streams(tmp_path)
    assert sum(stream.counts()["item"] for stream in found.values()) == 36
    assert all(stream.open_timers() == [] for stream in found.values())


def test_programs_of_the_same_interpreter_and_their_children_are_ranks(tmp_path: Path) -> None:
    forks = "if os.fork() == 0: work(1); sys.exit()"
    write_program(tmp_path, f"{WORK}    work(0)\n    {forks}\n    os.wait()", "other.py")
    traced(tmp_path, "import subprocess, sys\nsubprocess.run([sys.executable, 'other.py'])")
    found = streams(tmp_path)
    assert [stream.counts()["work"] for stream in found.values()] == [0, 1, 1]
    assert metadata(found[1], "Parent Process").startswith("rank 0, pid ")
    assert metadata(found[2], "Parent Process") == f"rank 1, pid {metadata(found[1], 'pid')}"
    assert {stream.names.program for stream in found.values()} == {"program"}


def test_options_hold_in_children(tmp_path: Path) -> None:
    child = "import json, time; json.dumps([1]); len([]); time.sleep(0.1)"
    text = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])"
    traced(tmp_path, text, "--include", "json.dumps")
    assert streams(tmp_path)[1].counts()["dumps"] == 1


def test_what_cannot_be_followed_is_counted_with_its_names(tmp_path: Path) -> None:
    text = """
        import os, subprocess, sys
        for _ in range(2): subprocess.run(["true"])
        subprocess.run([sys.executable, "-I", "-c", "pass"])
        subprocess.run([sys.executable, "-c", "pass"], env={})
        os.posix_spawn("/bin/true", ["false"], {})
        os.wait()
        if os.fork() == 0: os.execv("/bin/true", ["true"])
        os.wait()
    """
    # The first run of a user compiles a library: that is none of the program's.
    traced(tmp_path, text, XDG_CACHE_HOME=str(tmp_path / "cache"))
    (program,) = streams(tmp_path).values()
    python = Path(sys.executable).name
    forked = "1 forked without work for long enough"
    assert metadata(program, UNTRACED_CHILDREN) == f"6 (2 {python}, 2 true, 1 false, {forked})"


def test_calls_that_were_open_at_the_fork_are_the_parents(tmp_path: Path) -> None:
    text = f"""{WORK}
    def outer():
        inner()
        work(1)

    def inner():
        if os.fork():
            os.wait()

    outer()
    """
    traced(tmp_path, text)
    parent, child = streams(tmp_path).values()
    for stream in (parent, child):
        assert stream.counts()["work"] == 1
        assert stream.open_timers() == []
    assert parent.counts()["outer"] == 1
    assert child.counts()["outer"] == child.counts()["inner"] == 0
    assert {call.depth for call in child.calls() if call.name == "work"} == {1}


def test_child_that_is_killed_ends_and_leaves_its_open_calls_open(tmp_path: Path) -> None:
    text = f"""{WORK}
    def wait():
        os.write(is_there, b"x")
        time.sleep(60)

    begun, is_there = os.pipe()
    child = os.fork()
    if child == 0:
        work(1)
        wait()
    os.read(begun, 1)
    # What it has recorded is handed over each 0.1 s.
    time.sleep(0.6)
    os.kill(child, signal.SIGTERM)
    print(os.wait()[1])
    """
    traced(tmp_path, text)
    _, child = streams(tmp_path).values()
    assert child.open_timers() == [next(name for name in child.names.timers.values() if "wait" in name)]
    assert child.events[-1, 3:5].tolist() == [1, 0]
    assert metadata(child, "Ending").startswith("killed")


@pytest.mark.parametrize(
    "end",
    [
        "os._exit(3)",
        "signal.raise_signal(signal.SIGTERM)",
        "os.kill(os.getpid(), signal.SIGKILL)",
        "os.execv('/bin/false', ['false'])",
        "os.execvp('false', ['false'])",
        "os.execlpe('false', 'false', {'PATH': '/nowhere:/bin'})",
    ],
)
def test_end_without_the_interpreters_loses_no_call(end: str, tmp_path: Path) -> None:
    traced(tmp_path, f"{WORK}    work(1)\n    item()\n    {end}")
    (program,) = streams(tmp_path).values()
    assert program.counts()["item"] == 4
    assert program.open_timers() == []


def test_program_that_cannot_become_another_goes_on(tmp_path: Path) -> None:
    tries = "try: os.execvp('no-such-program', ['x'])\n    except FileNotFoundError: work(1)"
    traced(tmp_path, f"{WORK}    {tries}")
    (program,) = streams(tmp_path).values()
    assert program.counts()["item"] == 3


@pytest.mark.thorough
def test_many_short_children_leave_no_stream_and_are_counted(tmp_path: Path) -> None:
    text = """
        import os
        def work(): pass
        for _ in range(200):
            if os.fork() == 0:
                work()
                os._exit(0)
            os.wait()
    """
    traced(tmp_path, text)
    (program,) = streams(tmp_path).values()
    assert metadata(program, UNTRACED_CHILDREN) == "200 (200 forked without work for long enough)"


@pytest.mark.thorough
def test_forks_of_threads_and_beside_threads_are_traced(tmp_path: Path) -> None:
    text = f"""{WORK}
    import threading
    stop = threading.Event()

    def busy():
        while not stop.is_set(): spin()

    def spin(): pass

    def fork():
        if os.fork() == 0:
            work(1)
            time.sleep(0.4)
            os._exit(0 if threading.active_count() == 1 else 1)
        codes.append(os.wait()[1])

    codes = []
    threading.Thread(target=busy).start()
    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
    stop.set()
    print(codes)
    """
    traced(tmp_path, text)
    parent, child = streams(tmp_path).values()
    assert parent.counts()["spin"] > 0 == child.counts()["spin"]
    assert {row[2] for row in child.events.tolist()} == {0}


@pytest.mark.thorough
def test_daemon_that_closes_all_descriptors_keeps_its_files(tmp_path: Path) -> None:
    text = f"""{WORK}
    if os.fork() == 0:
        work(1)
        time.sleep(0.2)
        os.closerange(0, 4096)
        files = [os.open(f"own-{{n}}", os.O_CREAT | os.O_WRONLY) for n in range(300)]
        for _ in range(10): work(1)
        os._exit(0)
    print(os.wait()[1])
    """
    traced(tmp_path, text)
    sizes = {path.stat().st_size for path in tmp_path.glob("own-*")}
    assert sizes == {0}
    assert len(streams(tmp_path)) == 2


def test_programs_own_sitecustomize_and_path_stay(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    write_program(tmp_path / "site", "print('customized')", "sitecustomize.py")
    child = "import sys; print('startup' in str(sys.path), sys.modules['sitecustomize'].__file__)"
    text = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])"
    program = write_program(tmp_path, text)
    path = os.pathsep.join((str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")))
    done = run_traced(program, PYTHONPATH=path)
    *_, before, after = done.stdout.splitlines()
    assert (before, after) == ("customized", f"False {tmp_path}/site/sitecustomize.py")


def test_signals_that_a_program_waits_for_come_to_it(tmp_path: Path) -> None:
    text = """
        import os, signal
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        os.kill(os.getpid(), signal.SIGUSR1)
        print(signal.sigwait({signal.SIGUSR1}) == signal.SIGUSR1)
    """
    traced(tmp_path, text)


def test_no_process_is_a_stranger_to_the_program(tmp_path: Path) -> None:
    """Neither in the program nor in its children."""
    text = f"""{WORK}
    if os.fork() == 0: pass
    else: os.wait()
    work(1)
    time.sleep(0.1)
    try:
        print(os.wait())
    except ChildProcessError:
        pass
    """
    traced(tmp_path, text)
    assert len(streams(tmp_path)) == 2


def test_too_many_at_a_time_are_reported_once(tmp_path: Path) -> None:
    text = f"""{WORK}
    import glob, select
    begin, go = os.pipe()
    children = []
    for _ in range({MOST_AT_A_TIME + 4}):
        children.append(os.fork())
        if children[-1] == 0:
            work(1)
            select.select([begin], [], [])
            os._exit(0)
    while len(glob.glob("tau-metrics*.bp")) < {MOST_AT_A_TIME}: time.sleep(0.05)
    # The others have come by then.
    time.sleep(1)
    os.write(go, b"x")
    print(all(os.waitpid(child, 0)[1] == 0 for child in children))
    """
    done = run_traced(write_program(tmp_path, text))
    assert done.stdout == "True\n"
    # The program itself is one of them.
    assert done.stderr == "chimbuko: 5 child processes were not traced: too many at a time, or in all\n"
    assert len(streams(tmp_path)) == MOST_AT_A_TIME


def test_no_child_has_half_of_a_module_that_a_thread_of_ours_loads(tmp_path: Path) -> None:
    """It forks while our thread, which looks at a still one, is inside its first import."""
    text = f"""{WORK}
    import threading

    is_loading = threading.Event()

    class Slow:
        def find_spec(self, name, *others):
            if name == "ast" and threading.current_thread() is not threading.main_thread():
                is_loading.set()
                time.sleep(0.3)

    for name in ("ast", "linecache", "textwrap"): sys.modules.pop(name, None)
    sys.meta_path.insert(0, Slow())
    work(1)
    while not is_loading.wait(1): pass
    if os.fork() == 0:
        work(1)
        time.sleep(0.5)
        import ast
        from chimbuko.instrument.hooks import heldlocks
        print(ast.parse("1").body[0].value.value, heldlocks.ast is ast, flush=True)
        os._exit(0)
    print(os.wait()[1])
    """
    done = run_traced(write_program(tmp_path, text))
    assert (done.stdout, done.stderr) == ("1 True\n0\n", "")


def test_recording_ends_where_its_writer_does(tmp_path: Path) -> None:
    """What nobody takes would fill the program's memory."""
    text = """
        import os, signal, time
        from contextlib import suppress
        from pathlib import Path
        from chimbuko.instrument.tracer import session

        def item(): pass

        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                is_here = os.readlink(entry.parent / "cwd") == os.getcwd()
                if is_here and b"writerserver import main" in entry.read_bytes():
                    os.kill(int(entry.parent.name), signal.SIGKILL)
        until = time.monotonic() + 100
        while session.active.is_recording and time.monotonic() < until: item()
        time.sleep(0.1)
        before = len(session.active.buffer().events)
        for _ in range(1000): item()
        print(len(session.active.buffer().events) - before)
    """
    done = run_traced(write_program(tmp_path, text))
    assert done.stdout == "0\n"
    assert done.stderr.count("\n") == 1 and "rank 0 is not traced to its end" in done.stderr


def test_a_further_run_is_an_instance_only_where_that_is_asked_for(tmp_path: Path) -> None:
    program = write_program(tmp_path, WORK + "    work(1)")
    for _ in range(2):
        run_traced(program)
    assert [*streams(tmp_path)] == [0]
    folder = tmp_path / "run"
    prefix = str(folder / "tau-metrics")
    for _ in range(2):
        run_traced(program, TAU_ADIOS2_FILENAME=prefix, CHIMBUKO_INSTANCES="1", PMI_SIZE="2")
    found = streams(folder)
    assert [*found] == [0, 2]
    assert all(stream.counts()["work"] == 1 for stream in found.values())


def test_program_that_is_traced_by_itself_is_another(tmp_path: Path) -> None:
    write_program(tmp_path, WORK + "    work(1)", "other.py")
    traced(tmp_path, f"import subprocess\nsubprocess.run({[*TRACE, 'other.py']!r})")
    assert read_whole(tmp_path / "tau-metrics-other-0.bp").counts()["work"] == 1
    assert not list(tmp_path.glob("tau-metrics.*"))


def test_writer_server_is_reached_by_its_user_only_and_leaves_nothing(tmp_path: Path) -> None:
    text = """
    from pathlib import Path
    from chimbuko.instrument.tracer import session
    socket = Path(session.active.family.address)
    open_to_all = "@" + socket.parent.name in Path("/proc/net/unix").read_text()
    print(socket.is_socket(), oct(socket.parent.stat().st_mode & 0o777), open_to_all)
    print(socket.parent)
    """
    short, long = Path(tempfile.mkdtemp(dir="/tmp")), tmp_path / ("long" * 30)
    long.mkdir()
    left = []
    for temporary, parent in ((short, short), (long, Path("/tmp"))):
        done = run_traced(write_program(tmp_path, text), TMPDIR=str(temporary))
        said, where = done.stdout.splitlines()
        assert said == "True 0o700 False"
        left.append(Path(where))
        assert left[-1].parent == parent
    began = time.monotonic()
    while any(folder.exists() for folder in left):
        assert time.monotonic() - began < PATIENCE_S
        time.sleep(0.05)
    short.rmdir()
    long.rmdir()


def test_writer_server_ends_soon_after_the_program(tmp_path: Path) -> None:
    traced(tmp_path, "pass")
    streams(tmp_path)


def test_parent_that_has_ended_before_its_child_begins_is_named(tmp_path: Path) -> None:
    text = f"""{WORK}
    def await_end_of_parent():
        while os.getppid() == parent: time.sleep(0.001)

    # It comes before what the tracer does in a child.
    os.register_at_fork(after_in_child=await_end_of_parent)
    parent = os.getpid()
    import chimbuko.tracer
    chimbuko.tracer.start()
    if os.fork() == 0:
        with chimbuko.tracer.region("child"): time.sleep(0.2)
        sys.exit()
    os._exit(0)
    """
    program = write_program(tmp_path, text)
    subprocess.run([sys.executable, program], cwd=tmp_path, env=environment(), check=True, timeout=PATIENCE_S)
    found = streams(tmp_path)
    assert metadata(found[1], "Parent Process") == f"rank 0, pid {metadata(found[0], 'pid')}"
