"""Further connections of a traced process to its writer: a program may close all descriptors, as daemons do.

The process connects anew to a socket beside that of the writer server, which its writer opens when the
connection ends and the process does not.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

from chimbuko.instrument.tracer.connection import peer_of, rejoin_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from chimbuko.instrument.tracer.chunks import Handover

PATIENCE_S = 5.0
"""Longest wait for a process to connect anew; it looks every 0.1 s, when it hands over."""
LOOK_PERIOD_S = 0.05
"""Time between two looks whether the process is still there."""


class MemberLine:
    """Line to a traced process, over one connection after the other.

    Parameters
    ----------
    peer
        First connection, after the header.
    pid
        Process id of the member.
    address
        Path of the writer server's socket.
    """

    def __init__(self, peer: socket.socket, pid: int, address: str) -> None:
        self.peer = peer
        self._pid = pid
        self._address = rejoin_address(address, pid)
        self._command = self._running_command()

    def handovers(self, stuck_after_s: int) -> Iterator[Handover]:
        """Yield the handovers until the program has ended; it may die in the middle of one.

        Parameters
        ----------
        stuck_after_s
            Time after which an alarm ends the writer once the last handover has come.
        """
        while True:
            with self.peer.makefile("rb") as source:
                while True:
                    signal.alarm(0)
                    try:
                        handover: Handover = pickle.load(source)
                    except (EOFError, OSError, pickle.UnpicklingError):
                        break
                    yield handover
            if not self._is_rejoined():
                signal.alarm(stuck_after_s)
                return

    def _running_command(self) -> bytes:
        """Return the command line of the process: another one if it is another program, none if it ends."""
        try:
            return Path(f"/proc/{self._pid}/cmdline").read_bytes()
        except OSError:
            return b""

    def _is_rejoined(self) -> bool:
        if not self._is_there():
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, suppress(OSError):
            listener.bind(self._address)
            try:
                listener.listen()
                listener.settimeout(LOOK_PERIOD_S)
                return self._accept(listener)
            finally:
                os.unlink(self._address)
        return False

    def _is_there(self) -> bool:
        return bool(self._command) and self._running_command() == self._command

    def _accept(self, listener: socket.socket) -> bool:
        latest = time.monotonic() + PATIENCE_S
        while self._is_there() and time.monotonic() < latest:
            with suppress(TimeoutError):
                peer, _ = listener.accept()
                if peer_of(peer) == (self._pid, os.getuid()):
                    self.peer.close()
                    self.peer = peer
                    peer.settimeout(None)
                    return True
                peer.close()
        return False
