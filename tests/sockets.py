"""Which sockets a process has, by what the kernel says of them."""

from __future__ import annotations

import os
import random
import re
import socket
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


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on.

    They lie below those that the kernel gives to connections: until a server has taken its port, hundreds of
    connections of other tests may be opened.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found: list[int] = []
    for port in random.SystemRandom().sample(range(max(lowest - 10_000, 1024), lowest), 1_000):
        if len(found) == count:
            break
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
    assert len(found) == count, "no free ports"
    return found
