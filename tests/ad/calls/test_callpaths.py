"""Call paths of a stream, against the slow twin, and their way to the agent."""

from __future__ import annotations

import itertools
import math
import mmap
import pickle
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.ad.analysis.streamstatistics import Learned
from chimbuko.ad.calls.callpaths import LOOK, CallPaths, UsualRuntimes, busiest
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.handoff.outbox import PathOutbox
from chimbuko.ad.kernels.callpaths import level_of, runtime_of
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics, StreamShare
from chimbuko.capture.trace.discovery import find_recorded
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.core.arrays import Rows
from chimbuko.core.calls.pathtable import PATH, PathTable
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.core.traceschema import StreamNames, TraceStep
from chimbuko.runtime.protocol.messages import Delta
from tests.plainpython import examples
from tests.reference import usual as reference
from tests.reference.paths import SlowPaths, columns_of, paths_of
from tests.reference.stacks import SlowStacks
from tests.reference.traces import RANK, MadeTrace, damaged_traces, made_names, traces

EXAMPLES = examples(60)
NOTHING = Learned(np.empty(0, np.int64), np.empty((0, PROFILE.width)))


def nested(depth: int, function: int = 1, times: int = 3) -> TraceStep:
    """Calls of one function in each other, each level of which is called once, all of it a few times."""
    rows, time = [], 1_000_000
    for _ in range(times):
        for kind in (0, 1):
            for _ in range(depth):
                rows.append([0, RANK, 0, kind, function, time])
                time += 1
    return TraceStep(0, np.array(rows, np.uint64), np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64))


@EXAMPLES
@given(
    traces() | damaged_traces(),
    st.sampled_from((2, 4, 64)),
    st.sampled_from((2, 5, 64)),
    st.sampled_from((0, 2, 64)),
)
def test_paths_are_those_of_the_slow_twin(
    trace: MadeTrace, most_paths: int, most_depth: int, most: int
) -> None:
    stacks, slow_stacks = CallStacks(RANK), SlowStacks(RANK)
    paths, slow = CallPaths(most_paths, most_depth), SlowPaths(most_paths, most_depth)
    merged = PathTable(most_paths)
    for step in trace.steps():
        stacks.build(step, made_names())
        slow_stacks.build(step, made_names())
        paths.read(stacks, UsualRuntimes(False))
        slow.read(slow_stacks, made_names())
        # Whatever is handed out when, it adds up.
        merged.add(paths.hand_out())
    expected = {
        path: columns_of(runtimes, slow.inclusive_us[path]) for path, runtimes in slow.exclusive_us.items()
    }
    rows = merged.rows
    counted = {path: row[:-2] for path, row in paths_of(rows).items() if row[0]}
    assert counted == expected
    spent = {path: (row[-2], row[-1]) for path, row in paths_of(rows).items()}
    known = slow.begun.keys() | slow.spent_us.keys()
    assert spent == {path: (slow.begun[path], slow.spent_us[path]) for path in known}
    # Handed out or not, a process that goes on knows what all of it took.
    paths.read(stacks, UsualRuntimes(False))
    slow.read(slow_stacks, made_names())
    times = pickle.loads(pickle.dumps(paths)).times()
    took = {
        path: (slow.begun[path], slow.spent_us[path]) for path in slow.begun.keys() | slow.spent_us.keys()
    }
    assert paths_of(times) == took
    rows, places = busiest(times, most)
    assert np.array_equal(times["function"][places], rows["function"])
    kept = paths_of(rows)
    assert len(rows) <= 1 + most
    assert {path: row for path, row in kept.items() if path} == {path: took[path] for path in kept if path}
    for column in (0, 1):
        assert sum(row[column] for row in kept.values()) == sum(row[column] for row in took.values())
    below_us = {
        path: sum(max(us, 0) for other, (_, us) in took.items() if other[: len(path)] == path)
        for path in took
        if path
    }
    left = [below_us[path] for path in below_us.keys() - kept.keys()]
    assert max(left, default=0) <= min((below_us[path] for path in below_us.keys() & kept), default=1 << 62)


def test_a_recursion_takes_as_many_paths_as_it_may_be_deep() -> None:
    stacks, paths = CallStacks(RANK), CallPaths(most_depth=64)
    stacks.build(nested(depth=1000), made_names())
    paths.read(stacks, UsualRuntimes(False))
    rows = paths.hand_out()
    assert len(rows) == 1 + 64
    # The first call ever teaches nothing.
    assert rows["calls"].tolist() == [3 * (1000 - 64), 2, *[3] * 63]


