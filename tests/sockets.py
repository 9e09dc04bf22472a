"""Which sockets a process has, by what the kernel says of them."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

LISTENING = "0A"
"""State of a socket in /proc/net/tcp."""


def sockets_of(pid: int) -> list[str]:
    """Inodes of its sockets, one for each of its file descriptors that is one."""
    found: list[str] = []
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        # Meanwhile it may have closed a file, or ended.
        with suppress(OSError):
            if match := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(link)):
                found.append(match[1])
    return found


def listening() -> dict[str, tuple[str, int]]:
    """Sockets that listen on this machine, by inode: address, as the kernel writes it, and port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    places = {row[9]: row[1].partition(":") for row in rows if row[3] == LISTENING}
    return {inode: (address, int(port, 16)) for inode, (address, _, port) in places.items()}


def listened_on(pid: int) -> list[tuple[str, int]]:
    """Where a process listens: address, as the kernel writes it, and port."""
    known = listening()
    return [known[inode] for inode in sockets_of(pid) if inode in known]
