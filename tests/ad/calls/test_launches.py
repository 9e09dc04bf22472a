"""GPU calls and the calls that launched them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from chimbuko.ad.calls.launches import Launches, ring
from chimbuko.ad.calls.selection import NO_COUNTERS, NO_LAUNCHES, Selection, table
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.calls.windows import StepFacts, Windows
from chimbuko.ad.kernels import correlation as kernels
from chimbuko.ad.kernels.stack import CALL, NONE, THREAD
from chimbuko.core.arrays import Table
from chimbuko.core.calls.record import CallRecord, StreamHealth, call_id
from chimbuko.core.calls.recordarrays import PackedRecords, unpack
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import COUNTER_THREAD, COUNTER_VALUE
from tests.plainpython import examples
from tests.reference.gpu import FIRST_ID, RANK, GpuTrace, Place, Task, gpu_tasks, gpu_trace, names

EXAMPLES = examples(120)
HEALTH = StreamHealth(0, RANK, "node1", "reading", 0, 0, 0, 0, 0, 0, {})
CONFIG = AnalysisConfig(window_calls=2, final_after_steps=3)


def selection_of(stacks: CallStacks) -> Selection:
    """All calls of GPU threads that have ended."""
    calls = stacks.calls[: stacks.count]
    on_gpu = stacks.threads["id"][calls["thread"]] > 0
    rows = np.flatnonzero((calls["exit"] > 0) & on_gpu).astype(np.int32)
    ones = np.ones(len(rows))
    return Selection(rows, ones > 0, ones, ones, ones, ones, ones)


def unpacked(records: PackedRecords) -> list[CallRecord]:
    return unpack(records, HEALTH, "sstd")


def run(trace: GpuTrace, launches: Launches, config: AnalysisConfig = CONFIG) -> list[tuple[int, CallRecord]]:
    """All records with the number of the step that gave them."""
    stacks, windows, known = CallStacks(RANK), Windows(config), names()
    records: list[tuple[int, CallRecord]] = []
    for step in trace.steps:
        stacks.build(step, known)
        selection = selection_of(stacks)
        found = launches.of_calls(step, known, stacks, selection)
        counters = replace(NO_COUNTERS, owners=stacks.counter_calls)
        facts = StepFacts(step.step, (0, 0), 0, counters, launches.is_gpu)
        made = windows.step(
            step, known, stacks, facts, np.zeros((len(step.comms), 2), np.uint32), selection, found
        )
        records += [(step.step, record) for record in unpacked(launches.complete(made))]
    finished = unpacked(launches.complete(windows.finish()))
    return records + [(len(trace.steps), record) for record in finished]


def identity(place: Place) -> str:
    return call_id(0, RANK, *place)


@EXAMPLES
@given(gpu_tasks())
def test_a_kernel_is_told_what_launched_it_as_soon_as_both_are_known(tasks: list[Task]) -> None:
    trace = gpu_trace(tasks)
    records = run(trace, Launches())
    for kernel, stack in trace.launches.items():
        mine = [(step, record) for step, record in records if record.id == identity(kernel)]
        assert [record.revision for _, record in mine] == list(range(1, len(mine) + 1))
        assert mine[-1][1].is_final
        for step, record in mine:
            is_known = step >= max(kernel[0], stack[0][0])
            assert record.launch_id == (identity(stack[0]) if is_known else "")
            assert [frame.id for frame in record.launch_stack] == [
                identity(place) for place in stack if is_known
            ]
            assert record.launch_thread == (0 if is_known else -1)
            assert record.is_gpu
        assert any(step == max(kernel[0], stack[0][0]) for step, _ in mine)


def test_the_stack_of_a_launch_is_that_of_its_time() -> None:
    """When the kernel appears in the trace, the calls around the launch have long ended."""
    tasks = [Task(1, 0, 4), Task(1, 1, 4), Task(1, 2, 4), Task(1, 3, 4)]
    records = run(gpu_trace(tasks), Launches())
    first = next(record for _, record in records if record.id == identity((4, 0)))
    assert [(frame.function, frame.exit_us > 0) for frame in first.launch_stack] == [
        ("cudaLaunchKernel", True),
        ("solve", False),
        ("main", False),
    ]


def test_ids_of_functions_that_are_left_out_launch_nothing() -> None:
    trace = gpu_trace([Task(1, 0, 0), Task(1, 1, 1)])
    for pattern, has_launch in (("solve", True), ("cuda*", False)):
        records = run(trace, Launches(uncorrelated=(pattern,)))
        assert {bool(record.launch_id) for _, record in records} == {has_launch}


def test_a_gpu_call_without_an_id_has_no_launch_whatever_its_neighbours_have() -> None:
    trace = gpu_trace([Task(1, 0, 0), Task(1, 0, 0)])
    (step,) = trace.steps
    is_first = (step.counters[:, COUNTER_VALUE] == FIRST_ID) & (step.counters[:, COUNTER_THREAD] == 1)
    trace.steps[0] = replace(step, counters=step.counters[~is_first])
    launched = {record.id: record.launch_id for _, record in run(trace, Launches())}
    (without, _), (with_id, stack) = trace.launches.items()
    assert launched[identity(without)] == "" and launched[identity(with_id)] == identity(stack[0])


@pytest.mark.parametrize("maker", ["CUDA", "ROCM"])
def test_threads_of_a_gpu_are_told_by_their_metadata(maker: str) -> None:
    trace = gpu_trace([Task(1, 0, 0), Task(3, 0, 0)])
    stacks, launches = CallStacks(RANK), Launches()
    (step,) = trace.steps
    stacks.build(step, names(maker))
    launches.of_calls(step, names(maker), stacks, selection_of(stacks))
    of_threads = dict(zip(stacks.threads["id"].tolist(), launches.is_gpu.tolist(), strict=True))
    assert [of_threads[thread] for thread in (0, 1, 3)] == [0, 1, 1]


def test_launches_that_there_is_no_room_for_are_counted() -> None:
    """The latest are kept; a ring of 32 has room for eight launches, each in a step with its two callers."""
    tasks = [Task(1, number, 40) for number in range(40)]
    trace = gpu_trace(tasks)
    launches = Launches(most_nodes=32)
    records = [record for _, record in run(trace, launches)]
    known = [record for record in records if record.revision == 1 and record.launch_id]
    assert 8 <= len(known) <= 12
    latest = list(trace.launches)[-len(known) :]
    assert {record.id for record in known} == {identity(kernel) for kernel in latest}
    for record in known:
        _, _, step, row = record.id.split(":")
        stack = [identity(place) for place in trace.launches[int(step), int(row)]]
        # Of the oldest one's stack a part may be gone.
        assert [frame.id for frame in record.launch_stack] == stack[: len(record.launch_stack)]
    assert launches.lost() == {"launches forgotten before their GPU call": 40 - len(known)}


def test_records_that_wait_for_ever_are_given_up_and_counted() -> None:
    tasks = [Task(1, 30, number) for number in range(30)]
    launches = Launches(most_waiting=10)
    records = run(gpu_trace(tasks), launches)
    assert len({record.id for _, record in records if record.launch_id}) == 10
    assert launches.lost() == {"records of GPU calls without their launch": 20}


def test_a_stream_without_a_gpu_is_left_alone() -> None:
    trace = gpu_trace([Task(1, 0, 0)])
    launches, stacks, known = Launches(), CallStacks(RANK), names()
    known.counters.clear()
    known.metadata.clear()
    stacks.build(trace.steps[0], known)
    found = launches.of_calls(trace.steps[0], known, stacks, selection_of(stacks))
    assert found is NO_LAUNCHES and not launches.is_gpu.any() and launches.lost() == {}


NODES = 16
THREAD_ID = 7
ids = st.integers(0, 40).map(lambda number: number * ((1 << 21) + 1) if number % 3 else number)


def one_thread() -> Table:
    threads = table(THREAD, 1)
    threads["id"][0] = THREAD_ID
    return threads


class SlowLaunches:
    """Remembers the last ``NODES`` launches; the calls have no callers, so each is one node."""

    def __init__(self) -> None:
        self.nodes: list[tuple[int, bool]] = []
        self.forgotten = 0

    def note(self, identity: int) -> None:
        if len(self.nodes) >= NODES:
            old, is_paired = self.nodes[-NODES]
            is_newest = old not in [node[0] for node in self.nodes[-NODES + 1 :]]
            self.forgotten += is_newest and not is_paired
        self.nodes.append((identity, False))

    def find(self, identity: int) -> int:
        for number in range(len(self.nodes) - 1, max(len(self.nodes) - NODES, 0) - 1, -1):
            if self.nodes[number][0] == identity:
                self.nodes[number] = identity, True
                return number
        return NONE


@examples(200)
@given(st.lists(st.tuples(st.booleans(), ids), max_size=120))
def test_the_newest_launch_of_an_id_is_found_until_it_is_overwritten(steps: list[tuple[bool, int]]) -> None:
    launches, slow = ring(NODES), SlowLaunches()
    calls = table(CALL, 1)
    calls[0] = np.zeros(1, CALL)[0]
    calls["parent"][0] = NONE
    for is_launch, identity in steps:
        one = np.array([identity], np.uint64)
        if is_launch:
            slow.note(identity)
            kernels.note_launches(
                one,
                np.zeros(1, np.int32),
                calls,
                one_thread(),
                np.zeros(1, np.uint8),
                launches,
                np.full(1, NONE, np.int64),
            )
        found = np.empty(1, np.int64)
        kernels.find_launches(one, launches, found)
        assert found[0] == slow.find(identity)
        assert found[0] == NONE or launches.threads[found[0] % NODES] == THREAD_ID
    assert launches.state[kernels.FORGOTTEN] == slow.forgotten


@examples(60)
@given(st.lists(ids, max_size=NODES))
def test_a_larger_ring_holds_the_same(noted: list[int]) -> None:
    small, large = ring(NODES), ring(4 * NODES)
    calls = table(CALL, 1)
    calls[0] = np.zeros(1, CALL)[0]
    calls["parent"][0] = NONE
    rows = np.zeros(len(noted), np.int32)
    keys = np.array(noted, np.uint64)
    free = np.full(1, NONE, np.int64)
    kernels.note_launches(keys, rows, calls, one_thread(), np.zeros(1, np.uint8), small, free)
    kernels.move_nodes(small, large)
    found = np.empty((2, len(noted)), np.int64)
    kernels.find_launches(keys, small, found[0])
    kernels.find_launches(keys, large, found[1])
    assert (large.threads[: len(noted)] == THREAD_ID).all()
    assert np.array_equal(found[0], found[1]) and (found[0] != NONE).all()
