"""Control groups of both versions, as trees of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chimbuko.monitor.sampling.difference import difference
from chimbuko.monitor.sampling.procreader import ProcReader
from chimbuko.monitor.sampling.sample import GroupCounters, GroupKills
from chimbuko.monitor.sampling.sampler import GroupReader
from tests.monitor.sampling.made import sample


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


@pytest.mark.parametrize(
    ("membership", "folder", "names", "counts"),
    [
        (
            b"0::/job\n",
            "job",
            ("memory.current", "memory.max", "memory.peak", "memory.events"),
            "low 0\nhigh 0\nmax 7\noom 1\noom_kill {}\noom_group_kill 0\n",
        ),
        (
            b"4:memory:/job\n",
            "memory/job",
            (
                *("memory.usage_in_bytes", "memory.limit_in_bytes"),
                *("memory.max_usage_in_bytes", "memory.oom_control"),
            ),
            "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n",
        ),
    ],
)
def test_who_was_killed_for_memory_is_known_when_nobody_lives_any_more(
    tmp_path: Path, membership: bytes, folder: str, names: tuple[str, ...], counts: str
) -> None:
    group = tmp_path / folder
    group.mkdir(parents=True)
    for name in names[:-1]:
        (group / name).write_text("8192\n")
    (group / names[-1]).write_text(counts.format(3))
    files = MadeFiles()
    files.membership = membership
    reader = GroupReader(files, tmp_path)
    assert reader.read(1) == GroupCounters(8192, 8192, None)
    before = sample(1.0)
    before.kills = reader.kills()
    reader.forget(1)
    reader.begin()
    (group / names[-1]).write_text(counts.format(4))
    after = sample(2.0)
    after.kills = reader.kills()
    span = difference(before, after)
    assert list(span.kills.values()) == [GroupKills(1, 8192, 8192)]
    assert list(span.then(difference(after, after)).kills.values()) == [GroupKills(1, 8192, 8192)]
    files.close()
