"""Control groups of both versions, as trees of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chimbuko.monitor.sampling.procreader import ProcReader
from chimbuko.monitor.sampling.sample import GroupCounters
from chimbuko.monitor.sampling.sampler import GroupReader


class MadeFiles(ProcReader):
    """Says of each process that it is in these groups."""

    membership = b""

    def read(self, path: str) -> bytes:
        return self.membership if path.endswith("/cgroup") else super().read(path)


@pytest.mark.parametrize("below", ["", "unified/"])
def test_version_2(tmp_path: Path, below: str) -> None:
    group = tmp_path / f"{below}job/1"
    group.mkdir(parents=True)
    (group / "memory.current").write_text("4096\n")
    (group / "memory.max").write_text("max\n")
    (group / "cpu.stat").write_text("nr_throttled 3\nthrottled_usec 1500\n")
    files = MadeFiles()
    files.membership = b"0::/job/1\n"
    reader = GroupReader(files, tmp_path)
    assert reader.read(os.getpid()) == GroupCounters(4096, None, 1500)
    (group / "memory.max").write_text("8192\n")
    (group / "memory.current").write_text("5000\n")
    # What is used is read in each sample, limits and groups are in those that look closely.
    for closely, limit_bytes in ((False, None), (True, 8192)):
        reader.begin(closely)
        assert reader.read(os.getpid()) == GroupCounters(5000, limit_bytes, 1500)
    files.close()


def test_version_1_in_a_container(tmp_path: Path) -> None:
    """Its own group is what is mounted there."""
    for name, text in {
        "memory/memory.usage_in_bytes": "4096",
        "memory/memory.limit_in_bytes": "9223372036854771712",
        "cpu/cpu.stat": "nr_throttled 1\nthrottled_time 2000000",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    files = MadeFiles()
    files.membership = b"4:memory:/docker/abc\n1:cpu,cpuacct:/docker/abc\n"
    assert GroupReader(files, tmp_path).read(1) == GroupCounters(4096, None, 2000)
    files.forget("/proc/1/cgroup")
    files.membership = b""
    assert GroupReader(files, tmp_path).read(1) is None
    files.close()
