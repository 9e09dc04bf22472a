from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.runtime.runs.scratch import is_on_network

MOUNTS = r"""
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
tmpfs /home/local tmpfs rw 0 0
fast@tcp:/lustre /scratch/my\040project lustre rw 0 0
/dev/sdb /data ext4 rw 0 0
server:/data /data nfs rw 0 0
""".strip()


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/home/user/run", True),
        ("/home/local/run", False),
        ("/homework", False),
        ("/scratch/my project/run", True),
        ("/data/run", True),
        ("/tmp/run", False),
    ],
)
def test_the_deepest_mount_decides(folder: str, expected: bool) -> None:
    assert is_on_network(Path(folder), MOUNTS) is expected


def test_reads_this_machines_mounts(tmp_path: Path) -> None:
    assert is_on_network(tmp_path) in (True, False)
    assert not is_on_network(Path("/proc"))
