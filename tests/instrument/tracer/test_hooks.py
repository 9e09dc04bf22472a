"""The profiling hook of Python 3.11, which errors and other profilers take out of its place."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from chimbuko.core import traceschema
from chimbuko.instrument.hooks.profiling import Gaps
from tests.instrument.tracer.test_children import metadata, streams
from tests.instrument.tracer.traced_program import Stream, run_traced, write_program

NO_COMPILER = "no-such-compiler"
"""Without one a hook in Python records all functions."""
pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="from Python 3.12 on there is no hook that could be taken out"
)


def traced(folder: Path, text: str, **variables: str) -> Stream:
    done = run_traced(write_program(folder, text), **variables)
    assert (done.returncode, done.stderr) == (0, "")
    (stream,) = streams(folder).values()
    assert stream.open_timers() == []
    return stream


AT_THE_LIMIT = """
    def step(): pass
    def down(n): return down(n + 1)
    def main():
        for number in range(4):
            step()
            try: down(0)
            except RecursionError: pass
    main()
"""


def test_nothing_is_missing_at_the_limit_of_recursion(tmp_path: Path) -> None:
    stream = traced(tmp_path, AT_THE_LIMIT)
    assert (stream.counts()["step"], metadata(stream, traceschema.NOT_RECORDED)) == (4, "")
    assert stream.counts()["down"] % 4 == 0


def test_calls_after_an_error_at_the_limit_of_recursion_are_recorded(tmp_path: Path) -> None:
    stream = traced(tmp_path, AT_THE_LIMIT, CC=NO_COMPILER)
    # A call around a time without a hook of more than 10 ms, as on a busy machine, is recorded as two.
    assert stream.counts()["step"] == 4 and stream.counts()["main"] >= 1
    assert "4 times" in metadata(stream, traceschema.NOT_RECORDED)
    # The calls that the error ended have ended before the next one began.
    assert max(call.depth for call in stream.calls() if call.name == "step") == 3


def test_calls_after_another_profiler_are_recorded_and_none_seems_longer(tmp_path: Path) -> None:
    stream = traced(
        tmp_path,
        """
        import cProfile, sys, threading, time

        def step(): time.sleep(0.001)

        def others():
            sys.setprofile(lambda *_: None)
            time.sleep(0.05)
            sys.setprofile(None)

        def cycle():
            profiler = cProfile.Profile()
            profiler.enable()
            step()
            profiler.disable()

        def work(disturb):
            step()
            disturb()
            time.sleep(0.3)
            for _ in range(5): step()

        thread = threading.Thread(target=work, args=(others,))
        thread.start()
        work(cycle)
        thread.join()
        """,
    )
    assert stream.counts()["step"] == 12
    assert {call.thread: call.name for call in stream.calls() if call.name == "step"}.keys() == {0, 1}
    # It lasts 0.3 s, of which 0.1 s are not seen.
    assert all(call.exit_us - call.entry_us < 300_000 for call in stream.calls() if call.name == "work")
    assert metadata(stream, traceschema.NOT_RECORDED)


def test_a_hook_that_is_gone_for_the_last_moments_is_missed(tmp_path: Path) -> None:
    """Nobody has looked at it before the end."""
    stream = traced(
        tmp_path,
        """
        import sys
        def step(): pass
        step()
        sys.setprofile(None)
        step()
        """,
    )
    assert stream.counts()["step"] == 1
    assert metadata(stream, traceschema.NOT_RECORDED).startswith("calls of ")


def test_a_profiler_that_stays_keeps_its_place(tmp_path: Path) -> None:
    done = run_traced(
        write_program(
            tmp_path,
            """
            import sys, time
            def step(): pass
            def other(*_): pass
            step()
            sys.setprofile(other)
            for _ in range(5):
                step()
                time.sleep(0.1)
            assert sys.getprofile() is other
            """,
        )
    )
    assert (done.returncode, done.stderr) == (0, "")
    (stream,) = streams(tmp_path).values()
    assert stream.counts()["step"] == 1
    assert metadata(stream, traceschema.NOT_RECORDED).startswith("calls of ")


def test_turns_after_an_error_that_was_thrown_through_them_nest(tmp_path: Path) -> None:
    stream = traced(
        tmp_path,
        """
        def leaf(): pass

        def inner():
            while True:
                try: yield 1
                except KeyError: leaf()
                except ValueError: return

        def outer():
            yield from inner()
            leaf()
            yield None

        made = outer()
        next(made)
        made.throw(KeyError())
        made.throw(ValueError())
        made.close()
        """,
    )
    assert stream.counts()["leaf"] == 2
    # The outer one runs on after the second error without a word of the hook, and is no turn of its own then.
    assert (stream.counts()["inner"], stream.counts()["outer"]) == (3, 2)


def test_gaps_are_described_together() -> None:
    gaps = Gaps(1_000_000_000)
    assert gaps.text(2_000_000_000) == ""
    gaps.note(1_500_000_000, 1_600_000_000)
    assert gaps.text(2_000_000_000).startswith("calls of 100.0 ms, once, first at 0.500 s: ")
    gaps.open[1] = 1_250_000_000
    assert gaps.text(2_000_000_000).startswith("calls of 850.0 ms, 2 times, first at 0.250 s: ")
