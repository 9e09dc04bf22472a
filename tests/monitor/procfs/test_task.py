"""Files of a thread, right and damaged."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from chimbuko.monitor.procfs.task import (
    ProcessIO,
    ProcessMemory,
    SchedStat,
    TaskStatus,
    allowed_cpus,
    parse_io,
    parse_migrations,
    parse_process_memory,
    parse_schedstat,
    parse_stat,
    parse_status,
)

FIELDS = {4: 9209, 10: 100, 12: 7, 14: 31, 15: 12, 22: 535935, 39: 3}
"""By their numbers in proc(5); all others are 0."""
STATUS = b"""Name:\tworker
Cpus_allowed:\tff
Cpus_allowed_list:\t0-3,8
VmHWM:\t    2048 kB
VmRSS:\t    1024 kB
voluntary_ctxt_switches:\t15
nonvoluntary_ctxt_switches:\t3
"""


def stat_of(name: bytes, fields: dict[int, int] = FIELDS) -> bytes:
    numbers = " ".join(str(fields.get(number, 0)) for number in range(4, 53))
    return b"9214 (%b) R %b\n" % (name, numbers.encode())


@pytest.mark.parametrize("name", [b"cat", b"a b) c", b") R 1 (", b"", b"((()", b"\xff\xfe", b"x ) S 4"])
def test_names_with_blanks_and_parentheses_shift_no_field(name: bytes) -> None:
    found = parse_stat(stat_of(name))
    assert found is not None
    assert (found.tid, found.state, found.parent) == (9214, "R", 9209)
    assert (found.minor_faults, found.major_faults, found.user_ticks, found.system_ticks) == (100, 7, 31, 12)
    assert (found.start_ticks, found.processor) == (535935, 3)
    assert found.name == name.decode(errors="replace")


def test_fields_of_a_real_thread_are_those_that_the_kernel_means() -> None:
    names = []

    def look() -> None:
        tid = threading.get_native_id()
        folder = Path(f"/proc/self/task/{tid}")
        (folder / "comm").write_text("a b) (c")
        found = parse_stat((folder / "stat").read_bytes())
        status = parse_status((folder / "status").read_bytes())
        assert found is not None and status is not None
        assert found.tid == tid
        assert found.parent == os.getppid()
        assert found.processor in os.sched_getaffinity(0)
        assert allowed_cpus((folder / "status").read_bytes()) == tuple(sorted(os.sched_getaffinity(0)))
        names.append(found.name)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert names == ["a b) (c"]


def test_the_time_of_a_process_is_read_as_the_kernel_counts_it() -> None:
    before = os.times()
    found = parse_stat(Path("/proc/self/stat").read_bytes())
    after = os.times()
    assert found is not None
    ticks = os.sysconf("SC_CLK_TCK")
    assert round(before.user * ticks) <= found.user_ticks <= round(after.user * ticks)
    assert round(before.system * ticks) <= found.system_ticks <= round(after.system * ticks)


@pytest.mark.parametrize("cut", range(0, 150, 7))
def test_what_is_cut_short_is_none(cut: int) -> None:
    whole = stat_of(b"cat")
    assert parse_stat(whole[: min(cut, len(whole) // 2)]) is None


def test_negative_counters_are_damage() -> None:
    assert parse_stat(stat_of(b"cat", {**FIELDS, 14: -31})) is None
    assert parse_stat(stat_of(b"cat", {**FIELDS, 14: 2**64})) is None


def test_status() -> None:
    assert parse_status(STATUS) == TaskStatus(15, 3, "0-3,8")
    assert parse_process_memory(STATUS) == ProcessMemory(1024 * 1024, 2048 * 1024)
    assert parse_status(STATUS.replace(b"nonvol", b"non vol")) is None
    assert allowed_cpus(b"") == ()


def test_schedstat_and_io() -> None:
    assert parse_schedstat(b"778213 47580 1\n") == SchedStat(778213, 47580, 1)
    assert parse_schedstat(b"778213 -4 1\n") is None
    assert parse_schedstat(b"") is None
    sched = b"cat (1, #threads: 1)\n----\nse.nr_migrations      :         2617\nnr_switches  :   3\n"
    assert parse_migrations(sched) == 2617
    assert parse_migrations(b"cat (1, #threads: 1)\n") is None and parse_migrations(sched[:50]) is None
    assert parse_io(b"rchar: 7\nread_bytes: 4096\nwrite_bytes: 1\ncancelled_write_bytes: 0\n") == ProcessIO(
        4096, 1
    )
    assert parse_io(b"rchar: 7\nread_bytes: 4096\nwri") is None
