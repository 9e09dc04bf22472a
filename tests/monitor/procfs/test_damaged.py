"""No made-up file makes a parser raise, or a counter negative."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple

from chimbuko.monitor.procfs.numbers import parse_cpulist
from chimbuko.monitor.procfs.system import (
    parse_cores,
    parse_limit,
    parse_membership,
    parse_meminfo,
    parse_pressure,
    parse_throttling,
)
from chimbuko.monitor.procfs.task import (
    allowed_cpus,
    parse_io,
    parse_migrations,
    parse_process_memory,
    parse_schedstat,
    parse_stat,
    parse_status,
)
from tests.monitor.procfs.test_task import STATUS, stat_of

PARSERS: dict[Callable[[bytes], Any], bytes] = {
    parse_stat: stat_of(b"a b) (c"),
    parse_status: STATUS,
    parse_process_memory: STATUS,
    allowed_cpus: STATUS,
    parse_schedstat: b"778213 47580 1\n",
    parse_migrations: b"cat (1, #threads: 1)\nse.nr_migrations      :         2617\n",
    parse_io: b"read_bytes: 4096\nwrite_bytes: 1\n",
    parse_cores: b"cpu  1 2 3 4\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3 4 5 6 7 8 9 10\nintr 5\n",
    parse_meminfo: b"MemTotal: 24684096 kB\nMemFree: 9242220 kB\nMemAvailable: 2 kB\n",
    parse_pressure: b"some avg10=98.15 avg60=87.49 total=48\nfull avg10=0.00 total=12\n",
    parse_membership: b"4:memory:/job/1\n2:cpu,cpuacct:/x:y\n0::/u\n",
    parse_limit: b"1048576\n",
    parse_throttling: b"usage_usec 5\nnr_throttled 3\nthrottled_usec 1500\n",
    lambda data: parse_cpulist(data.decode(errors="replace")): b"0-3,8,10-11\n",
}
"""With a file of each as the kernel writes it."""
PIECES = (
    b" ",
    b"\n",
    b":",
    b")",
    b"(",
    b"-",
    b"-1",
    b"0",
    b"9" * 25,
    b"\x00",
    b"\xff",
    b"max",
    b"\t",
    b"1_0",
    b"\xb2",
)


def numbers_of(value: Any) -> list[int]:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return []
    if isinstance(value, int):
        return [value]
    if isinstance(value, dict):
        return [number for pair in value.items() for part in pair for number in numbers_of(part)]
    if isinstance(value, tuple | list):
        return [number for part in value for number in numbers_of(part)]
    return [number for part in astuple(value) for number in numbers_of(part)]


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Cut, doubled, or with something else in it, up to four times."""
    for _ in range(chance.randint(1, 4)):
        at, end = sorted((chance.randint(0, len(data)), chance.randint(0, len(data))))
        kind = chance.randrange(4)
        if kind == 0:
            data = data[:at]
        elif kind == 1:
            data = data[:at] + data[end:]
        elif kind == 2:
            data = data[:at] + chance.choice(PIECES) + data[min(end, at + 2) :]
        else:
            data = data[:end] + data[at:]
    return data[:4096]


def try_all(rounds: int) -> int:
    chance = random.Random(20)
    tried = 0
    for _ in range(rounds):
        for parser, whole in PARSERS.items():
            found = parser(damaged(whole, chance))
            assert all(number >= 0 for number in numbers_of(found)), whole
            tried += 1
    return tried


@given(st.sampled_from(list(PARSERS)), st.binary(max_size=300))
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_bytes(parser: Callable[[bytes], Any], data: bytes) -> None:
    assert all(number >= 0 for number in numbers_of(parser(data)))


def test_damaged_files() -> None:
    assert try_all(1000) == 1000 * len(PARSERS)


@pytest.mark.thorough
def test_a_million_damaged_files() -> None:
    assert try_all(1_000_000 // len(PARSERS) + 1) >= 1_000_000
