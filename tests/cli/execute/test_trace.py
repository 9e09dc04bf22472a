"""``chimbuko trace``: what it records, and that the program never notices."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.instrument.tracer.traced_program import (
    TRACE,
    environment,
    read_whole,
    run_traced,
    working_in,
    write_program,
)
from tests.patience import PATIENCE_S
from tests.thorough import first

NESTED = """
    import json

    def outer(n):
        json.dumps([n])
        return [inner(i) for i in range(n)]

    def inner(i):
        return i * i

    class Solver:
        def step(self):
            outer(2)

    def main():
        Solver().step()
        outer(3)

    main()
"""


def stream(folder: Path, program: str = "program", rank: int = 0) -> Path:
    return folder / f"tau-metrics-{program}-{rank}.bp"


def test_the_script_that_pip_makes_is_no_part_of_the_program(tmp_path: Path) -> None:
    script = tmp_path / "chimbuko"
    script.write_text("from chimbuko.cli import main\nmain()\n")
    program = write_program(tmp_path, NESTED)
    command = [sys.executable, script, "trace", program.name]
    subprocess.run(command, cwd=tmp_path, env=environment(), check=True)
    trace = read_whole(stream(tmp_path))
    assert trace.calls()[-1].name == ".TAU application"
    assert not any("chimbuko" in name for name in trace.names.timers.values())


def test_programs_functions_are_recorded_as_they_nest(tmp_path: Path) -> None:
    assert run_traced(write_program(tmp_path, NESTED)).returncode == 0
    trace = read_whole(stream(tmp_path))
    assert [(call.name, call.depth) for call in trace.calls()] == [
        ("Solver", 2),
        *[("inner", 5)] * 2,
        ("outer", 4),
        ("Solver.step", 3),
        *[("inner", 4)] * 3,
        ("outer", 3),
        ("main", 2),
        ("<module>", 1),
        (".TAU application", 0),
    ]
    assert trace.names.timers[0] == ".TAU application"
    assert "inner [{program.py}{8}]" in trace.names.timers.values()
    assert trace.names.program == "program"
    assert trace.open_timers() == []


def test_include_adds_functions_of_others(tmp_path: Path) -> None:
    assert run_traced(write_program(tmp_path, NESTED), "--include", "json.d*").returncode == 0
    counts = read_whole(stream(tmp_path)).counts()
    assert counts["dumps"] == 2
    assert "JSONEncoder.encode" not in counts


def test_builtins_are_recorded_by_their_bare_names(tmp_path: Path) -> None:
    program = write_program(tmp_path, "def f():\n    return len('abc')\nf()\nf()\n")
    assert run_traced(program, "--builtins").returncode == 0
    trace = read_whole(stream(tmp_path))
    assert trace.counts()["len"] == 2
    assert "len" in trace.names.timers.values()
    assert all(call.depth == 3 for call in trace.calls() if call.name == "len")


def test_select_file_leaves_timers_out(tmp_path: Path) -> None:
    select = tmp_path / "select.txt"
    select.write_text("BEGIN_EXCLUDE_TIMERS\ninner [#\nEND_EXCLUDE_TIMERS\n")
    run_traced(write_program(tmp_path, NESTED), TAU_ADIOS2_SELECT_FILE=str(select))
    counts = read_whole(stream(tmp_path)).counts()
    assert counts["inner"] == 0
    assert counts["outer"] == 2


def test_rank_and_prefix_name_the_stream(tmp_path: Path) -> None:
    program = write_program(tmp_path, "pass")
    run_traced(program, "--rank", "6", TAU_ADIOS2_FILENAME=str(tmp_path / "my-prefix"))
    trace = read_whole(tmp_path / "my-prefix-program-6.bp")
    assert set(trace.events[:, 1].tolist()) == {6}
    assert trace.names.metadata[6, 0, "Command Line"].endswith("program.py")
    run_traced(program, PMI_RANK="2")
    assert read_whole(stream(tmp_path, rank=2)).events[0, 1] == 2


def test_modules_are_run_as_python_does(tmp_path: Path) -> None:
    package = tmp_path / "tools"
    package.mkdir()
    (package / "__init__.py").touch()
    write_program(package, "import sys\ndef run(): print(sys.argv[1:], __name__)\nrun()", "count.py")
    done = subprocess.run(
        [*TRACE, "-m", "tools.count", "--fast", "3"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.stdout == "['--fast', '3'] __main__\n"
    assert read_whole(stream(tmp_path, "tools.count")).counts()["run"] == 1


@pytest.mark.parametrize(
    "text",
    first(
        8,
        [
            "import sys; print('out'); print('err', file=sys.stderr)",
            "import sys; sys.exit(7)",
            "import sys; sys.exit('a reason')",
            "def f(): raise ValueError('x')\nf()",
            "raise KeyboardInterrupt",
            "import os; os.kill(os.getpid(), 15)",
            "import os; os._exit(3)",
            "import os; os.abort()",
            "def f(:\n",
            "import sys; print(sys.argv, sys.path[0], __file__, __name__)",
            "import __main__; x = 5; print(__main__.x, __doc__, __spec__)",
            "import atexit\natexit.register(print, 'exit')",
            "import threading\nthreading.Thread(target=print, args=('t',)).start()",
            "import sys; sys.excepthook = lambda *a: print('hook', a[0].__name__); raise OSError",
            "import sys; sys.stdin.read(); print(sys.stdin.closed)",
            "import os; print(os.fork() and os.wait()[1])",
        ],
    ),
)
def test_output_and_end_of_the_program_stay_its_own(tmp_path: Path, text: str) -> None:
    program = write_program(tmp_path, text)
    alone = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    traced = subprocess.run(
        [*TRACE, str(program)],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert (traced.returncode, traced.stdout) == (alone.returncode, alone.stdout)
    if "KeyboardInterrupt" not in text:
        assert traced.stderr == alone.stderr


def test_exception_leaves_a_whole_trace(tmp_path: Path) -> None:
    text = "def f(n):\n    if n: f(n - 1)\n    raise ValueError\ntry: f(3)\nexcept ValueError: pass\nf(2)\n"
    assert run_traced(write_program(tmp_path, text)).returncode == 1
    trace = read_whole(stream(tmp_path))
    assert trace.counts()["f"] == 7
    assert trace.open_timers() == []


def test_threads_have_rows_of_their_own_and_numbers_that_are_used_again(tmp_path: Path) -> None:
    text = """
        import threading, time

        def work():
            for _ in range(100): item()

        def item(): pass

        for _ in range(3):
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            time.sleep(0.3)
    """
    assert run_traced(write_program(tmp_path, text)).returncode == 0
    trace = read_whole(stream(tmp_path))
    assert trace.counts()["item"] == 1200
    assert trace.counts()["work"] == 12
    workers = {call.thread for call in trace.calls() if call.name == "work"}
    assert 0 not in workers
    assert len(workers) < 12


def test_generators_nest_by_their_turns_and_coroutines_are_calls(tmp_path: Path) -> None:
    text = """
        import asyncio

        def numbers():
            yield 1
            yield 2

        async def task():
            await asyncio.sleep(0)

        async def both():
            await asyncio.gather(task(), task())

        list(zip(numbers(), numbers()))
        closed = numbers(); next(closed); closed.close()
        asyncio.run(both())
    """
    assert run_traced(write_program(tmp_path, text)).returncode == 0
    trace = read_whole(stream(tmp_path))
    # Each turn is one: 2 + 1 starts, as many turns again as zip asks for, and one to close.
    assert trace.counts()["numbers"] >= 6
    assert trace.counts()["task"] == 2
    assert trace.open_timers() == []


def test_long_call_still_yields_steps(tmp_path: Path) -> None:
    """Thread 0 never leaves its call; what others do is seen meanwhile."""
    text = """
        import pathlib, threading, time
        stop = threading.Event()
        index = pathlib.Path("tau-metrics-program-0.bp/md.idx")

        def work():
            while not stop.is_set(): item()

        def item(): time.sleep(0.01)

        def wait():
            thread = threading.Thread(target=work)
            thread.start()
            sizes = set()
            # Nothing, and a step more each time.
            while len(sizes) < 4:
                sizes.add(index.exists() and index.stat().st_size)
                stop.wait(0.01)
            stop.set()
            thread.join()

        wait()
    """
    assert run_traced(write_program(tmp_path, text), TAU_ADIOS2_PERIOD="100000").returncode == 0
    trace = read_whole(stream(tmp_path))
    assert trace.steps >= 3
    assert trace.counts()["wait"] == 1


def test_steps_are_cut_early_when_they_grow_large(tmp_path: Path) -> None:
    text = "def f(): pass\nfor _ in range(150_000): f()\n"
    program = write_program(tmp_path, text)
    assert run_traced(program, "--overhead", "100%", TAU_ADIOS2_PERIODIC="0").returncode == 0
    trace = read_whole(stream(tmp_path))
    assert trace.counts()["f"] == 150_000
    # 300,000 rows are 14.4 MB.
    assert trace.steps > 3


WAITS = """
    import sys, time

    def f(): pass

    def wait():
        for _ in range(1000): f()
        time.sleep(0.6)
        print("ready", flush=True)
        while True: time.sleep(10)

    HANDLER
    wait()
