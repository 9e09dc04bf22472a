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


UNIFIED_JOB = {
    "memory.current": "6442450944\n",
    "memory.max": "8589934592\n",
    "memory.high": "max\n",
    "memory.peak": "8589930496\n",
    "memory.events": "low 0\nhigh 0\nmax 412\noom 2\noom_kill 3\noom_group_kill 0\n",
    "cpu.max": "400000 100000\n",
    "cpu.stat": "usage_usec 9214772\nuser_usec 8811204\nsystem_usec 403568\nnice_usec 0\n"
    "core_sched.force_idle_usec 0\nnr_periods 812\nnr_throttled 95\nthrottled_usec 7313204\n"
    "nr_bursts 0\nburst_usec 0\n",
}
"""Files of a group as Linux 6.12 writes them, of a job that has its limits for all of its tasks."""
UNIFIED_TASK = {
    "memory.current": "3221225472\n",
    "memory.max": "max\n",
    "memory.high": "max\n",
    "memory.peak": "4294963200\n",
    "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\noom_group_kill 0\n",
    "cpu.max": "max 100000\n",
    "cpu.stat": "usage_usec 4607386\nuser_usec 4405602\nsystem_usec 201784\nnice_usec 0\n"
    "core_sched.force_idle_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"
    "nr_bursts 0\nburst_usec 0\n",
}
OLD_JOB = {
    "memory/memory.usage_in_bytes": "6442450944\n",
    "memory/memory.limit_in_bytes": "8589934592\n",
    "memory/memory.max_usage_in_bytes": "8589930496\n",
    "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
    "memory/memory.use_hierarchy": "1\n",
    "cpu/cpu.cfs_quota_us": "400000\n",
    "cpu/cpu.stat": "nr_periods 812\nnr_throttled 95\nthrottled_time 7313204000\n",
}
OLD_TASK = {
    "memory/memory.usage_in_bytes": "3221225472\n",
    "memory/memory.limit_in_bytes": "9223372036854771712\n",
    "memory/memory.max_usage_in_bytes": "4294963200\n",
    "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    "memory/memory.use_hierarchy": "1\n",
    "cpu/cpu.cfs_quota_us": "-1\n",
    "cpu/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
}


def write_group(mount: Path, group: str, files: dict[str, str]) -> None:
    """The files of a group; in version 1 its folder stands below that of the controller."""
    for name, text in files.items():
        controller, _, file = name.rpartition("/")
        path = mount / controller / group / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("membership", "job", "task"),
    [
        (b"0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_1\n", UNIFIED_JOB, UNIFIED_TASK),
        (
            b"4:memory:/slurm/uid_1000/job_7/step_0/task_1\n1:cpu:/slurm/uid_1000/job_7/step_0/task_1\n",
            OLD_JOB,
            OLD_TASK,
        ),
    ],
)
def test_the_limit_of_a_job_holds_for_its_tasks(
    tmp_path: Path, membership: bytes, job: dict[str, str], task: dict[str, str]
) -> None:
    """Its tasks' groups have none, and do not count for how long those around them had no core."""
    inner = membership.decode().split()[0].rpartition(":")[2].lstrip("/")
    outer = inner[: inner.index("/step_0")]
    write_group(tmp_path, outer, job)
    write_group(tmp_path, inner, task)
    files = MadeFiles()
    files.membership = membership
    reader = GroupReader(files, tmp_path)
    assert reader.read(1) == GroupCounters(6442450944, 8589934592, 7313204)
    # Those of other tasks of the job are not ours.
    assert list(reader.kills().values()) == [GroupKills(1, 8589930496, 8589934592)]
    files.close()


def test_a_group_whose_controllers_are_off_is_counted_by_the_one_around_it(tmp_path: Path) -> None:
    write_group(tmp_path, "user.slice", UNIFIED_JOB)
    write_group(tmp_path, "user.slice/app.scope", {"cpu.stat": "usage_usec 1\nuser_usec 1\nsystem_usec 0\n"})
    files = MadeFiles()
    files.membership = b"0::/user.slice/app.scope\n"
    assert GroupReader(files, tmp_path).read(1) == GroupCounters(6442450944, 8589934592, 7313204)
    files.close()
