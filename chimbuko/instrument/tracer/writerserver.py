"""Server from which the writers of a family are forked: one for each traced process that connects.

A writer that is started anew takes 0.3 s of a core, to load numpy and ADIOS2; one that is forked takes
milliseconds. The server has one thread and no stream, and ends soon after the last of its writers.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

from chimbuko.capture.trace.adios import adios2_bindings
from chimbuko.instrument.tracer.chunks import Header
from chimbuko.instrument.tracer.connection import LENGTH, peer_of
from chimbuko.instrument.tracer.members import MOST_IN_ALL, Members, State
from chimbuko.instrument.tracer.places import Place, Places
from chimbuko.instrument.tracer.rejoining import MemberLine
from chimbuko.instrument.tracer.writer import Joined, alone, ignore_signals, serve_member
from chimbuko.instrument.tracer.writerserverstart import ENDING_SIGNALS, remove_socket
from chimbuko.runtime.process.lifetime import Sacrifice, oom_score, set_oom_score

MOST_AT_A_TIME = max(32, os.cpu_count() or 1)
"""Most members at a time: each has a writer, and a reader in the agent, on the node of the program."""
LINGER_S = 2.0
"""Time for which the server stays without a member: a child may come when its parent has ended."""
GREETING_TIMEOUT_S = 1.0
"""Longest wait for the header of a process that has connected, which has it ready."""


def main(joined: Joined = alone) -> None:
    """Serve the socket that is the standard input; the argument is the process that will be the first member.

    Parameters
    ----------
    joined
        Function that adds to the handovers of a process what others have recorded of it.
    """
    listener = socket.socket(fileno=os.dup(0))
    try:
        os.setsid()
        ignore_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)
        # The writers inherit it.
        set_oom_score(oom_score(Sacrifice.WRITER))
        # Garbage collection in a writer must not touch, and so copy, the memory of what is loaded here.
        gc.disable()
        adios2_bindings()
        gc.freeze()
        gc.enable()
        WriterServer(listener, joined, int(sys.argv[1])).serve()
    finally:
        remove_socket(listener.getsockname())


class WriterServer:
    """Server of one family, which waits for its first member as long as that lives."""

    def __init__(self, listener: socket.socket, joined: Joined, first: int) -> None:
        self._listener = listener
        self._joined = joined
        self._members = Members()
        self._places = Places(os.environ)
        self._writers: dict[int, int] = {}
        self._first = first

    def serve(self) -> None:
        """Serve until there has been no member for a while."""
        someone_ended, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        listening = self._listener.fileno()
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        while True:
            patience_s = None if self._writers else LINGER_S
            readable, _, _ = select.select([listening, someone_ended], [], [], patience_s)
            if someone_ended in readable:
                os.read(someone_ended, 1 << 12)
                self._reap()
            if listening in readable:
                self._take_in()
            if not readable and not self._writers and not self._is_first_awaited():
                return

    def _is_first_awaited(self) -> bool:
        """Whether the first member has yet to come: on a busy node an interpreter takes long to begin."""
        return not self._members.count and Path("/proc", str(self._first)).exists()

    def _take_in(self) -> None:
        with suppress(OSError, pickle.UnpicklingError, EOFError), self._listener.accept()[0] as peer:
            pid, user = peer_of(peer)
            # Unpickling may run any code, so only that of the same user is accepted.
            if user != os.getuid():
                return
            if self._members.count >= MOST_IN_ALL or len(self._writers) >= MOST_AT_A_TIME:
                self._members.refuse()
                return
            header = _header(peer)
            number = self._members.add(pid, header)
            place = self._places.of(header.launched)
            if place.rank is not None:
                header = header._replace(rank=place.rank)
            if writer := os.fork():
                self._writers[writer] = number
            else:
                self._become_writer(peer, pid, header, number, place)

    def _become_writer(
        self, peer: socket.socket, pid: int, header: Header, number: int, place: Place
    ) -> None:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            line = MemberLine(peer, pid, self._listener.getsockname())
            self._listener.close()
            peer.settimeout(None)
            serve_member(line, pid, header, self._members, number, place, self._joined)
        finally:
            os._exit(0)

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)[0]) > 0:
                self._members.set_state(self._writers.pop(ended), State.OVER)


def _header(peer: socket.socket) -> Header:
    peer.settimeout(GREETING_TIMEOUT_S)
    (length,) = LENGTH.unpack(_received(peer, LENGTH.size))
    header: Header = pickle.loads(_received(peer, length))
    return header


def _received(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = peer.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
