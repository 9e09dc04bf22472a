"""Python programs that call more than their budget has room for: what is recorded, and what is said."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from chimbuko.core.sourcecensus import CALLS_SEEN, LEFT_OUT, parse_census
from chimbuko.core.traceschema import LEFT_OUT_FUNCTIONS
from chimbuko.instrument.tracer.session import BUDGET
from tests.instrument.tracer.test_children import metadata, streams
from tests.instrument.tracer.traced_program import Stream, run_traced, write_program
from tests.newerpython import newer_python

DELAY_US = 50_000
PROGRAM = """
    import json, threading, time

    def tiny(): pass
    def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
    def fail(): raise KeyError
    def numbers():
        for _ in range(3): yield tiny()
    def late(): time.sleep(0.05)
    def caught():
        try: fail()
        except KeyError: pass

    def step(number):
        for _ in range(20_000): tiny()
        for _ in range(1000): caught()
        for _ in range(300): list(numbers())
        if number % 2: late()

    def work():
        # It began before anything was left out, and ends after that.
        fib(22)
        for number in range(10): step(number)

    def main():
        thread = threading.Thread(target=work)
        thread.start()
        work()
        thread.join()

    main()
    truth = {"tiny": 2 * 10 * (20_000 + 3 * 300), "fib": 2 * 57_313, "caught": 20_000, "fail": 20_000}
    truth |= {"numbers": 2 * 10 * 300 * 4, "late": 10, "step": 20, "work": 2, "main": 1}
    with open("truth.json", "w") as file: json.dump(truth, file)
"""


def left_out(stream: Stream) -> Counter[str]:
    counted = re.findall(r"(\d+) of (\w+)", metadata(stream, LEFT_OUT_FUNCTIONS).partition(";")[0])
    return Counter({name: int(calls) for calls, name in counted})


def truth(folder: Path) -> dict[str, int]:
    found: dict[str, int] = json.loads((folder / "truth.json").read_text())
    return found


def assert_delays_are_found(stream: Stream) -> None:
    assert stream.open_timers() == []
    late = [call for call in stream.calls() if call.name == "late"]
    assert len(late) == 10
    assert all(call.exit_us - call.entry_us >= DELAY_US for call in late)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="newer Pythons do not tell of all that is left out")
def test_each_call_is_recorded_or_counted_by_its_function(tmp_path: Path) -> None:
    done = run_traced(write_program(tmp_path, PROGRAM))
    assert (done.returncode, done.stderr) == (0, "")
    (stream,) = streams(tmp_path).values()
    assert_delays_are_found(stream)
    counts, missing = stream.counts(), left_out(stream)
    assert missing["tiny"] > counts["tiny"]
    assert {name: counts[name] + missing[name] for name in truth(tmp_path)} == truth(tmp_path)
    census = parse_census(metadata(stream, CALLS_SEEN))
    assert census is not None
    assert (census.unwritten, census.uncounted) == ({LEFT_OUT: missing.total()}, 0)
    assert census.seen == counts.total() + missing.total()


def test_what_a_newer_python_does_not_even_tell_is_said(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM, "child.py")
    starts = f"import subprocess\nsubprocess.run([{newer_python()!r}, 'child.py'], check=True)"
    done = run_traced(write_program(tmp_path, starts))
    assert (done.returncode, done.stderr) == (0, "")
    stream = streams(tmp_path)[1]
    assert_delays_are_found(stream)
    counts, missing = stream.counts(), left_out(stream)
    wrong = {name for name, calls in truth(tmp_path).items() if counts[name] + missing[name] != calls}
    assert all(counts[name] + missing[name] <= calls for name, calls in truth(tmp_path).items())
    said = metadata(stream, LEFT_OUT_FUNCTIONS)
    assert "tiny" in wrong
    assert all(f"of {name} from " in said for name in wrong)
    census = parse_census(metadata(stream, CALLS_SEEN))
    assert census is not None and census.uncounted >= len(wrong)


def test_without_a_compiler_all_is_recorded_and_that_is_said(tmp_path: Path) -> None:
    program = write_program(tmp_path, "def tiny(): pass\nfor _ in range(30_000): tiny()")
    done = run_traced(program, "--overhead", "2%", CC="no-such-compiler")
    assert done.returncode == 0
    assert re.fullmatch(
        r"chimbuko: all functions are recorded, whatever it costs: .*CC=no-such.*\n", done.stderr
    )
    (stream,) = streams(tmp_path).values()
    assert stream.counts()["tiny"] == 30_000
    assert metadata(stream, BUDGET).startswith("none, all functions are recorded: no C compiler")


def test_a_larger_budget_records_all(tmp_path: Path) -> None:
    program = write_program(tmp_path, "def tiny(): pass\nfor _ in range(30_000): tiny()")
    assert run_traced(program, "--overhead", "100%").stderr == ""
    (stream,) = streams(tmp_path).values()
    assert stream.counts()["tiny"] == 30_000


@pytest.mark.parametrize(
    ("options", "said"),
    [(("--overhead", "2"), "not a percentage"), (("--overhead", "2%", "--builtins"), "go with")],
)
def test_a_budget_that_cannot_be_kept_to_is_refused(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    done = run_traced(write_program(tmp_path, ""), *options)
    assert done.returncode == 2 and said in done.stderr
    assert not streams(tmp_path)
