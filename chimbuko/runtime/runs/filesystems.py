"""Which folders a database of ours may live in."""

from __future__ import annotations

from pathlib import Path

MOUNTS = Path("/proc/mounts")

NETWORK_KINDS = frozenset(
    {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "smb3", "ceph", "glusterfs", "panfs", "pvfs2", "afs",
     "fuse.sshfs", "fuse.glusterfs", "fuse.ceph-fuse", "dvs", "wekafs"}
)  # fmt: skip
"""Kinds of file system that several nodes share: SQLite's write-ahead log does not work on them."""


def is_on_network(folder: Path, mounts: str | None = None) -> bool:
    """Whether a folder lies on a network file system.

    Parameters
    ----------
    mounts
        Text of ``/proc/mounts``; read where it is not given.
    """
    text = MOUNTS.read_text() if mounts is None else mounts
    kinds: dict[str, str] = {}
    for line in text.splitlines():
        _, point, kind, *_ = line.split()
        # Blanks in mount points are written in octal; of two mounts on one point the later one counts.
        kinds[point.encode().decode("unicode_escape")] = kind
    place = folder.resolve()
    for parent in (place, *place.parents):
        if str(parent) in kinds:
            return kinds[str(parent)] in NETWORK_KINDS
    return False
