"""The parsers of what is read each period give what their slow twins give."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chimbuko.monitor.procfs.task import parse_process_memory, parse_schedstat, parse_stat, parse_status
from tests.reference import procfs

COUNTERS = st.integers(0, 2**64 - 1)
NAMES = st.binary(min_size=1, max_size=15).filter(lambda name: b"\n" not in name and b"\0" not in name)


@given(
    st.integers(1, 2**22), NAMES, st.sampled_from("RSDZTtXI"), st.lists(COUNTERS, min_size=36, max_size=36)
)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_stat(tid: int, name: bytes, state: str, numbers: list[int]) -> None:
    data = b"%d (%b) %b %b\n" % (tid, name, state.encode(), " ".join(map(str, numbers)).encode())
    assert parse_stat(data) == procfs.stat(data)


@given(COUNTERS, COUNTERS, st.sampled_from(["0", "0-3,8", "", "0-255"]), st.integers(0, 2**40), NAMES)
def test_status(voluntary: int, involuntary: int, cpus: str, size_kb: int, name: bytes) -> None:
    text = (
        f"VmHWM:\t {size_kb + 4:8} kB\nVmRSS:\t {size_kb:8} kB\nVmSwap:\t {size_kb // 2:8} kB\n"
        f"Cpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0\n"
        f"voluntary_ctxt_switches:\t{voluntary}\nnonvoluntary_ctxt_switches:\t{involuntary}\n"
    )
    data = b"Name:\t" + name + b"\n" + text.encode()
    assert parse_status(data) == procfs.status(data)
    assert parse_process_memory(data) == procfs.memory(data)


@given(st.lists(COUNTERS, max_size=4))
def test_schedstat(numbers: list[int]) -> None:
    data = " ".join(map(str, numbers)).encode() + b"\n"
    assert parse_schedstat(data) == procfs.schedstat(data)


def test_files_of_this_process() -> None:
    data = {name: Path(f"/proc/self/{name}").read_bytes() for name in ("stat", "status", "schedstat")}
    assert parse_stat(data["stat"]) == procfs.stat(data["stat"])
    assert parse_status(data["status"]) == procfs.status(data["status"])
    assert parse_process_memory(data["status"]) == procfs.memory(data["status"])
    assert parse_schedstat(data["schedstat"]) == procfs.schedstat(data["schedstat"])
