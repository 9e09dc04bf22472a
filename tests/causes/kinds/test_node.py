"""Each cause that lies in the node, by the smallest samples that show it, and by those that look like it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.kinds.gpu import gpu_queue_full, waited_for_gpu
from chimbuko.causes.kinds.registry import IN_NODE, cause_of
from chimbuko.causes.kinds.split import main_part, split
from chimbuko.causes.part import LIMIT, Part
from chimbuko.monitor.procfs.systemcalls import CHILDREN, CONDITION, FILES, LOCKS, NAP_NAMES, SOCKETS
from chimbuko.monitor.sampling.nodebatch import Awaited, NodeBatch, ThreadName
from chimbuko.monitor.sampling.rows import NOBODY
from tests.causes.flagged import at, flag
from tests.causes.nodes import batch, gpu, names, other, thread, ticks

SLOW = flag("compute", 1, 0, 200)
"""199 ms too long."""
SLEEP = 230
"""Number of clock_nanosleep on x86-64: no file, socket or lock on any machine."""
FULL = [(at(0), 1_000_000, 0, 0, 0, 0, 0, 0, 99, 100)]
"""A node whose control groups have no memory left."""


def parts(samples: NodeBatch, one: Flag = SLOW) -> list[Part]:
    evidence = Evidence()
    evidence.put(one)
    evidence.put_samples(samples)
    return split(one, evidence)


def top(*looks: Any, **more: Any) -> Part:
    """Main part of a call, for looks at its thread."""
    return main_part(parts(batch([row for rows in looks for row in rows], **more)))


def around(**values: Any) -> list[Any]:
    """A second before and after the call."""
    return [*ticks(1, -1000, 0, **values), *ticks(1, 200, 1200, **values)]


def test_a_call_whose_thread_ran_or_of_which_nothing_is_known_lost_time_in_its_own_code() -> None:
    assert [part.kind for part in parts(batch(ticks(1, 0, 200)))] == ["own code"]
    assert [part.kind for part in parts(batch(ticks(2, 0, 200), names=names(1)))] == ["own code"]


def test_who_slept_because_it_wanted_to_was_asleep() -> None:
    """Which is not the node's doing."""
    for call, name in NAP_NAMES.items():
        part = top(ticks(1, 0, 200, ran_us=0, state=b"S", call=call))
        assert (part.kind, part.by) == ("asleep", name) and part.lost_us == pytest.approx(199_000)
        assert cause_of(part.kind).clause(part, 1) == f"as it slept 199 ms ({name})"


def test_who_waits_for_its_child_says_which() -> None:
    waiting = ticks(1, 0, 200, ran_us=0, state=b"S", call=min(CHILDREN))
    of_child = [Awaited(101, at(0), at(20), "bash"), Awaited(101, at(20), at(200), "rsync")]
    of_others = [Awaited(101, at(-300), at(-1), "before"), Awaited(102, at(0), at(200), "another's")]
    of_others += [Awaited(101, at(5_000), at(5_200), "rsync")]
    part = top(waiting, awaited=[*of_child, *of_others])
    assert (part.kind, part.by) == ("waited for process", "rsync")
    assert cause_of(part.kind).clause(part, 1) == "as it waited 199 ms for its child process rsync to end"
    assert cause_of(part.kind).clause(top(waiting), 1) == "as it waited 199 ms for its child process to end"


def test_a_wait_for_storage_names_the_file() -> None:
    part = top(
        ticks(1, 0, 200, ran_us=0, state=b"D", call=min(FILES)),
        awaited=[Awaited(101, at(0), at(200), "/data/checkpoint")],
    )
    assert cause_of(part.kind).clause(part, 1) == "as it waited 199 ms for storage (/data/checkpoint)"
    seen = [
        Awaited(101, at(0), at(100), "/data/checkpoint", 1 << 20, 2 << 20),
        Awaited(101, at(100), at(200), "/data/checkpoint", 9 << 20, 13 << 20),
        Awaited(101, at(900), at(999), "/data/checkpoint", 0, 99 << 20),
    ]
    part = top(ticks(1, 0, 200, ran_us=0, state=b"D", call=min(FILES)), awaited=seen)
    assert cause_of(part.kind).clause(part, 1) == "as it waited 199 ms for storage (/data/checkpoint, 12 MB)"


def test_a_condition_is_no_lock() -> None:
    waiting = ticks(1, 0, 200, ran_us=0, state=b"S", call=CONDITION)
    assert top(waiting).kind == "waited for thread"
    worker = ThreadName(101, 900, "worker", 0, 1, -1)
    assert top(waiting, ticks(1, 0, 200, tid=900), names=[*names(), worker]).by == "worker"


