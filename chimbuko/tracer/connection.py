"""The socket between a traced process and the process that writes its stream."""

from __future__ import annotations

import fcntl
import os
import pickle
import socket
import struct
from contextlib import suppress
from typing import Any

LONGEST_WAIT_S = 20.0
"""For a writer that takes nothing: longer than the writer itself waits for a reader that is stuck."""
LENGTH = struct.Struct("!I")
"""Stands before the header, which the nursery reads; the writer reads what follows."""

_PEER = struct.Struct("3i")
_LEAST_DESCRIPTOR = 256
"""Programs that become daemons close all descriptors, and open their own from the lowest on."""


class Connection:
    """A member's connection. The program may close its descriptor, and open another of that number.

    Parameters
    ----------
    address
        Path of the nursery's socket.

    Raises
    ------
    OSError
        Nobody of this user listens there.
    """

    def __init__(self, address: str) -> None:
        first = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        first.settimeout(LONGEST_WAIT_S)
        try:
            first.connect(address)
            if peer_of(first)[1] != os.getuid():
                raise OSError(f"{address}: another user listens there")
            self._socket = _moved_up(first)
        except OSError:
            first.close()
            raise
        state = os.fstat(self._socket.fileno())
        self._identity = state.st_dev, state.st_ino

    def send(self, value: Any, has_length: bool = False) -> None:
        """Hand a value over.

        Raises
        ------
        OSError
            The writer has ended or takes nothing, or the program has closed the descriptor.
        """
        data = pickle.dumps(value)
        self._check()
        self._socket.sendall(LENGTH.pack(len(data)) + data if has_length else data)

    def last_word(self) -> str:
        """Wait for the end of the stream, and say how the writer says that it ended; empty if it does not."""
        said = b""
        # Of a writer that has ended in mid-stream there may be a word that was not heard yet.
        with suppress(OSError):
            self._check()
            while more := self._socket.recv(1 << 12):
                said += more
        return said.decode(errors="replace").strip()

    def close(self) -> None:
        """Let go of it, in this process only."""
        try:
            self._check()
        except OSError:
            self._socket.detach()
        else:
            self._socket.close()

    def _check(self) -> None:
        state = os.fstat(self._socket.fileno())
        if (state.st_dev, state.st_ino) != self._identity:
            raise OSError("the program has closed the connection")


def peer_of(connected: socket.socket) -> tuple[int, int]:
    """Process and user at the other end of a connection."""
    pid, user, _ = _PEER.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return pid, user


def _moved_up(low: socket.socket) -> socket.socket:
    """The same socket with a number that programs do not come to."""
    try:
        number = fcntl.fcntl(low.fileno(), fcntl.F_DUPFD_CLOEXEC, _LEAST_DESCRIPTOR)
    except OSError:
        return low
    timeout = low.gettimeout()
    low.close()
    high = socket.socket(fileno=number)
    high.settimeout(timeout)
    return high
