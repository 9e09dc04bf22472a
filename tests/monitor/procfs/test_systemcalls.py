"""What threads sleep in, by /proc."""

from __future__ import annotations

import itertools
import platform

import pytest

from chimbuko.monitor.procfs.systemcalls import (
    CHILDREN,
    CONDITION,
    CONDITIONS,
    FILES,
    LOCKS,
    NAP,
    NAP_NAMES,
    NAPS,
    NO_CALL,
    SOCKETS,
    argument,
    is_frozen,
    moved_at,
    polls_for_a_time,
    system_call,
)

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="has numbers of x86-64")
REST = b" 0x0 0x0 0x0 0x7ffc8006cda8 0x7f91f800c2ad\n"


def test_waits_for_descriptors_that_a_time_ends() -> None:
    for timed in (b"7 0x7f 0x1 0x1388", b"232 0x3 0x7f 0x10 0x1388", b"270 0x4 0x7f 0x0 0x0 0x7ffc"):
        assert polls_for_a_time(timed + REST)
    for endless in (
        b"7 0x7f 0x1 0xffffffff",
        b"232 0x3 0x7f 0x10 0xffffffffffffffff",
        b"23 0x4 0x7f 0x0 0x0",
    ):
        assert not polls_for_a_time(endless + REST)
    assert not polls_for_a_time(b"running\n") and not polls_for_a_time(b"0 0x3 0x7f 0x10" + REST)


def test_the_bytes_that_a_call_on_a_file_moves() -> None:
    assert moved_at(b"1 0x5 0x7f00 0x1000 0x0 0x0 0x0 0x7ffc 0x7f91\n", 512) == (512, 512 + 4096), "write"
    assert moved_at(b"18 0x5 0x7f00 0x1000 0x2000 0x0 0x0 0x7ffc 0x7f91\n", 512) == (8192, 12288), "pwrite64"
    assert moved_at(b"74 0x5" + REST, 512) == (512, 512), "fsync"


def test_the_kinds_have_no_call_in_common() -> None:
    kinds = FILES, SOCKETS, LOCKS, NAPS, CHILDREN, CONDITIONS
    assert all(not one & other for one, other in itertools.combinations(kinds, 2))
    assert NAP_NAMES.keys() == NAPS


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b"1 0x5 0x7f 0x20" + REST, 1),
        (b"7 0x7ffe 0x2 0xc8" + REST, 7),
        # Nothing but time to pass.
        (b"7 0x0 0x0 0xc8" + REST, NAP),
        (b"270 0x0 0x0 0x0" + REST, NAP),
        # A mutex of the C library, its condition with a time, and the end of a thread.
        (b"202 0x55 0x80 0x2" + REST, 202),
        (b"202 0x55 0x189 0x0" + REST, CONDITION),
        (b"202 0x55 0x109 0x2f" + REST, CONDITION),
        (b"202", 202),
        (b"23 0x3 0x0 0x0" + REST, 23),
        (b"7", 7),
        (b"running\n", NO_CALL),
        (b"-1 0x7ffe 0x40\n", NO_CALL),
        (b"12345 0x0" + REST, NO_CALL),
        (b"", NO_CALL),
    ],
)
def test_the_call_that_a_thread_is_in(data: bytes, number: int) -> None:
    assert system_call(data) == number


def test_the_descriptor_is_the_first_argument_of_a_call_for_files() -> None:
    assert argument(b"0 0x1f 0x7f 0x20" + REST, 0) == 31
    assert [argument(data, 0) for data in (b"0", b"running", b"0 zero")] == [None] * 3


@pytest.mark.parametrize(
    ("state", "data", "place", "is_so"),
    [
        (b"D", b"228 0x3" + REST, b"__refrigerator", True),
        (b"S", b"230 0x0" + REST, b"do_freezer_trap", True),
        (b"S", b"0 0x3" + REST, b"get_signal", True),
        # The first version of control groups freezes who sleeps where he is.
        (b"D", b"230 0x0" + REST, b"hrtimer_nanosleep", True),
        (b"D", b"202 0x0" + REST, b"futex_wait_queue", True),
        (b"S", b"230 0x0" + REST, b"hrtimer_nanosleep", False),
        (b"D", b"74 0x3" + REST, b"jbd2_log_wait_commit", False),
        (b"D", b"-1 0x0 0x0", b"folio_wait_bit_common", False),
        (b"D", b"", b"", False),
    ],
)
def test_who_is_frozen(state: bytes, data: bytes, place: bytes, is_so: bool) -> None:
    assert is_frozen(state, system_call(data), place) is is_so
