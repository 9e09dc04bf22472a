"""Which folder streams may go to, on machines that are made up and on this one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from chimbuko.capture.follow import space
from chimbuko.capture.follow.room import Headroom, MemoryLimits, Room, is_memory
from chimbuko.capture.follow.space import choose_folder

MB = 1_000_000
SECOND = "30 25 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
FIRST = (
    "30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "32 30 0:28 / /sys/fs/cgroup/memory rw shared:10 - cgroup cgroup rw,memory\n"
)
SHM = Path("/dev/shm")

Machine = Mapping[str, object]


def made_up(root: Path, files: Machine) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{content}")
    return root


def headroom(root: Path, files: Machine, enough: int = 1 << 60) -> Headroom | None:
    return MemoryLimits(root=made_up(root, files)).headroom(enough)


def job(limit: object, usage: object, folder: str = "sys/fs/cgroup/job", stat: str = "") -> Machine:
    """A cgroup of version 2."""
    return {
        f"{folder}/memory.max": f"{limit}\n",
        f"{folder}/memory.current": f"{usage}\n",
        f"{folder}/memory.stat": stat,
    }


def slurm(limit: object, usage: object, path: str = "", stat: str = "", hierarchy: int = 1) -> Machine:
    """A cgroup of version 1."""
    folder = f"sys/fs/cgroup/memory/slurm{path}"
    return {
        f"{folder}/memory.limit_in_bytes": f"{limit}\n",
        f"{folder}/memory.usage_in_bytes": f"{usage}\n",
        f"{folder}/memory.stat": stat,
        f"{folder}/memory.use_hierarchy": f"{hierarchy}\n",
    }


IN_JOB_7 = "the memory cgroup /slurm/job_7"
IN_JOB: Machine = {"proc/self/cgroup": "0::/job/step\n", "proc/self/mountinfo": SECOND}
IN_SLURM: Machine = {
    "proc/self/cgroup": "5:cpu,cpuacct:/elsewhere\n4:memory:/slurm/job_7/step_0\n0::/\n",
    "proc/self/mountinfo": FIRST + "33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 7 kB\n"}, (7168, "the node")),
        (IN_JOB, None),
        (IN_JOB | job("max", 5), None),
        (IN_JOB | job(100, 30), (70, "the memory cgroup /job")),
        (IN_JOB | job(100, 130), (0, "the memory cgroup /job")),
        (IN_JOB | job(100, 30) | job(90, 10, "sys/fs/cgroup/job/step"), (70, "the memory cgroup /job")),
        (IN_JOB | job(100, 30) | job(50, 10, "sys/fs/cgroup/job/step"), (40, "the memory cgroup /job/step")),
        (IN_JOB | job(100, 30) | {"sys/fs/cgroup/job/memory.high": "60\n"}, (30, "the memory cgroup /job")),
        (IN_JOB | job(100, 30) | {"proc/meminfo": "MemAvailable: 0 kB\n"}, (0, "the node")),
        (IN_JOB | {"sys/fs/cgroup/job/memory.max": "100\n"}, None),
        (IN_SLURM, None),
        (IN_SLURM | slurm(9223372036854771712, 5), None),
        (IN_SLURM | slurm(100, 30, "/job_7"), (70, IN_JOB_7)),
        (IN_SLURM | slurm(100, 30, "/job_7") | slurm(20, 9), (11, "the memory cgroup /slurm")),
        (IN_SLURM | slurm(100, 30, "/job_7") | slurm(20, 9, hierarchy=0), (70, IN_JOB_7)),
        (
            IN_SLURM
            | slurm(100, 30, "/job_7")
            | {
                "sys/fs/cgroup/memory/slurm/job_7/memory.memsw.limit_in_bytes": "110",
                "sys/fs/cgroup/memory/slurm/job_7/memory.memsw.usage_in_bytes": "60",
            },
            (50, IN_JOB_7),
        ),
    ],
)  # fmt: skip
def test_the_least_of_all_limits(tmp_path: Path, files: Machine, expected: tuple[int, str] | None) -> None:
    assert headroom(tmp_path, files) == expected


def test_page_cache_is_room_and_shared_memory_is_not(tmp_path: Path) -> None:
    second = "anon 1\nfile 60\nshmem 20\nactive_file 10\ninactive_file 30\nfile_dirty 4\nfile_writeback 1\n"
    found = headroom(tmp_path / "2", {**IN_JOB, **job(100, 90, stat=second)})
    assert found and found.left_bytes == 10 + 40 - 5
    first = "cache 60\ninactive_file 1\ntotal_active_file 10\ntotal_inactive_file 30\ntotal_dirty 5\n"
    found = headroom(tmp_path / "1", {**IN_SLURM, **slurm(100, 90, "/job_7", first)})
    assert found and found.left_bytes == 10 + 40 - 5


def test_page_cache_is_not_looked_up_where_there_is_enough_without(tmp_path: Path) -> None:
    files = {**IN_JOB, **job(100, 30, stat="inactive_file 20\n")}
    for enough, left in ((70, 70), (71, 90)):
        found = headroom(tmp_path, files, enough)
        assert found and found.left_bytes == left


def test_in_a_container_what_is_mounted_is_all_there_is(tmp_path: Path) -> None:
    """Without a namespace of its own for cgroups it sees its path from outside; with one, perhaps "/.."."""
    mounted = "30 25 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n"
    files = job(100, 30, "sys/fs/cgroup")
    for place, path in enumerate(("/docker/abc", "/docker/abc/deeper", "/", "/../other")):
        here = {"proc/self/cgroup": f"0::{path}\n", "proc/self/mountinfo": mounted}
        assert headroom(tmp_path / str(place), {**files, **here}) == (70, "the memory cgroup /")


def test_of_another_process(tmp_path: Path) -> None:
    root = made_up(tmp_path, {**IN_JOB, "proc/77/cgroup": "0::/job\n", **job(100, 30)})
    made_up(root, job(20, 0, "sys/fs/cgroup/job/step"))
    assert MemoryLimits("self", root).headroom() == (20, "the memory cgroup /job/step")
    assert MemoryLimits(77, root).headroom() == (70, "the memory cgroup /job")
    assert MemoryLimits(78, root).headroom() is None


@pytest.fixture
def shm() -> Iterator[Path]:
    if not SHM.is_dir() or not is_memory(SHM):
        pytest.skip(f"{SHM} is no memory here")
    folder = SHM / f"chimbuko-test-{os.getpid()}"
    folder.mkdir()
    yield folder
    folder.rmdir()


def test_a_cgroup_that_is_nearly_full_refuses_memory_and_not_a_disk(tmp_path: Path, shm: Path) -> None:
    root = made_up(tmp_path / "machine", {**IN_JOB, **job(1000 * MB, 988 * MB)})
    disk = tmp_path / "disk"
    disk.mkdir()
    if is_memory(disk):
        pytest.skip(f"{disk} is memory here")
    choice = choose_folder([shm, disk], 256 * MB, root)
    assert choice.refusals == [f"{shm}: 12 MB of the memory cgroup /job are free, 256 MB are wanted"]
    assert (choice.folder, choice.is_memory) == (disk, False)
    assert choice.left_bytes >= 256 * MB
    roomy = choose_folder([shm, disk], MB, root)
    assert (roomy.folder, roomy.left_bytes, roomy.is_memory) == (shm, 12 * MB, True)


def test_each_that_is_refused_has_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    choice = choose_folder([tmp_path / "none", file, tmp_path], 1 << 61)
    assert choice.folder is None
    assert choice.refusals[:2] == [
        f"{tmp_path / 'none'}: there is no such folder",
        f"{file}: there is no such folder",
    ]
    assert "GB of the file system are free, 2305843009.2 GB are wanted" in choice.refusals[2]
    monkeypatch.setattr(space, "is_on_network", lambda folder: True)
    assert choose_folder([tmp_path], 1).refusals == [f"{tmp_path}: it is on a network file system"]
    monkeypatch.setattr(space, "is_on_network", lambda folder: False)
    monkeypatch.setattr(Room, "free_files", lambda self: 7)
    assert choose_folder([tmp_path], 1).refusals == [
        f"{tmp_path}: 7 more files can be made there, 1024 are wanted"
    ]
    monkeypatch.setattr(Room, "free_files", lambda self: None)
    monkeypatch.setattr(space, "punch", lambda file, begin, end: None)
    assert choose_folder([tmp_path], 1).refusals == [
        f"{tmp_path}: space of a part of a file cannot be given back there"
    ]
    assert sorted(tmp_path.iterdir()) == [file]


def test_no_place_that_cannot_be_written() -> None:
    choice = choose_folder([Path("/proc"), Path("/proc/self")], 0)
    assert choice.folder is None and len(choice.refusals) == 2


IN_A_CGROUP = """
import os, sys
from pathlib import Path
from chimbuko.capture.follow.room import MemoryLimits
from chimbuko.capture.follow.space import choose_folder
group, folder = Path(sys.argv[1]), Path(sys.argv[2])
(group / "cgroup.procs").write_text(str(os.getpid()))
def left():
    return MemoryLimits().headroom()
before = left()
with open(folder / "shared", "wb") as file:
    file.write(bytes(16 << 20))
shared = left()
refused = choose_folder([folder], 48 << 20).refusals
os.unlink(folder / "shared")
print(before.left_bytes, before.of, sep="|")
print(before.left_bytes - shared.left_bytes)
print(refused)
"""


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A real cgroup, limited to 64 MB."""
    limit_files = {"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"}
    for parent, limit_file in limit_files.items():
        group = Path(parent) / f"chimbuko-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit_file).write_text(str(64 << 20))
            yield group
            return
        except OSError:
            continue
        finally:
            group.rmdir()
    pytest.skip("no memory cgroup can be made here")


def test_a_real_cgroup(cgroup: Path, shm: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-c", IN_A_CGROUP, str(cgroup), str(shm)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    of, taken, refused = made.stdout.splitlines()
    left, name = of.split("|")
    assert name == f"the memory cgroup /{cgroup.name}" and 32 << 20 < int(left) <= 64 << 20
    # The process itself takes some, too.
    assert 15 << 20 < int(taken) < 24 << 20
    assert f"of the memory cgroup /{cgroup.name} are free, 50 MB are wanted" in refused
