"""The collector on this machine: real threads are seen, once, and what nobody wants stays on the node."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.monitor.collector import batchmaker
from chimbuko.monitor.collector import collector as collectormodule
from chimbuko.monitor.collector.collector import Collector
from chimbuko.monitor.collector.fastlooks import LEAST_US, TICK_US, Others
from chimbuko.monitor.collector.fastring import SliceRing
from chimbuko.monitor.collector.lossfinder import LEAST_LOST_US
from chimbuko.monitor.collector.watched import Watched
from chimbuko.monitor.procfs.numbers import format_cpulist
from chimbuko.monitor.procfs.task import parse_ended_ticks, parse_stat
from chimbuko.monitor.procfs.topology import PU, read_sysfs
from chimbuko.monitor.report import cores
from chimbuko.monitor.sampling.nodebatch import NodeBatch
from chimbuko.monitor.sampling.procreader import ProcReader
from chimbuko.monitor.sampling.rows import OTHER, THREAD, Rows
from chimbuko.monitor.sampling.sample import ThreadCounters
from tests.patience import PATIENCE_S

FOREVER = 1 << 62


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[bytes]]:
    """A process that computes."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield process
    process.kill()
    process.wait()


def now_us() -> int:
    return time.time_ns() // 1000


def sampled(collector: Collector, looks: int = 10) -> NodeBatch:
    collector.period()
    for _ in range(looks):
        collector.fast(now_us())
        time.sleep(0.02)
    collector.period()
    batch = collector.around([(0, FOREVER)])
    assert batch is not None
    return batch


def test_a_process_that_computes_and_then_is_stopped_is_seen_to(busy: subprocess.Popen[bytes]) -> None:
    collector = Collector("here")
    collector.watch(Watched(busy.pid, 0, 3))
    is_busy = False
    # A wait that goes on is not counted yet, which on a loaded machine may be most of a sample.
    while not is_busy:
        batch = sampled(collector)
        rows = batch.thread_rows()
        is_busy = rows["ran_us"].sum() + rows["waited_us"].sum() > 0.5 * rows["length_us"].sum()
    assert {(one.program, one.rank, one.thread) for one in batch.names} == {(0, 3, 0)}
    os.kill(busy.pid, signal.SIGSTOP)
    # It has to be on a core for that.
    while b") T " not in Path(f"/proc/{busy.pid}/stat").read_bytes():
        time.sleep(0.01)
    stopped = sampled(collector).thread_rows()
    assert stopped["state"][np.argmax(stopped["begin_us"])] == b"T"
    os.kill(busy.pid, signal.SIGCONT)
    # All was given away, and the process has ended: there is nothing more, and no error.
    busy.kill()
    busy.wait()
    collector.period()
    assert collector.around([]) is None
    collector.close()


def test_what_a_rank_lost_is_given_with_its_samples_once(busy: subprocess.Popen[bytes]) -> None:
    collector = Collector("here")
    collector.watch(Watched(busy.pid, 0, 3))
    collector.period()
    times = Path(f"/proc/{busy.pid}/schedstat")
    os.kill(busy.pid, signal.SIGSTOP)
    while b") T " not in Path(f"/proc/{busy.pid}/stat").read_bytes():
        time.sleep(0.01)
    for _ in range(6):
        collector.fast(now_us())
        time.sleep(0.02)
    before = times.read_bytes()
    os.kill(busy.pid, signal.SIGCONT)
    while times.read_bytes() == before:
        time.sleep(0.01)
    collector.fast(now_us())
    collector.period()
    batch = collector.losses()
    assert batch is not None and collector.losses() is None
    (loss,) = batch.losses
    assert (loss.program, loss.rank, loss.is_stopped) == (0, 3, True)
    assert LEAST_LOST_US <= loss.lost_us == loss.end_us - loss.begin_us
    assert batch.begin_us <= loss.begin_us < loss.end_us <= batch.end_us
    assert b"T" in batch.look_rows()["state"].tolist()
    collector.close()