def test_a_process_that_goes_on_adds_to_the_same_paths() -> None:
    stacks, paths = CallStacks(RANK), CallPaths()
    stacks.build(nested(depth=3), made_names())
    paths.read(stacks, UsualRuntimes(False))
    paths.hand_out()
    successor: CallPaths = pickle.loads(pickle.dumps(paths))
    assert successor.count == paths.count == 1 + 3
    for one in (paths, successor):
        one.read(stacks, UsualRuntimes(False))
    assert paths_of(successor.hand_out()) == paths_of(paths.hand_out())


def new_outbox() -> tuple[PathOutbox, PathOutbox]:
    """Both ends of it."""
    memory = mmap.mmap(-1, 64 + PathOutbox.SIZE_BYTES)
    return PathOutbox(memory, 64), PathOutbox(memory, 64)


@EXAMPLES
@given(traces(), st.lists(st.booleans(), min_size=20, max_size=20))
def test_what_waits_in_the_outbox_adds_up_until_it_is_taken(trace: MadeTrace, is_taken: list[bool]) -> None:
    stacks, paths, whole = CallStacks(RANK), CallPaths(), CallPaths()
    same = CallStacks(RANK)
    stream, agent = new_outbox()
    taken = PathTable()
    for number, step in enumerate(trace.steps()):
        stacks.build(step, made_names())
        same.build(step, made_names())
        whole.read(same, UsualRuntimes(False))
        paths.read(stacks, UsualRuntimes(False))
        stream.put(stream, paths.hand_out())
        if is_taken[number % len(is_taken)]:
            taken.add(agent.look())
            agent.clear()
    taken.add(agent.look())
    assert paths_of(taken.rows) == paths_of(whole.hand_out())


def rows_of(calls: dict[tuple[int, ...], int]) -> Rows:
    """``PATH`` rows of paths whose calls took 10 µs each; parents of paths have to be among them."""
    rows = np.zeros(1 + len(calls), PATH)
    rows["parent"][0] = rows["function"][0] = -1
    numbers: dict[tuple[int, ...], int] = {(): -1}
    for number, (path, count) in enumerate(calls.items(), 1):
        numbers[path] = number
        rows["parent"][number], rows["function"][number] = numbers[path[:-1]], path[-1]
        rows["calls"][number] = count
        rows["exclusive_us"][number] = rows["inclusive_us"][number] = 10 * count
        rows["exclusive_squares"][number] = rows["inclusive_squares"][number] = 100 * count
        for least in ("exclusive_minimum_us", "inclusive_minimum_us"):
            rows[least][number] = 10
        for most in ("exclusive_maximum_us", "inclusive_maximum_us"):
            rows[most][number] = 10
    return rows


def part(program: int, timers: dict[int, str], calls: dict[tuple[int, ...], int]) -> StreamShare:
    return StreamShare(program, 0, timers, NOTHING, paths=rows_of(calls))


def calls_in(delta: Delta) -> dict[int, dict[tuple[int, ...], float]]:
    return {
        one.program: {path: row[0] for path, row in paths_of(np.frombuffer(one.rows, PATH)).items()}
        for one in delta.telemetry.paths
    }


def test_streams_of_one_program_are_added_up_by_the_names_of_functions() -> None:
    statistics = AgentStatistics("agent", 1, PROFILE)
    outgoing = statistics.next_round(
        [
            part(0, {0: "main", 1: "solve"}, {(0,): 0, (0, 1): 5}),
            part(0, {0: "solve", 7: "main"}, {(7,): 1, (7, 0): 2, (7, 0, 9): 4}),
            part(1, {3: "solve"}, {(3,): 1}),
        ],
        {},
    )
    assert outgoing is not None and outgoing.has_paths
    numbers = {(name.program, name.name): name.number for name in outgoing.deltas[0].names}
    main, solve, unnamed, other = (
        numbers[key] for key in ((0, "main"), (0, "solve"), (0, "timer 9 (name not received)"), (1, "solve"))
    )
    assert calls_in(outgoing.deltas[0]) == {
        0: {(main,): 1, (main, solve): 7, (main, solve, unnamed): 4},
        1: {(other,): 1},
    }


def test_paths_are_reported_seldom_and_all_at_the_end() -> None:
    statistics = AgentStatistics("agent", 1, PROFILE)
    reported = 0
    for _ in range(400):
        parts = [part(0, {0: "main"}, {(0,): 1})]
        outgoing = statistics.next_round(parts, {}, has_all=False)
        reported += outgoing is not None and bool(outgoing.deltas[0].telemetry.paths)
    # Of 400 periods the first, then each tenth more, then each twentieth.
    assert 20 < reported < 60
    outgoing = statistics.next_round([part(0, {0: "main"}, {(0,): 1})], {}, has_all=True)
    assert outgoing is not None and calls_in(outgoing.deltas[0]) == {0: {(0,): 1}}


