"""What is said of functions that are not recorded any more, and what the analysis makes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.core.calls.recordarrays import unpack
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import LEFT_OUT_AT_TIMES, StreamNames, TraceStep
from chimbuko.instrument.recorder.layout import FUNCTIONS, NAMED, PROCESS, PROCESS_MAGIC, VERSION
from chimbuko.instrument.recorder.leftout import QUIET_NS, LeftOutAtTimes, describe_left_out
from chimbuko.instrument.recorder.ring import ProcessFile, Ring
from tests.ad.handed_on import read_steps
from tests.instrument.recorder.streams import record
from tests.instrument.recorder.test_functions import PROGRAMS, compiled

NAMES = {1: "tick", 2: "std::vector<int, std::allocator<int> >::size() const", NAMED: "MPI_Test()"}


def described(folder: Path, *keys: int, until_ns: int = 0, is_prepared: bool = False) -> str:
    head = np.zeros(1, PROCESS)
    head["magic"], head["version"] = PROCESS_MAGIC, VERSION
    head["start_ns"], head["overhead"], head["is_prepared"] = 1_000_000_000, 0.02, is_prepared
    rows = head["functions"][0]
    rows["key"][1 : 1 + len(keys)] = keys
    rows["uncounted_ns"][1 : 1 + len(keys)] = 1_250_000_000
    rows["counted_ns"][1] = until_ns
    rows["samples"][1] = until_ns and 3
    path = folder / "1-2.process"
    path.write_bytes(head.tobytes())
    return describe_left_out(ProcessFile(path), [], lambda asked: [NAMES[key] for key in asked])


def test_flags_are_such_as_the_compiler_takes(tmp_path: Path) -> None:
    functions = "-finstrument-functions-exclude-function-list=tick"
    files = "-finstrument-functions-exclude-file-list=/usr/include"
    assert described(tmp_path, 1).endswith(f"compile with {functions}")
    assert described(tmp_path, 2).endswith(f"compile with {files}")
    assert described(tmp_path, 1, 2).endswith(f"compile with {functions} {files}")
    # MPI is not compiled by its user.
    assert "compile" not in described(tmp_path, NAMED)
    assert described(tmp_path) == ""
    # Who is left out of what was prepared costs nothing.
    assert "compile" not in described(tmp_path, 1, is_prepared=True)


def test_times_in_which_calls_are_not_even_counted_are_said(tmp_path: Path) -> None:
    assert "those not counted of tick from 0.25 s on; their time" in described(tmp_path, 1)
    until = described(tmp_path, 1, until_ns=4_000_000_000)
    assert "of tick from 0.25 s to 3.00 s, but for 3 samples; their time is in that of their callers" in until
    assert "the recorder's budget is 2.00%" in until


class MadeRing(Ring):
    """A ring of which only the counts are known."""

    def __init__(self) -> None:
        self.counts = np.zeros((2, FUNCTIONS), np.uint64)

    def left_out(self) -> npt.NDArray[np.uint64]:
        return self.counts[0]

    def dropped(self) -> npt.NDArray[np.uint64]:
        return self.counts[1]


def test_what_was_left_out_for_a_moment_is_recorded_again_once(tmp_path: Path) -> None:
    """Row 1 is left out by the budget, 2 for want of room, 3 until the end, and 4 is disarmed."""
    head = np.zeros(1, PROCESS)
    head["magic"], head["version"] = PROCESS_MAGIC, VERSION
    head["functions"][0]["out_ns"][1:5] = 1
    head["functions"][0]["uncounted_ns"][4] = 1
    path = tmp_path / "1-2.process"
    path.write_bytes(head.tobytes())
    process, ring, now_ns = ProcessFile(path), MadeRing(), 10 * QUIET_NS
    at_times = LeftOutAtTimes(process)

    def left_out(after: float) -> list[int]:
        nonlocal now_ns
        now_ns += int(after * QUIET_NS)
        return np.flatnonzero(at_times.look([ring], now_ns)).tolist()

    ring.counts[0, [1, 3]] = 5
    ring.counts[1, 2] = 5
    assert left_out(0) == [1, 2, 3, 4]
    ring.counts[0, 3] += 1
    assert left_out(0.9) == [1, 2, 3, 4]
    assert left_out(0.2) == [3, 4]
    ring.counts[0, 1] += 1
    assert left_out(0.2) == [1, 3, 4]
    # What comes and goes is out at times for good.
    assert left_out(5) == [1, 4]


def test_a_caller_is_judged_with_callees_that_come_and_go(tmp_path: Path) -> None:
    """All that ``chunk`` calls is left out at times, so that its own time is always all of its time."""
    program = compiled(PROGRAMS / "alternating.c", tmp_path / "alternating", "-finstrument-functions")
    (stream,) = record(tmp_path, ["--overhead", "0.3%", program, "4", "400", "1000"])
    numbers = {stream.function(timer): timer for timer in stream.names.timers}
    assert stream.metadata(f"{LEFT_OUT_AT_TIMES}0") == str(numbers["part"])
    calls = stream.calls()
    assert 1000 < calls["part"] < 200 * calls["chunk"]
    analysis = StreamAnalysis(StreamIdentity(0, stream.rank, "node"), AnalysisConfig())
    names, found, has_begun = StreamNames(), [], False
    for step in read_steps(stream.path):
        for kind in ("timers", "counters", "event_types", "metadata"):
            getattr(names, kind).update(getattr(step.names, kind))
        result = analysis.analyse(TraceStep(step.number, step.events, step.comms, step.counters), names)
        new = [one for one in unpack(result.records, analysis.health("ended"), "robust") if one.revision == 1]
        found += new
        if has_begun:
            its = analysis.stacks.calls[: analysis.stacks.count]
            its = its[(its["function"] == numbers["chunk"]) & (its["exit"] > 0) & (its["doubts"] == 0)]
            # What a callee lost, as on a busy machine, is its own loss.
            around = {
                frame.entry_us for one in new if one.label is Label.ANOMALY for frame in one.call_stack[1:]
            }
            its = its[~np.isin(its["entry"], list(around))]
            own_us = its["exit"] - its["entry"] - its["child_us"] + its["at_times_us"]
            assert own_us.tolist() == (its["exit"] - its["entry"]).tolist()
        has_begun = (stream.rank, 0, f"{LEFT_OUT_AT_TIMES}0") in names.metadata
    longest = max((one for one in found if one.label is Label.ANOMALY), key=lambda one: one.severity_us)
    assert longest.inclusive_us >= 1_000_000 and longest.severity_us > 900_000
