"""The public interface, in a program that uses it without ``chimbuko trace``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chimbuko.instrument import tracer
from tests.instrument.tracer.traced_program import Stream, environment, read_whole, write_program


def run(folder: Path, text: str, **variables: str) -> Stream:
    program = write_program(folder, text)
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return read_whole(folder / "tau-metrics-program-0.bp")


def test_regions_and_decorated_functions_nest(tmp_path: Path) -> None:
    trace = run(
        tmp_path,
        """
        from chimbuko import tracer

        @tracer.traced
        def solve(n):
            with tracer.region("assemble"):
                pass
            if n:
                solve(n - 1)

        def not_traced(): solve(1)

        tracer.start()
        not_traced()
        """,
    )
    assert [(call.name, call.depth) for call in trace.calls()] == [
        ("assemble", 2),
        ("assemble", 3),
        ("solve", 2),
        ("solve", 1),
        (".TAU application", 0),
    ]
    assert "solve [{program.py}{4}]" in trace.names.timers.values()


def test_environment_starts_the_tracer_and_children_are_of_its_family(tmp_path: Path) -> None:
    text = """
        import os, subprocess, sys
        from chimbuko import tracer

        with tracer.region("parent"):
            child = "from chimbuko import tracer; assert tracer.is_active()"
            subprocess.run([sys.executable, "-c", child], check=True)
        assert tracer.is_active()
    """
    assert run(tmp_path, text, CHIMBUKO_TRACE="1").counts()["parent"] == 1


def test_messages_counters_and_metadata_are_recorded(tmp_path: Path) -> None:
    trace = run(
        tmp_path,
        """
        import threading
        from chimbuko import tracer

        tracer.start()
        with tracer.region("exchange"):
            tracer.send(3, 11, 800)
            tracer.receive(2, 10, 801)
            for value in (2.9, -5, float("nan"), float("inf")):
                tracer.counter("residual", value)
        tracer.metadata("Problem", "heat: ü")

        def work():
            with tracer.region("work"): tracer.metadata("Role", "worker")
            tracer.metadata("Own", str(threading.get_native_id()))
        thread = threading.Thread(target=work, name="solver-7")
        thread.start()
        thread.join()
        """,
    )
    exchange = next(call for call in trace.calls() if call.name == "exchange")
    assert trace.comms[:, 2:7].tolist() == [[0, 2, 11, 3, 800], [0, 3, 10, 2, 801]]
    assert (trace.names.event_types[2], trace.names.event_types[3]) == ("SEND", "RECV")
    assert trace.counters[:, 4].tolist() == [2, 0, 0, 2**63 - 1]
    assert trace.names.counters == {0: "TIME", 1: "residual"}
    for time_us in [*trace.comms[:, -1].tolist(), *trace.counters[:, -1].tolist()]:
        assert exchange.entry_us <= time_us <= exchange.exit_us
    assert trace.names.metadata[0, 0, "Problem"] == "heat: ü"
    assert trace.names.metadata[0, 1, "Role"] == "worker"
    assert trace.names.metadata[0, 1, "Thread Name"] == "solver-7"
    # By this number samples of the node know the thread.
    assert trace.names.metadata[0, 1, "tid"] == trace.names.metadata[0, 1, "Own"]


def test_stop_ends_the_stream_and_what_follows_is_not_recorded(tmp_path: Path) -> None:
    trace = run(
        tmp_path,
        """
        from chimbuko import tracer

        tracer.start()
        with tracer.region("before"):
            tracer.stop()
            assert not tracer.is_active()
        with tracer.region("after"):
            tracer.counter("x", 1)
        """,
    )
    assert [call.name for call in trace.calls()] == ["before", ".TAU application"]
    assert trace.open_timers() == []
    assert len(trace.counters) == 0


def test_exceptions_end_regions(tmp_path: Path) -> None:
    trace = run(
        tmp_path,
        """
        from chimbuko import tracer

        @tracer.traced
        def fail(): raise ValueError

        tracer.start()
        try:
            with tracer.region("attempt"): fail()
        except ValueError:
            pass
        with tracer.region("next"): pass
        """,
    )
    assert [(call.name, call.depth) for call in trace.calls()][:3] == [
        ("fail", 2),
        ("attempt", 1),
        ("next", 1),
    ]


def test_handlers_of_signals_may_record_and_raise_at_any_moment(tmp_path: Path) -> None:
    """Here while a time is taken, which is the worst one."""
    trace = run(
        tmp_path,
        """
        import time
        from chimbuko.instrument import tracer

        @tracer.traced
        def handler(): time.sleep(0.01)
        @tracer.traced
        def work(): pass
        def give_up(): raise TimeoutError

        clock, signals = tracer.perf_counter_ns, []
        def interrupted():
            now = clock()
            if signals: signals.pop()()
            return now
        tracer.perf_counter_ns = interrupted

        tracer.start()
        for signal in (handler, give_up):
            for _ in range(2):
                signals.append(signal)
                try: work()
                except TimeoutError: pass
        work()
        """,
    )
    assert trace.counts() == {"handler": 2, "work": 3, ".TAU application": 1}
    times_us = trace.events[:, -1].tolist()
    assert times_us == sorted(times_us)
    assert trace.open_timers() == []


def test_program_that_waits_for_any_child_meets_no_stranger(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
        import os
        from chimbuko import tracer

        tracer.start()
        try:
            os.wait()
        except ChildProcessError:
            pass
        else:
            raise SystemExit("a child that is not the program's")
        """,
    )