def test_looks_belong_to_the_innermost_call_of_their_thread() -> None:
    """In main on thread 0, 100 to 400, calls f from 150 to 250; on thread 3 f is called from 120 to 200."""
    events = [
        (0, 0, 1, 100),
        (3, 0, 2, 120),
        (0, 0, 2, 150),
        (3, 1, 2, 200),
        (0, 1, 2, 250),
    ]
    rows = [[0, RANK, thread, kind, function, time] for thread, kind, function, time in events]
    nothing = np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64)
    stacks, paths = CallStacks(RANK), CallPaths()
    stacks.build(TraceStep(0, np.array(rows, np.uint64), *nothing), made_names())
    paths.read(stacks, UsualRuntimes(False))
    looks = [(90, 0), (110, 0), (130, 3), (150, 0), (249, 0), (249, 3), (250, 0), (250, 9)]
    read = np.array([(time, 10, thread, time != 249) for time, thread in looks], LOOK)
    paths.read_looks(stacks, read)
    # A call that was open before, and no other of its thread since.
    stacks.build(TraceStep(1, np.array([[0, RANK, 0, 1, 1, 400]], np.uint64), *nothing), made_names())
    paths.read(stacks, UsualRuntimes(False))
    paths.read_looks(stacks, np.array([(390, 500, 0, 1), (400, 7, 0, 1)], LOOK))
    found = {
        (row["parent"] > 0, int(row["function"])): (float(row["looked_us"]), float(row["asleep_us"]))
        for row in paths.hand_out()[1:]
    }
    assert found == {(False, 1): (520.0, 520.0), (True, 2): (20.0, 10.0), (False, 2): (10.0, 10.0)}
    assert not paths.hand_out()["looked_us"].any(), "each is handed out once"


NAMES = StreamNames(timers={0: "main", 1: "solve", 2: "relax"}, event_types={0: "ENTRY", 1: "EXIT"})
SOLVE_US = 5
"""What ``solve`` takes beside the call inside it."""


class Stream:
    """A rank that calls ``relax`` alone or inside ``solve``, one call a step."""

    def __init__(self, use_inclusive: bool = False, most_paths: int = 64) -> None:
        self.stacks, self.paths = CallStacks(0), CallPaths(most_paths)
        self.usual = UsualRuntimes(use_inclusive, most_paths)
        self._now_us = 1_700_000_000_000_000
        self._step = 0

    def call(self, relax_us: int, in_solve: bool) -> Rows:
        """The calls that it makes, with their paths, ``relax`` first."""
        begin_us, end_us = self._now_us, self._now_us + relax_us
        rows = [(0, 2, begin_us), (1, 2, end_us)]
        if in_solve:
            rows = [(0, 1, begin_us), *rows, (1, 1, end_us + SOLVE_US)]
        events = np.array([(0, 0, 0, kind, timer, time) for kind, timer, time in rows], np.uint64)
        empty = np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64)
        self.stacks.build(TraceStep(self._step, events, *empty), NAMES)
        self.paths.read(self.stacks, self.usual)
        self._now_us, self._step = end_us + 100, self._step + 1
        calls = self.stacks.calls[: self.stacks.count]
        return calls[np.argsort(calls["function"])[::-1]]

    def expected_us(self, calls: Rows, of_function_us: float) -> float:
        """Of the first of them."""
        return float(self.usual.expected_us(calls, np.full(len(calls), of_function_us))[0])


RUNTIMES = st.lists(st.integers(0, 10**7), min_size=1, max_size=400)


@settings(deadline=None)
@given(RUNTIMES)
def test_as_the_slow_twin_has_it(runtimes: list[int]) -> None:
    stream = Stream()
    for runtime in runtimes:
        calls = stream.call(runtime, in_solve=False)
    # The first call of all begins in the dark.
    usual_us = reference.usual_us([float(runtime) for runtime in runtimes[1:]])
    # Far away from the function's, so that the path's counts wherever it is known.
    assert stream.expected_us(calls, 1e12) == pytest.approx(1e12 if usual_us is None else usual_us)


@given(st.floats(0.5, 1e12))
def test_levels_rise_with_the_runtime_and_lead_back_to_it(runtime_us: float) -> None:
    assert level_of(runtime_us) == pytest.approx(reference.level_of(runtime_us))
    assert runtime_of(level_of(runtime_us)) == pytest.approx(runtime_us)
    assert level_of(runtime_us) < level_of(2 * runtime_us)


def of(stream: Stream, runtimes: Sequence[int], in_solve: bool) -> Rows:
    for runtime in runtimes:
        calls = stream.call(runtime, in_solve)
    return calls


def test_a_path_counts_where_it_clearly_differs_from_the_function() -> None:
    stream = Stream()
    alone = of(stream, [10] * 50, in_solve=False).copy()
    inside = of(stream, [1000] * 50, in_solve=True).copy()
    assert stream.expected_us(alone, 12.0) == 12.0
    assert stream.expected_us(inside, 12.0) == pytest.approx(1000)
    assert stream.expected_us(inside, 500.0) == 500.0
    assert stream.expected_us(alone, 500.0) == pytest.approx(10)