def test_stopped_is_the_time_in_state_t() -> None:
    still = ticks(1, 20, 180, state=b"T", ran_us=0)
    part = top(ticks(1, 0, 20), still, ticks(1, 180, 200))
    assert part.kind == "stopped" and part.lost_us == pytest.approx(160_000)


def test_a_call_that_ran_for_longer_than_it_waited_was_not_held_up_by_others() -> None:
    busy = ticks(1, 0, 200, ran_us=13_000, waited_us=7_000)
    found = parts(batch([*around(), *busy]))
    assert [(part.kind, round(part.lost_us, -3)) for part in found] == [
        ("waited for core", 70_000),
        ("own code", 129_000),
    ]


def test_on_a_machine_where_all_wait_a_call_that_computes_longer_does_so_by_itself() -> None:
    shared = {"ran_us": 8_000, "waited_us": 12_000}
    assert top(around(**shared), ticks(1, 0, 200, **shared)).kind == "own code"
    # The same wait is a cause where it is not usual of it, whatever there was around the call.
    long_ago = batch([], periods=[thread(1, -60_000, -2_000, slices=9_000)], is_sum=True)
    evidence = Evidence()
    evidence.put(SLOW)
    for samples in (long_ago, batch([*around(**shared), *ticks(1, 0, 200, **shared)])):
        evidence.put_samples(samples)
    assert main_part(split(SLOW, evidence)).kind == "waited for core"
    assert top(around(), ticks(1, 0, 200, **shared)).kind == "waited for core"


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        ({"minor_faults": 8_000, "system_us": 9_000}, "page faults"),
        ({"minor_faults": 600, "system_us": 9_000}, "page faults"),
        ({"minor_faults": 20, "system_us": 9_000}, "system time"),
        ({"system_us": 9_000, "migrations": 1, "slices": 60}, "migration"),
    ],
)
def test_time_in_the_kernel_is_by_what_brought_it_there_also_where_all_wait(
    cause: dict[str, int], kind: str
) -> None:
    calm = around(ran_us=10_000, waited_us=10_000)
    assert top(calm, ticks(1, 0, 200, ran_us=10_000, waited_us=10_000, **cause)).kind == kind
    (part, *_) = parts(batch([*around(), *ticks(1, 0, 200, **{**cause, "system_us": 18_000})]))
    assert part.kind == kind and part.lost_us == pytest.approx(180_000, rel=0.01)


def test_who_never_stays_on_a_core_for_long_runs_for_being_moved_too() -> None:
    """Ticks of 10 ms do not see the kernel in so short slices; what follows them runs with cold caches."""
    moved = {"ran_us": 14_000, "waited_us": 3_000, "state": b"D", "call": SLEEP, "slices": 700}
    (part,) = parts(batch([*around(), *ticks(1, 0, 200, migrations=700, **moved)]))
    assert part.kind == "migration" and part.lost_us == pytest.approx(199_000)
    # Of 50 µs each that is a small part of what it ran.
    (first, second) = parts(batch([*around(), *ticks(1, 0, 200, ran_us=19_000, migrations=40, slices=40)]))
    assert (first.kind, second.kind) == ("migration", "own code")
    assert first.lost_us == pytest.approx(20_000)


def test_threads_that_share_cores_are_moved_now_and_then_and_wait_for_them() -> None:
    shared = ticks(1, 0, 200, ran_us=5_000, waited_us=15_000, slices=8, migrations=1)
    assert top(around(), shared).kind == "waited for core"


def test_short_sleeps_for_a_disk_are_no_wait_for_a_core() -> None:
    # Woken 20 times in a look, each time behind another one that computes.
    calm = around(ran_us=4_000, waited_us=2_000, slices=4, state=b"S")
    disk = ticks(1, 0, 200, ran_us=2_000, waited_us=10_000, slices=20, state=b"D", call=min(FILES))
    assert top(calm, disk).kind == "storage"
    # Nor is it moved all the time because it wakes up now here and now there.
    moved = ticks(1, 0, 200, ran_us=2_000, slices=20, state=b"D", call=min(FILES), migrations=1)
    assert top(around(), moved).kind == "storage"


def test_who_ran_on_the_core_meanwhile_took_it() -> None:
    waiting = ticks(1, 0, 200, ran_us=4_000, waited_us=16_000, core=1)
    part = top(waiting, others=[other(-100, 300, 1, 350), other(-9, 300, 0, 300)])
    assert (part.kind, part.by, part.is_foreign, part.core) == (
        "waited for core",
        "spinner (root, process 4711)",
        True,
        1,
    )
    assert part.lost_us == pytest.approx(160_000)
    part = top(waiting, ticks(2, 0, 200, core=1, ran_us=16_000))
    assert (part.by, part.is_foreign) == ("rank 2", False)
    for beside in (ticks(2, 0, 200, core=0), ticks(2, 0, 200, core=1, ran_us=4_000)):
        assert (top(waiting, beside).by, top(waiting, beside).core) == ("", None)
    throttled = [(at(0), 1_000_000, 0, 0, 0, 0, 0, 160_000, 0, 0)]
    assert top(waiting, states=throttled).by == LIMIT


