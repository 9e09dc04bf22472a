"""Call paths of a stream, against the slow twin, and their way to the agent."""

from __future__ import annotations

import mmap
import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.analysis.streamstatistics import Learned
from chimbuko.ad.calls.callpaths import LOOK, CallPaths, UsualRuntimes, busiest
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.handoff.outbox import PathOutbox
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics, StreamShare
from chimbuko.core.arrays import Rows
from chimbuko.core.calls.pathtable import PATH, PathTable
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.core.traceschema import TraceStep
from chimbuko.runtime.protocol.messages import Delta
from tests.plainpython import examples
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