def test_what_a_rank_did_before_it_was_watched_is_not_in_its_time(busy: subprocess.Popen[bytes]) -> None:
    collector = Collector("here")
    while cpu_s(busy.pid) < 0.5:
        time.sleep(0.05)
    collector.period()
    time.sleep(0.02)
    collector.watch(Watched(busy.pid, 0, 0))
    collector.period()
    sampled(collector)
    batch = collector.due_sum(now_us(), is_last=True)
    collector.close()
    assert batch is not None
    (row,) = batch.thread_rows()
    assert 0 < row["ran_us"] <= 1.1 * row["length_us"]


def test_what_a_process_slept_before_its_trace_began_is_not_in_the_time_of_the_rank(
    busy: subprocess.Popen[bytes],
) -> None:
    collector = Collector("here")
    collector.period()
    collector.expect(busy.pid, now_us())
    os.kill(busy.pid, signal.SIGSTOP)
    for _ in range(20):
        looked_us = now_us()
        collector.fast(looked_us)
        time.sleep(0.02)
    os.kill(busy.pid, signal.SIGCONT)
    began_us = now_us()
    collector.watch(Watched(busy.pid, 0, 0), began_us)
    sampled(collector)
    batch = collector.due_sum(now_us(), is_last=True)
    ended_us = now_us()
    collector.close()
    assert batch is not None
    (row,) = batch.thread_rows()
    assert looked_us <= row["begin_us"] <= began_us
    assert row["begin_us"] + row["length_us"] <= ended_us


def cpu_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_bytes().split()[0]) / 1e9


def test_a_sum_has_what_all_threads_cores_and_the_node_did(busy: subprocess.Popen[bytes]) -> None:
    collector = Collector("here")
    collector.watch(Watched(busy.pid, 0, 0))
    assert collector.due_sum(now_us()) is None
    sampled(collector)
    assert collector.due_sum(now_us()) is None
    batch = collector.due_sum(now_us(), is_last=True)
    assert batch is not None and batch.is_sum
    assert len(batch.thread_rows()) == len(batch.state_rows()) == 1
    assert len(batch.core_rows()) == len(set(batch.core_rows()["cpu"].tolist())) > 0
    # It says where threads may run, how the node is built, as the kernel has it.
    assert {one.cpus for one in batch.names} == {format_cpulist(os.sched_getaffinity(busy.pid))}
    assert {one.cpus for one in batch.parts if one.kind == PU} == {str(cpu) for cpu in read_sysfs().cpus()}
    collector.close()


def test_what_was_wrong_in_the_time_of_a_sum_comes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # However many others run here now.
    monkeypatch.setattr(cores, "OWN_SHARE", 0.0)
    crowd = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    collector = Collector("here")
    core = min(os.sched_getaffinity(0))
    for rank, process in enumerate(crowd):
        os.sched_setaffinity(process.pid, {core})
        collector.watch(Watched(process.pid, 0, rank))
    try:
        sampled(collector, looks=20)
        batch = collector.due_sum(now_us(), is_last=True)
    finally:
        collector.close()
        for process in crowd:
            process.kill()
            process.wait()
    assert batch is not None
    found = {one.kind: one for one in batch.findings}
    assert f"share 1 core ({core})" in found["oversubscribed"].text


