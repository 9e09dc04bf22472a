"""Connection between a traced process and the process that writes its stream, over a file descriptor that
the program does not know of.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import socket
import struct
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_LEAST_NUMBER = 256
"""Least number of a kept descriptor: programs that become daemons close all, and open their own from 0 on."""


class KeptDescriptor:
    """Descriptor that the program may close. Another one that it opens under the number is not touched.

    Parameters
    ----------
    low
        Descriptor, which is moved to a number that programs hardly reach. Call ``check`` before each use.
    """

    def __init__(self, low: int) -> None:
        try:
            self.number = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _LEAST_NUMBER)
            os.close(low)
        except OSError:
            self.number = low
        self._identity = _identity(self.number)

    def check(self) -> None:
        """Check that the descriptor is still ours.

        Raises
        ------
        OSError
            The program has closed it.
        """
        if not self.is_ours():
            raise OSError(errno.EBADF, "the program has closed it")

    def is_ours(self) -> bool:
        """Whether the descriptor is still ours."""
        try:
            return _identity(self.number) == self._identity
        except OSError:
            return False

    def close(self) -> None:
        """Close the descriptor, in this process only."""
        if self.is_ours():
            os.close(self.number)


def _identity(number: int) -> tuple[int, int]:
    state = os.fstat(number)
    return state.st_dev, state.st_ino


LONGEST_WAIT_S = 20.0
"""Longest wait for a writer that takes nothing: longer than a writer waits for a reader that is stuck."""
REJOIN_WAIT_S = 2.0
"""Longest wait for the writer to notice that a connection has ended, and to open a socket for another one."""
WAIT_S = 0.5
"""Wait at a time, after which the caller gets a turn."""
LENGTH = struct.Struct("!I")
"""Length of the header, sent before it: the writer server reads the header, and the writer what follows."""

_PEER = struct.Struct("3i")


class Connection:
    """Connection of a traced process. The program may close its descriptor, and open another of that number.

    Parameters
    ----------
    address
        Path of the writer server's socket.

    Raises
    ------
    OSError
        No process of this user listens there.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._connect(address)

    def _connect(self, address: str) -> None:
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

    def send(
        self, value: Any, has_length: bool = False, while_waiting: Callable[[], None] | None = None
    ) -> None:
        """Send a value.

        Parameters
        ----------
        has_length
            Whether its length is sent first.
        while_waiting
            Function that is called now and then as long as the writer takes nothing.

        Raises
        ------
        OSError
            The writer has ended or takes nothing, or the program has closed the descriptor and there is no
            way back to the writer.
        """
        data = pickle.dumps(value)
        if has_length:
            data = LENGTH.pack(len(data)) + data
        try:
            self._send(data, while_waiting)
        except OSError:
            if self._kept.is_ours() or has_length:
                raise
            self._connect_anew()
            self._send(data, while_waiting)

    @property
    def is_closed_by_program(self) -> bool:
        """Whether the program has closed the descriptor."""
        return not self._kept.is_ours()

    def _connect_anew(self) -> None:
        # The number may be that of another descriptor of the program by now.
        self._socket.detach()
        latest = time.monotonic() + REJOIN_WAIT_S
        while True:
            try:
                return self._connect(rejoin_address(self._address, os.getpid()))
            except OSError:
                if time.monotonic() > latest:
                    raise
                time.sleep(REJOIN_WAIT_S / 100)

    def _send(self, data: bytes, while_waiting: Callable[[], None] | None) -> None:
        self._kept.check()
        left = memoryview(data)
        give_up = time.monotonic() + LONGEST_WAIT_S
        self._socket.settimeout(WAIT_S)
        while left:
            try:
                # No SIGPIPE: the program may rely on it for its own pipes.
                left = left[self._socket.send(left, socket.MSG_NOSIGNAL) :]
            except TimeoutError:
                if time.monotonic() > give_up:
                    raise
                if while_waiting is not None:
                    while_waiting()
        self._socket.settimeout(LONGEST_WAIT_S)

    def last_word(self) -> str:
        """Wait for the end of the stream; return how it ended by the writer's message, empty without one."""
        said = b""
        # A writer that has ended in mid-stream may have left a message.
        with suppress(OSError):
            self._kept.check()
            while more := self._socket.recv(1 << 12):
                said += more
        return said.decode(errors="replace").strip()

    def close(self) -> None:
        """Close the connection, in this process only."""
        if self._kept.is_ours():
            self._socket.close()
        else:
            self._socket.detach()


def rejoin_address(address: str, pid: int) -> str:
    """Return the path of the socket at which the writer of a process waits for it to come back."""
    return os.path.join(os.path.dirname(address), str(pid))


def peer_of(connected: socket.socket) -> tuple[int, int]:
    """Return the process id and the user id at the other end of a connection."""
    pid, user, _ = _PEER.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return pid, user
