"""What is read of a thread, and how often: its files are made up here, and change between two samples."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.monitor.sampling.procreader import MOST_BYTES, ProcFile, ProcReader
from chimbuko.monitor.sampling.sample import ThreadCounters
from chimbuko.monitor.sampling.threadreader import (
    CLOSE_LOOK,
    LITTLE_NS,
    SHORT_NS,
    YOUNG,
    ProcessThreads,
    ThreadReader,
)

TID = 7


class Thread(ProcReader):
    """The files of one thread."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._reader = ThreadReader(self, 1, TID)
        self._samples = 0

    def file(self, path: str, most_bytes: int = MOST_BYTES) -> ProcFile:
        return ProcFile(self, str(self._folder / os.path.basename(path)), most_bytes)

    def stands(
        self,
        ran_ns: int,
        switches: int,
        start_ticks: int = 100,
        user_ticks: int = 0,
        faults: int = 0,
        state: str = "S",
        waited_ns: int = 5,
    ) -> None:
        """What its files say from now on."""
        numbers = [0] * 49
        numbers[6], numbers[10], numbers[18] = faults, user_ticks, start_ticks
        self._write("stat", f"{TID} (app) {state} {' '.join(map(str, numbers))}\n")
        self._write("schedstat", f"{ran_ns} {waited_ns} {switches}\n")
        self._write(
            "status",
            f"Name:\tapp\nCpus_allowed_list:\t0-{switches}\n"
            f"voluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t0\n",
        )

    def counts_no_times(self) -> None:
        """The kernel was started without them."""
        self._write("schedstat", "0 0 0\n")

    def ends(self) -> None:
        """They are gone."""
        for name in ("stat", "schedstat", "status"):
            self._write(name, "")

    def may_run_on(self, cpus: str) -> None:
        """Another has changed its affinity."""
        status = (self._folder / "status").read_text()
        self._write("status", status.replace("0-3", cpus))

    def _write(self, name: str, text: str) -> None:
        # In place, as the kernel's files change.
        (self._folder / name).write_text(text)

    def read(self, closely: bool = False) -> ThreadCounters | None:  # type: ignore[override]
        self._samples += 1
        return self._reader.read(self._samples, closely)


@pytest.fixture
def thread(tmp_path: Path) -> Thread:
    return Thread(tmp_path)


def grown_up(thread: Thread) -> int:
    """Read it until it is not young any more; how often."""
    for sample in range(YOUNG):
        thread.stands(ran_ns=sample, switches=sample)
        found = thread.read()
        assert found is not None and found.voluntary == found.slices == sample
    return YOUNG