def test_a_wait_that_polls_on_a_shared_core_is_a_wait_all_the_same() -> None:
    polling = batch(ticks(1, 0, 200, ran_us=10_000, waited_us=10_000))
    assert [part.kind for part in parts(polling, flag("MPI_Allreduce()", 1, 0, 200))] == ["not explained"]


def test_a_few_page_faults_do_not_explain_much_time_in_the_kernel() -> None:
    assert top(ticks(1, 0, 200, minor_faults=50, system_us=18_000)).kind == "system time"
    found = top(ticks(1, 0, 200, minor_faults=20_000, system_us=18_000))
    assert (found.kind, found.count) == ("page faults", 200_000)


def test_memory_is_short_where_pages_are_read_back_or_the_group_has_none_left() -> None:
    found = top(ticks(1, 0, 200, major_faults=150, ran_us=0, state=b"D"))
    assert found.kind == "memory pressure"
    found = top(ticks(1, 0, 200, system_us=15_000), states=FULL)
    assert found.kind == "memory pressure" and found.lost_us == pytest.approx(149_250)


def test_what_a_thread_sleeps_in_says_what_it_waits_for() -> None:
    def asleep(calls: frozenset[int], state: bytes = b"S") -> str:
        return top(ticks(1, 0, 200, ran_us=0, state=state, call=min(calls))).kind

    assert asleep(FILES) is asleep(FILES, b"D") is asleep(frozenset((SLEEP,)), b"D") == "storage"
    assert asleep(SOCKETS) == "network"
    assert asleep(LOCKS) is asleep(LOCKS, b"D") == "held lock"


def test_a_lock_is_held_by_the_thread_that_runs_meanwhile() -> None:
    sleeping = ticks(1, 0, 200, ran_us=0, state=b"S", call=min(LOCKS))
    holder, idle = ThreadName(101, 900, "holder", 0, 1, -1), ThreadName(101, 901, "idle", 0, 1, -1)
    running = [*ticks(1, 0, 200, tid=900), *ticks(1, 0, 200, tid=901, ran_us=0)]
    part = top(sleeping, running, names=[*names(), holder, idle])
    assert (part.kind, part.by) == ("held lock", "holder")


def test_a_sample_of_a_second_explains_a_short_call_in_it_only_where_nothing_else_can_be() -> None:
    second = thread(1, -300, 700, waited_us=150_000, ran_us=850_000)
    assert [part.kind for part in parts(batch([], periods=[second]))] == ["own code"]
    still = thread(1, -300, 700, ran_us=50_000, state=b"T")
    assert top([], periods=[still]).kind == "stopped"


def test_causes_of_the_node_that_are_less_than_half_together_are_not_why() -> None:
    looks = ticks(1, 0, 200, ran_us=14_000, waited_us=3_000, system_us=4_000, state=b"S", call=SLEEP)
    found = parts(batch([*around(), *looks]))
    assert {part.kind for part in found} == {"waited for core", "system time", "asleep", "own code"}
    assert main_part(found).kind == "own code"


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "ran_us": st.integers(0, 20_000),
                "waited_us": st.integers(0, 60_000),
                "system_us": st.sampled_from([0, 10_000, 20_000]),
                "minor_faults": st.integers(0, 9_000),
                "major_faults": st.integers(0, 200),
                "slices": st.integers(0, 400),
                "migrations": st.integers(0, 1),
                "call": st.sampled_from([-1, SLEEP, *sorted(FILES | SOCKETS | LOCKS)]),
                "state": st.sampled_from([b"R", b"S", b"D", b"T", b"t"]),
            }
        ),
        min_size=10,
        max_size=10,
    ),
    st.booleans(),
)
def test_whatever_is_seen_parts_add_up_to_the_excess(looks: list[dict[str, Any]], is_full: bool) -> None:
    rows = [thread(1, 20 * n, 20 * n + 20, **values) for n, values in enumerate(looks)]
    found = parts(batch([*around(), *rows], states=FULL if is_full else None))
    assert sum(part.lost_us for part in found) == pytest.approx(SLOW.excess_us)
    assert all(part.lost_us > 0 for part in found)
    of_node_us = sum(part.lost_us for part in found if part.kind in IN_NODE)
    assert (main_part(found).kind in IN_NODE) <= (of_node_us >= 0.5 * SLOW.excess_us)