def test_sums_become_longer_so_that_their_number_grows_slowly(
    busy: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batchmaker, "SUMS_OF_A_LENGTH", 2)
    collector = Collector("here")
    collector.watch(Watched(busy.pid, 0, 0))
    collector.period()
    lengths_s = []
    for second in range(1, 321):
        if second % 10 == 1:
            collector.period()
        batch = collector.due_sum(1_000_000 * second)
        if batch is not None:
            lengths_s.append((batch.end_us - batch.begin_us) // 1_000_000)
            assert len(batch.thread_rows()) == 1
    assert lengths_s == [10, 10, 20, 20, 40, 40, 80, 80]
    collector.close()


def test_a_rank_that_has_ended_has_a_name_in_the_last_batches(busy: subprocess.Popen[bytes]) -> None:
    collector = Collector("here")
    collector.watch(Watched(busy.pid, 0, 3))
    collector.period()
    time.sleep(0.1)
    collector.period()
    busy.kill()
    busy.wait()
    collector.period()
    for batch in (collector.around([(0, FOREVER)]), collector.due_sum(now_us(), is_last=True)):
        assert batch is not None and [(one.pid, one.rank) for one in batch.names] == [(busy.pid, 3)]
    collector.close()


def test_of_a_run_no_more_rows_leave_the_node_than_there_is_room_for(
    busy: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = Collector("here")
    collector.watch(Watched(busy.pid, 0, 0))
    first = sampled(collector)
    monkeypatch.setattr(batchmaker, "MOST_KEPT_ROWS", 0)
    collector.period()
    assert first.left_out == 0 and collector.around([(0, FOREVER)]) is None
    batch = collector.due_sum(now_us(), is_last=True)
    assert batch is not None and batch.left_out > 0, "and the sums go on"
    collector.close()


def test_another_process_that_runs_is_named(busy: subprocess.Popen[bytes]) -> None:
    others = Others(ProcReader())
    assert not len(others.look(now_us(), {}))
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        time.sleep(0.1)
        rows = others.look(now_us(), {})
        if len(own := rows[rows["pid"] == busy.pid]):
            break
    assert own["name"][0].startswith(b"python") and own["ran_us"][0] > 0 and own["user"][0]
    assert busy.pid not in others.look(now_us(), {busy.pid})["pid"]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=40), st.integers(1, 12))
def test_a_row_leaves_a_ring_once_at_most_and_the_newest_stay(
    rows: list[tuple[int, int]], capacity: int
) -> None:
    ring = SliceRing(THREAD, capacity)
    begins_us, end_us = [], 0
    for number, (later_us, length_us) in enumerate(rows):
        end_us += later_us
        begins_us.append(end_us - length_us)
        row = np.zeros(1, THREAD)
        row["begin_us"], row["length_us"], row["tid"] = begins_us[-1], length_us, number
        ring.put(row)
    first, second = ring.take(0, 15)["tid"].tolist(), ring.take(-FOREVER, FOREVER)["tid"].tolist()
    newest = range(max(0, len(rows) - capacity), len(rows))
    assert sorted(first + second) == list(newest)
    assert all(begins_us[number] < 15 for number in first)


def test_processes_that_ran_last_are_looked_at_again_without_all_the_others(
    busy: subprocess.Popen[bytes],
) -> None:
    others = Others(ProcReader())
    others.look(now_us(), {})
    deadline, is_seen = time.monotonic() + PATIENCE_S, False
    while time.monotonic() < deadline and not is_seen:
        time.sleep(0.2)
        # Found by a full look it is seen in the next one, unless many others have run more.
        if busy.pid in others.look(now_us(), {})["pid"]:
            time.sleep(0.2)
            is_seen = busy.pid in others.look_again(now_us(), [])["pid"]
    assert is_seen


