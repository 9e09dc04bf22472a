"""The socket between a traced process and the process that writes its stream."""

from __future__ import annotations

import os
import pickle
import socket
import struct
from contextlib import suppress
from typing import Any

from chimbuko.tracer.keptdescriptor import KeptDescriptor

LONGEST_WAIT_S = 20.0
"""For a writer that takes nothing: longer than the writer itself waits for a reader that is stuck."""
LENGTH = struct.Struct("!I")
"""Stands before the header, which the nursery reads; the writer reads what follows."""

_PEER = struct.Struct("3i")


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
        except OSError:
            first.close()
            raise
        self._kept = KeptDescriptor(first.detach())
        self._socket = socket.socket(fileno=self._kept.number)
        self._socket.settimeout(LONGEST_WAIT_S)

    def send(self, value: Any, has_length: bool = False) -> None:
        """Hand a value over.

        Raises
        ------
        OSError
            The writer has ended or takes nothing, or the program has closed the descriptor.
        """
        data = pickle.dumps(value)
        self._kept.check()
        # The program may want to be ended by the signal that its own pipes give.
        self._socket.sendall(LENGTH.pack(len(data)) + data if has_length else data, socket.MSG_NOSIGNAL)

    def last_word(self) -> str:
        """Wait for the end of the stream, and say how the writer says that it ended; empty if it does not."""
        said = b""
        # Of a writer that has ended in mid-stream there may be a word that was not heard yet.
        with suppress(OSError):
            self._kept.check()
            while more := self._socket.recv(1 << 12):
                said += more
        return said.decode(errors="replace").strip()

    def close(self) -> None:
        """Let go of it, in this process only."""
        if self._kept.is_ours():
            self._socket.close()
        else:
            self._socket.detach()


def peer_of(connected: socket.socket) -> tuple[int, int]:
    """Process and user at the other end of a connection."""
    pid, user, _ = _PEER.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return pid, user