SLEPT = {"ran_us": 0, "state": b"S", "call": SLEEP}
HOT = {"throttled_us": 1_000_000}


def with_gpu(*gpus: Any, **values: Any) -> Part:
    """Main part of a call that slept, as it does while it waits for its GPU."""
    return top(ticks(1, 0, 200, **(values or SLEPT)), gpus=list(gpus))


def test_a_gpu_that_is_slowed_down_or_busier_than_usual_is_a_cause() -> None:
    calm = gpu(-1000, 0, 0.3), gpu(300, 1300, 0.3)
    slowed = with_gpu(*calm, gpu(0, 300, 0.5, throttled_us=300_000))
    assert (slowed.kind, slowed.by) == ("GPU throttled", "GPU 2")
    assert slowed.lost_us == pytest.approx(199_000)
    shared = with_gpu(*calm, gpu(0, 300, 1.0, foreign=1))
    assert (shared.kind, shared.count, shared.is_foreign) == ("GPU busy", 1, True)
    # A program may also spin while it waits for its GPU.
    assert with_gpu(*calm, gpu(0, 300, 1.0), state=b"R").kind == "GPU busy"


def test_what_a_gpu_always_does_or_does_for_others_is_none() -> None:
    calm = gpu(-1000, 0, 0.3), gpu(300, 1300, 0.3)
    assert with_gpu(gpu(-1000, 0), gpu(0, 300), gpu(300, 1300)).kind == "asleep", "always busy"
    always = [gpu(begin, begin + 1000, 0.5, **HOT) for begin in (-1000, 0, 1000)]
    assert with_gpu(*always).kind == "asleep", "always hot"
    assert with_gpu(*calm, gpu(0, 300, 1.0, pid=NOBODY)).kind == "asleep", "nobody of the program"
    assert with_gpu(*calm, gpu(0, 300, 1.0, pid=102)).kind == "asleep", "rank 2's"
    assert with_gpu(*calm, gpu(0, 300, 1.0, pid=101)).kind == "GPU busy"
    assert with_gpu(*calm, gpu(0, 300, 0.0, throttled_us=300_000)).kind == "asleep", "nothing ran"
    # What its thread waited for itself goes first.
    files = {"ran_us": 0, "state": b"D", "call": next(iter(FILES))}
    assert with_gpu(*calm, gpu(0, 300, 1.0), **files).kind == "storage"


def on_gpu(function: str, *on_gpu: Flag) -> list[Part]:
    evidence = Evidence()
    for one in (wait := flag(function, 1, 10, 102), *on_gpu):
        evidence.put(one)
    return [*waited_for_gpu(wait, evidence), *gpu_queue_full(wait, evidence)]


def test_who_waits_for_the_gpu_waits_for_the_slow_call_on_it() -> None:
    slow = flag("stencil", 1, 5, 100, is_gpu=True, row=7)
    others = [
        flag("brief", 1, 20, 30, is_gpu=True, row=8),
        flag("stencil", 2, 5, 100, is_gpu=True),
        flag("later", 1, 5, 300, is_gpu=True, row=9),
        flag("compute", 1, 5, 100, row=11),
    ]
    lost_us = 90_000
    assert on_gpu("cudaStreamSynchronize", slow, *others) == [
        Part("waited for GPU", lost_us, "stencil", call_id=slow.id)
    ]
    assert on_gpu("cudaLaunchKernel", slow, *others) == [
        Part("GPU queue full", lost_us, "stencil", call_id=slow.id)
    ]
    assert on_gpu("cudaDeviceSynchronize", *others) == on_gpu("compute", slow) == []


def test_who_waits_for_a_gpu_that_did_nothing_abnormal_waits_for_it_all_the_same() -> None:
    evidence = Evidence()
    for row, function in enumerate(("cudaStreamSynchronize", "compute")):
        evidence.put(flag(function, 1, 10, 102, row=row))
    of = {one.function: main_part(split(one, evidence)) for one in evidence.flags.values()}
    waited = of["cudaStreamSynchronize"]
    assert (waited.kind, waited.lost_us, waited.call_id) == ("waited for GPU", 91_000, "")
    assert of["compute"].kind == "own code"


def test_a_culprit_is_called_by_what_it_became() -> None:
    """It began as a script, and became the program that took the core."""
    looks = ticks(1, 0, 200, ran_us=2000, waited_us=18_000, core=3)
    began, became = other(0, 60, 3, 55, "python3"), other(60, 200, 3, 130, "hogger")
    part = top(around(), looks, others=[became, began])
    assert part.by == "hogger (root, process 4711)" and part.is_foreign