def test_a_process_that_has_just_begun_is_looked_at_again_before_it_has_run_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # However many others run here now.
    monkeypatch.setattr("chimbuko.monitor.collector.fastlooks.MOST_SUSPECTS", 1_000_000)
    others = Others(ProcReader())
    others.look(now_us(), {})
    command = ["/bin/sh", "-c", "read go; while :; do :; done"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as burst:
        assert burst.stdin is not None
        assert burst.pid not in others.look(now_us(), {})["pid"]
        burst.stdin.write(b"\n")
        burst.stdin.flush()
        deadline, own = time.monotonic() + PATIENCE_S, np.zeros(0, OTHER)
        while time.monotonic() < deadline and not len(own):
            time.sleep(0.02)
            rows = others.look_again(now_us(), [])
            own = rows[rows["pid"] == burst.pid]
        burst.kill()
    assert len(own) and 0 < own["ran_us"][0] <= own["length_us"][0] + 20_000


@contextmanager
def started(script: str) -> Iterator[subprocess.Popen[bytes]]:
    """A shell that runs a script in a session of its own."""
    with subprocess.Popen(
        ["/bin/sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as shell:
        try:
            yield shell
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


def of(pid: int, rows: Rows) -> int:
    return int(rows["ran_us"][rows["pid"] == pid].sum())


def test_short_processes_count_with_the_one_that_started_them() -> None:
    others = Others(ProcReader())
    others.look(now_us(), {})
    with started(f"while :; do {sys.executable} -S -c 'for _ in range(500000): pass'; done") as shell:
        ran_us, own_us = 0, 0
        while ran_us < 200_000 + own_us:
            time.sleep(0.05)
            ran_us += of(shell.pid, others.look(now_us(), {}))
            stat = parse_stat(Path(f"/proc/{shell.pid}/stat").read_bytes())
            assert stat is not None
            own_us = (stat.user_ticks + stat.system_ticks) * TICK_US


def test_what_a_process_ran_is_no_news_when_the_one_that_started_it_has_seen_it_to_its_end() -> None:
    others = Others(ProcReader())
    others.look(now_us(), {})
    with started("while :; do :; done & echo $!; read go; kill $!; wait; read end") as shell:
        assert shell.stdin is not None and shell.stdout is not None
        child, ran_us = int(shell.stdout.readline()), 0
        while ran_us < 200_000:
            time.sleep(0.05)
            ran_us += of(child, others.look(now_us(), {}))
        shell.stdin.write(b"go\n")
        shell.stdin.flush()
        stat = Path(f"/proc/{shell.pid}/stat")
        while not parse_ended_ticks(stat.read_bytes()):
            time.sleep(0.01)
        of_shell_us = sum(of(shell.pid, others.look(now_us(), {})) for _ in range(2))
        # What it ran after it was looked at last may be news.
        assert of_shell_us <= parse_ended_ticks(stat.read_bytes()) * TICK_US - ran_us + LEAST_US


def test_what_ended_processes_ran_is_not_known_where_stat_is_damaged() -> None:
    numbers = b" ".join([b"1"] * 45)
    assert parse_ended_ticks(b"7 (a) b) S " + numbers) == 2
    for data in (b"", b"7 (app) S 1 2", b"7 (app) S " + numbers.replace(b"1", b"-1")):
        assert parse_ended_ticks(data) == 0


def test_a_process_is_looked_at_before_it_is_known_to_be_a_rank(
    busy: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collectormodule, "SOON_US", 0)
    collector, began_us = Collector("here"), now_us()
    for pid in (busy.pid, os.getppid()):
        collector.expect(pid, began_us)
    for _ in range(3):
        collector.fast(now_us())
        time.sleep(0.02)
    known_us = now_us()
    collector.watch(Watched(busy.pid, 0, 0))
    batch = sampled(collector)
    rows = batch.look_rows()
    collector.close()
    assert set(rows["pid"].tolist()) == {busy.pid}, "who has started the rank is looked at no longer"
    assert busy.pid not in batch.other_rows()["pid"], "it was one of the others until it was known"
    assert rows["begin_us"].min() < known_us


def test_further_stacks_of_a_thread_are_its_own_until_another_one_has_their_number() -> None:
    names = batchmaker.ThreadNames()
    for tid, thread in ((7, 0), (8, 3), (7, 1), (7, 2), (7, 1)):
        names.number(7, tid, thread)
    assert (names.number_of(7, 7), names.number_of(7, 8), names.number_of(7, 9)) == (0, 3, None)
    names.number(7, 8, 2)
    counters = ThreadCounters(7, 7, "app", "S", 0, 0, 0, 0, 0, 0, 0, 0, "0", 0, 0, 0)
    names.note({7: Watched(7, 0, 0)}, {7: counters, 8: counters._replace(tid=8)})
    assert [(one.thread, one.stacks) for one in names.of([7, 8])] == [(0, (1,)), (3, (2,))]
