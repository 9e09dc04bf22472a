"""Files of the whole node and of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.monitor.procfs.numbers import format_cpulist, parse_cpulist
from chimbuko.monitor.procfs.system import (
    CoreTicks,
    Membership,
    NodeMemory,
    parse_cores,
    parse_limit,
    parse_membership,
    parse_meminfo,
    parse_pressure,
    parse_throttling,
)


def test_cores_that_are_offline_are_not_there() -> None:
    found = parse_cores(b"cpu  9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu7 1 2 3 4\nintr 5 6\ncpu8 1 x 3 4\n")
    assert found == {0: CoreTicks(*range(1, 11)), 7: CoreTicks(1, 2, 3, 4, 0, 0, 0, 0, 0, 0)}


def test_this_node_is_read() -> None:
    assert parse_cores(Path("/proc/stat").read_bytes())
    memory = parse_meminfo(Path("/proc/meminfo").read_bytes())
    assert memory is not None
    assert memory.total_bytes >= memory.available_bytes > 0


def test_meminfo_of_old_kernels() -> None:
    assert parse_meminfo(b"MemTotal: 10 kB\nMemFree: 4 kB\n") == NodeMemory(10240, 4096, 4096)
    assert parse_meminfo(b"MemTotal: 10 kB\nMemFr") is None


def test_pressure() -> None:
    lines = b"some avg10=98.15 avg60=87.49 avg300=86.77 total=4807006168\nfull avg10=0.00 total=12\n"
    assert parse_pressure(lines) == 4807006168
    assert parse_pressure(b"some avg10=98.15 total=48x") is None


@pytest.mark.parametrize(
    ("text", "cpus", "written"),
    [
        ("0-3,8\n", (0, 1, 2, 3, 8), "0-3,8"),
        ("1", (1,), "1"),
        ("", (), ""),
        ("3,1,2", (1, 2, 3), "1-3"),
        ("5-2", (), ""),
        ("1,x,4-", (1,), "1"),
        ("0-99999999999", (), ""),
    ],
)
def test_lists_of_cpus(text: str, cpus: tuple[int, ...], written: str) -> None:
    assert parse_cpulist(text) == cpus
    assert format_cpulist(cpus) == written


def test_groups_of_both_versions() -> None:
    assert parse_membership(b"9:name=systemd:/\n4:memory:/job/1\n2:cpu,cpuacct:/x:y\n0::/u\n") == Membership(
        "/u", {"name=systemd": "/", "memory": "/job/1", "cpu": "/x:y", "cpuacct": "/x:y"}
    )
    assert parse_membership(b"4:memory:/../../etc\n4:memo") == Membership(None, {})


def test_limits_and_throttling() -> None:
    assert parse_limit(b"1048576\n") == 1048576
    assert parse_limit(b"max\n") is None
    assert parse_limit(b"9223372036854771712\n") is None
    assert parse_throttling(b"usage_usec 5\nnr_throttled 3\nthrottled_usec 1500\n") == 1500
    assert parse_throttling(b"nr_periods 9\nnr_throttled 3\nthrottled_time 1500000\n") == 1500
    assert parse_throttling(b"usage_usec 5\n") is None