def test_switches_are_read_by_turns_and_the_time_that_it_ran_always(thread: Thread) -> None:
    first = grown_up(thread)
    seen = []
    for sample in range(first, first + 3 * CLOSE_LOOK):
        ran_ns = LITTLE_NS * sample
        thread.stands(ran_ns=ran_ns, switches=sample, user_ticks=sample // 4)
        found = thread.read()
        assert found is not None
        assert (found.ran_ns, found.slices, found.user_ticks) == (ran_ns, sample, sample // 4)
        assert 0 <= sample - found.voluntary < CLOSE_LOOK
        assert found.cpus == f"0-{found.voluntary}"
        seen.append(found.voluntary)
    assert len(set(seen)) <= 4
    found = thread.read(closely=True)
    assert found is not None and found.voluntary == found.slices


def test_of_one_that_is_woken_for_moments_all_but_its_times_is_read_by_turns(thread: Thread) -> None:
    first = grown_up(thread)
    seen = []
    for sample in range(first, first + 4 * CLOSE_LOOK):
        thread.stands(ran_ns=sample, switches=sample, faults=sample)
        found = thread.read()
        assert found is not None and found.ran_ns == found.slices == sample
        seen.append(found.minor_faults)
    assert len(set(seen[CLOSE_LOOK:])) == 4
    assert all(0 <= first + at - faults < CLOSE_LOOK for at, faults in enumerate(seen) if at >= CLOSE_LOOK)
    # As soon as it does not run at all the rest is read, too: what stopped it has it run for a moment.
    for ran_ns in (100, 100):
        thread.stands(ran_ns=ran_ns, switches=100, faults=100, state="T")
        found = thread.read()
    assert found is not None and (found.minor_faults, found.state) == (100, "T")


@pytest.mark.parametrize("more", [{"ran_ns": 2 * LITTLE_NS}, {"waited_ns": 2 * SHORT_NS}])
@pytest.mark.parametrize("turn", range(0, CLOSE_LOOK, 3))
def test_one_that_ran_or_waited_for_longer_is_read_at_once(
    thread: Thread, more: dict[str, int], turn: int
) -> None:
    grown_up(thread)
    for _ in range(turn):
        thread.read()
    thread.stands(**{"ran_ns": 100, "switches": 100, "faults": 100, **more}, state="R")
    found = thread.read()
    assert found is not None and (found.minor_faults, found.state) == (100, "R")
    # One that runs, or waits for a core, is looked at again, however little that is.
    thread.stands(**{"ran_ns": 101, "switches": 101, "faults": 101, **more})
    found = thread.read()
    assert found is not None and (found.minor_faults, found.state) == (101, "S")


STEPS = st.tuples(
    st.sampled_from([0, 1000, LITTLE_NS, 2 * SHORT_NS]),
    st.sampled_from([0, 1000, SHORT_NS]),
    st.integers(0, 3),
)
"""What a thread does in a period: it runs, it waits, and its other counters rise."""


@given(st.lists(STEPS, max_size=30))
@settings(max_examples=30, deadline=None)
def test_whatever_is_read_by_turns_no_count_goes_back_and_all_are_right_in_the_end(
    steps: list[tuple[int, int, int]],
) -> None:
    with TemporaryDirectory() as folder:
        thread = Thread(Path(folder))
        now = {"ran_ns": 0, "waited_ns": 0, "switches": 0, "faults": 0, "user_ticks": 0}
        before = None
        for ran_ns, waited_ns, count in steps:
            # It rises in nothing without having run.
            count *= ran_ns > 0
            more = {"ran_ns": ran_ns, "waited_ns": waited_ns, "switches": count, "faults": count}
            now = {name: value + more.get(name, count) for name, value in now.items()}
            thread.stands(**now)
            found = thread.read()
            assert found is not None
            assert (found.ran_ns, found.waited_ns, found.slices) == (
                now["ran_ns"], now["waited_ns"], now["switches"],
            )  # fmt: skip
            if before is not None:
                assert found.voluntary >= before.voluntary
                assert found.minor_faults >= before.minor_faults
                assert found.user_ticks >= before.user_ticks
            before = found
        thread.stands(**now)
        last = thread.read(closely=True)
        assert last is not None
        assert (last.voluntary, last.minor_faults, last.user_ticks) == (
            now["switches"], now["faults"], now["user_ticks"],
        )  # fmt: skip


def test_an_affinity_that_another_has_changed_is_seen_in_its_turn(thread: Thread) -> None:
    thread.stands(ran_ns=3, switches=3)
    before = thread.read()
    assert before is not None and thread.read() is before
    thread.may_run_on("1")
    found = [thread.read() for _ in range(CLOSE_LOOK)]
    assert found[-1] is not None and found[-1].cpus == "1"


def test_a_number_that_is_used_again_brings_nothing_of_the_thread_before(thread: Thread) -> None:
    grown_up(thread)
    thread.ends()
    assert thread.read() is None
    thread.stands(ran_ns=1, switches=2, start_ticks=900)
    found = thread.read()
    assert found is not None
    assert (found.start_ticks, found.ran_ns, found.voluntary, found.cpus) == (900, 1, 2, "0-2")


def test_where_the_kernel_does_not_count_times_a_thread_that_runs_is_seen_by_its_ticks(
    thread: Thread,
) -> None:
    for ticks in range(3 * CLOSE_LOOK):
        thread.stands(ran_ns=0, switches=0, user_ticks=ticks)
        thread.counts_no_times()
        found = thread.read()
        assert found is not None and found.user_ticks == ticks


def test_threads_that_begin_and_end_are_seen_in_each_sample() -> None:
    """Also as many as have ended since."""
    me = ProcessThreads(ProcReader(), os.getpid())

    def seen(number: int) -> set[int]:
        return set(me.read(number, len(os.listdir("/proc/self/task"))))

    ended: set[int | None] = set()
    seen(0)
    waiting: list[tuple[threading.Thread, threading.Event]] = []
    for number in range(1, 6):
        end = threading.Event()
        one = threading.Thread(target=end.wait)
        one.start()
        waiting.append((one, end))
        while len(waiting) > 2:
            before, ends = waiting.pop(0)
            ends.set()
            before.join()
            # The kernel has it for a moment more.
            while os.path.exists(f"/proc/self/task/{before.native_id}"):
                time.sleep(0.001)
            ended.add(before.native_id)
        found = seen(number)
        assert found >= {one.native_id for one, _ in waiting} and not found & ended
    for one, end in waiting:
        end.set()
        one.join()
    me.close()