def test_few_calls_say_nothing_and_single_delays_little() -> None:
    stream = Stream()
    assert stream.expected_us(of(stream, [1000] * 7, in_solve=True), 12.0) == 12.0
    delayed = of(stream, [1000, 250_000, 1000, 250_000], in_solve=True)
    assert stream.expected_us(delayed, 12.0) == pytest.approx(1000, rel=0.1)


@pytest.mark.compiled
def test_a_function_that_changes_is_followed() -> None:
    stream = Stream()
    calls = of(stream, [100] * 200 + [1000] * 3000, in_solve=True)
    assert stream.expected_us(calls, 1e6) == pytest.approx(1000, rel=0.2)


def test_inclusive_runtimes_are_learned_where_these_are_judged() -> None:
    for use_inclusive, wanted_us in ((False, SOLVE_US), (True, 1000 + SOLVE_US)):
        stream = Stream(use_inclusive)
        solve = of(stream, [1000] * 20, in_solve=True)[1:]
        assert stream.expected_us(solve, 1e9) == pytest.approx(wanted_us)


def test_memory_is_bounded_and_what_is_known_survives_pickling() -> None:
    stream = Stream(most_paths=2)
    alone = of(stream, [10] * 20, in_solve=False)
    again = pickle.loads(pickle.dumps(stream.usual))
    assert float(again.expected_us(alone, np.full(len(alone), 1e6))[0]) == pytest.approx(10)
    # There is no room for further paths: the function's own counts.
    assert stream.expected_us(of(stream, [1000] * 20, in_solve=True), 77.0) == 77.0


NO_ROWS = np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64)
functions = st.integers(1, 6)
moves = st.tuples(
    st.integers(0, 2), st.sampled_from(["call", "call", "return", "lost"]), functions, st.integers(0, 5_000)
)


@given(st.lists(moves, max_size=60), st.lists(st.integers(1, 9), min_size=60, max_size=60))
def test_times_of_random_programs_add_up(moves: list[tuple[int, str, int, int]], lengths: list[int]) -> None:
    """Calls once and often, open ones, some whose EXIT is lost, in steps of any length, some of which are
    missing.
    """
    now_us, rows = 1_000_000, []
    opened: dict[int, list[int]] = {0: [], 1: [], 2: []}
    # Each thread is in one call all the time: what is in none is nobody's.
    rows += [[0, RANK, thread, 0, 7, now_us] for thread in opened]
    for thread, move, function, passed_us in moves:
        now_us += passed_us
        if move == "call":
            opened[thread].append(function)
            rows.append([0, RANK, thread, 0, function, now_us])
        elif opened[thread] and move == "return":
            rows.append([0, RANK, thread, 1, opened[thread].pop(), now_us])
        elif opened[thread]:
            opened[thread].pop()
    ends = itertools.accumulate(lengths)
    steps = [rows[begin:end] for begin, end in itertools.pairwise([0, *ends])]
    numbered = [
        some
        for some in zip(itertools.accumulate(length % 2 + 1 for length in lengths), steps, strict=False)
        if some[1]
    ]
    check((TraceStep(n, np.array(some, np.uint64), *NO_ROWS) for n, some in numbered), made_names())


@pytest.mark.compiled
def test_times_of_a_recorded_trace_add_up(real_traces: Path) -> None:
    for stream in find_recorded([str(real_traces / "heat4" / "*.bp")]):
        with StreamReader(stream.path, "BPFile") as reader:
            check(steps_of(reader), reader.names, stream.rank)


def steps_of(reader: StreamReader) -> Iterator[TraceStep]:
    while isinstance(step := reader.next_step(1.0), TraceStep):
        yield step


def check(steps: Iterable[TraceStep], names: StreamNames, rank: int = RANK) -> None:
    stacks, paths = CallStacks(rank), CallPaths()
    first_us: dict[int, int] = {}
    last_us: dict[int, int] = {}
    by_step_us = 0
    for number, step in enumerate(steps):
        stacks.build(step, names)
        paths.read(stacks, UsualRuntimes(False))
        by_step_us += sum(paths.spent_us(names))
        if number % 3 == 0:
            paths.hand_out()
        for thread, time_us in step.events[:, [2, 5]].tolist():
            first_us.setdefault(thread, time_us)
            last_us[thread] = time_us
    spent_us = float(paths.times()["exclusive_us"].sum())
    span_us = sum(last_us[thread] - first_us[thread] for thread in first_us)
    assert by_step_us == spent_us, "the time of each step is that of all calls"
    assert math.isclose(spent_us + stacks.gap_us, span_us, rel_tol=1e-3), (spent_us, span_us)