def test_select_file_leaves_regions_and_counters_out(tmp_path: Path) -> None:
    select = tmp_path / "select.txt"
    select.write_text(
        "BEGIN_EXCLUDE_TIMERS\nhidden\nEND_EXCLUDE_TIMERS\nBEGIN_INCLUDE_COUNTERS\nkept\nEND_INCLUDE_COUNTERS\n"
    )
    trace = run(
        tmp_path,
        """
        from chimbuko import tracer

        tracer.start()
        with tracer.region("hidden"), tracer.region("seen"):
            tracer.counter("kept", 1)
            tracer.counter("dropped", 2)
        """,
        TAU_ADIOS2_SELECT_FILE=str(select),
    )
    assert [call.name for call in trace.calls()] == ["seen", ".TAU application"]
    assert trace.names.counters == {0: "TIME", 1: "kept"}


def test_nothing_happens_without_a_tracer() -> None:
    assert not tracer.is_active()

    @tracer.traced
    def double(n: int) -> int:
        return 2 * n

    with tracer.region("r"):
        tracer.send(1, 2, 3)
        tracer.receive(1, 2, 3)
        tracer.counter("c", 1)
        tracer.metadata("k", "v")
    tracer.stop()
    assert double(4) == 8
    assert double.__name__ == "double"


@pytest.mark.parametrize("call", [len, print])
def test_functions_without_python_code_can_be_traced(call: object) -> None:
    assert callable(tracer.traced(call))  # type: ignore[arg-type]


def test_a_program_whose_threads_cannot_be_looked_at_is_recorded_to_its_end(tmp_path: Path) -> None:
    text = """
        import linecache, time
        from chimbuko import tracer

        def broken(*_): raise ValueError("no source")

        @tracer.traced
        def work(): time.sleep(0.5)

        linecache.getline = broken
        tracer.start()
        work()
        work()
        """
    program = write_program(tmp_path, text)
    done = subprocess.run([sys.executable, program], cwd=tmp_path, env=environment(), capture_output=True)
    assert done.returncode == 0
    said = b"chimbuko: rank 0: what its threads wait for is not recorded any more: ValueError: no source\n"
    assert done.stderr == said
    assert read_whole(tmp_path / "tau-metrics-program-0.bp").counts()["work"] == 2
