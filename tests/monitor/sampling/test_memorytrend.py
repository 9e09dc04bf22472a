"""Memory that fills: by when it will be full, and when nothing is said."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from chimbuko.monitor.procfs.system import NodeMemory
from chimbuko.monitor.procfs.task import ProcessMemory
from chimbuko.monitor.report.findings import findings
from chimbuko.monitor.sampling.memorytrend import RISES, MemoryGrowth, MemoryTrend
from chimbuko.monitor.sampling.sample import GroupCounters, ProcessCounters
from chimbuko.monitor.sampling.span import Filling, Growth, ProcessSpan
from tests.monitor.sampling.made import COUNTERS, sample, span

GB = 2**30
OWN = span(processes={10: ProcessSpan(10, 3 * GB, 3 * GB), 11: ProcessSpan(11, GB, GB)})


def trend(taken: list[float], limit: float | None = None, total: float = 100.0) -> Filling | None:
    """The last of what is foretold, a second apart, in GB: of a group with a limit, or of the node."""
    watch, found = MemoryTrend(), None
    for second, used in enumerate(taken):
        made = sample(float(second), COUNTERS)
        made.memory = NodeMemory(int(total * GB), GB, int((total - used) * GB))
        if limit is not None:
            made.groups = {10: GroupCounters(int(used * GB), int(limit * GB), None)}
        found = watch.step(made, OWN)
    return found


def test_it_is_foretold_when_a_group_is_full() -> None:
    found = trend([4.0 + 0.5 * second for second in range(RISES + 1)], limit=10.0)
    assert found is not None and found.is_of_group and found.pid == 10
    assert found.bytes_per_s == pytest.approx(0.5 * GB)
    last_us = sample(float(RISES), COUNTERS).wall_us
    assert (found.full_us - last_us) / 1e6 == pytest.approx(6.0, abs=0.01)
    (finding,) = findings(span(filling=found))
    assert finding.kind == "memory filling"
    assert "7.0 GB of 10.0 GB are taken, and 512 MB more each second; process 10 of" in finding.text
    node = trend([60.0 + second for second in range(RISES + 1)])
    assert node is not None and not node.is_of_group


@pytest.mark.parametrize(
    "taken",
    [
        [4.0 + 0.5 * second for second in range(RISES)],
        [1.0 + 0.1 * second for second in range(RISES + 5)],
        [6.0, 7.0, 8.0, 7.5, 8.0, 8.5, 9.0, 9.1],
        [8.0] * 20,
        [8.0 + 0.0001 * second for second in range(RISES + 1)],
    ],
    ids=["at its beginning", "far from full", "given back", "the same", "in hours"],
)
def test_nothing_is_foretold(taken: list[float]) -> None:
    assert trend(taken, limit=10.0) is None


def test_what_was_foretold_is_over_when_it_fills_no_more() -> None:
    filling = trend([4.0 + 0.5 * second for second in range(RISES + 1)], limit=10.0)
    whole = replace(span(), filling=filling).then(span())
    assert whole.filling is None and findings(whole) == []


def grown(taken_mb: list[float], ends: bool = False) -> tuple[Growth, ...]:
    """What is found of a process with so much memory, a second apart, which may have ended then."""
    watch = MemoryGrowth()
    for second, used in enumerate(taken_mb):
        made = sample(float(second), COUNTERS)
        size = int(used * 2**20)
        made.processes = {10: ProcessCounters(ProcessMemory(size, size), None)}
        watch.step(made)
    if ends:
        made = sample(float(len(taken_mb)), COUNTERS)
        made.processes = {}
        watch.step(made)
    return watch.found()


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("seconds", [12, 500])
def test_memory_that_grows_from_begin_to_end_is_found(seconds: int, ends: bool) -> None:
    (found,) = grown([200 + 46.0 * second for second in range(seconds)], ends)
    assert found.bytes == int(46 * (seconds - 1)) * 2**20 and found.seconds == seconds - 1
    (finding,) = findings(span(growing=(found,)))
    assert finding.kind == "memory growing" and "46 MB more each second" in finding.text


def test_a_process_that_ends_may_let_go_of_its_memory_before() -> None:
    (found,) = grown([*(200 + 46.0 * second for second in range(12)), 0.0], ends=True)
    assert found.bytes == 46 * 11 * 2**20


@pytest.mark.parametrize(
    "taken_mb",
    [
        [200 + 46.0 * second for second in range(7)],
        [200 + 2.0 * second for second in range(40)],
        [20 + 46.0 * min(second, 20) for second in range(60)],
        [2000 + 300.0 * (second % 7) for second in range(60)],
        [10_000 + 20.0 * second for second in range(60)],
    ],
    ids=["too short", "little", "loads its data", "up and down", "small beside what it has"],
)
def test_other_memory_does_not_grow(taken_mb: list[float]) -> None:
    assert not grown(taken_mb)