"""


def start_waiting(tmp_path: Path, handler: str = "") -> subprocess.Popen[str]:
    program = write_program(tmp_path, WAITS.replace("HANDLER", handler))
    process = subprocess.Popen(
        [*TRACE, str(program)], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_killed_program_leaves_a_whole_trace(tmp_path: Path, number: signal.Signals) -> None:
    with start_waiting(tmp_path) as process:
        process.send_signal(number)
    assert process.returncode == -number
    trace = read_whole(stream(tmp_path))
    assert trace.counts()["f"] == 1000
    still_open = [name.partition(" [")[0] for name in trace.open_timers()]
    assert still_open == ([] if number == signal.SIGINT else [".TAU application", "<module>", "wait"])


def test_programs_own_signal_handler_works(tmp_path: Path) -> None:
    handler = "import signal; signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))"
    with start_waiting(tmp_path, handler) as process:
        process.terminate()
    assert process.returncode == 5
    assert read_whole(stream(tmp_path)).open_timers() == []


def test_forked_child_does_not_touch_the_stream(tmp_path: Path) -> None:
    text = """
        import os, sys, time

        def parent(): pass

        def child():
            for _ in range(1000): parent()

        for _ in range(5):
            parent()
            if os.fork() == 0:
                child()
                sys.exit(0)
            time.sleep(0.05)
            os.wait()
    """
    assert run_traced(write_program(tmp_path, text)).returncode == 0
    counts = read_whole(stream(tmp_path)).counts()
    assert counts["parent"] == 5
    assert counts["child"] == 0


def test_multiprocessing_works_under_the_tracer(tmp_path: Path) -> None:
    text = """
        import multiprocessing

        def square(n): return n * n

        if __name__ == "__main__":
            for method in ("fork", "spawn"):
                with multiprocessing.get_context(method).Pool(2) as pool:
                    print(pool.map(square, range(4)))
    """
    done = run_traced(write_program(tmp_path, text))
    assert done.stdout == "[0, 1, 4, 9]\n" * 2
    assert done.stderr == ""
    assert read_whole(stream(tmp_path)).counts()["square"] == 0


def test_unwritable_folder_is_one_line_and_the_program_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    program = write_program(tmp_path, "import time; time.sleep(0.5); print('done')")
    done = run_traced(program, TAU_ADIOS2_FILENAME=str(tmp_path / "file" / "tau-metrics"))
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.count("\n") == 1
    assert "rank 0 is not traced to its end" in done.stderr


def test_faulty_settings_are_one_line_and_the_program_runs(tmp_path: Path) -> None:
    done = run_traced(write_program(tmp_path, "print('done')"), TAU_ADIOS2_PERIOD="soon")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "TAU_ADIOS2_PERIOD=soon" in done.stderr


def test_missing_script_is_a_users_error(tmp_path: Path) -> None:
    done = run_traced(script := tmp_path / "none.py")
    assert done.returncode == 127
    assert done.stderr == f"chimbuko: {script}: cannot be run (No such file or directory)\n"


def test_no_process_is_left_behind(tmp_path: Path) -> None:
    """The writer ends with the program, even where that is killed."""
    with start_waiting(tmp_path) as process:
        process.kill()
    read_whole(stream(tmp_path))
    give_up = time.monotonic() + PATIENCE_S
    while left := working_in(tmp_path):
        assert time.monotonic() < give_up, left
        time.sleep(0.02)
