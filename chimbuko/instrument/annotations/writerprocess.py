"""Process that writes the trace file of this one."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import chimbuko
from chimbuko.instrument.annotations.eventwriter import WHOLE, packed
from chimbuko.instrument.tracer.keptdescriptor import KeptDescriptor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MODULE = "chimbuko.instrument.annotations.eventwriter"
_OPTIONS = ("-S", "-s", "-P")
"""Options of Python that skip site packages, which it does not need: it starts in a third of the time."""
LONGEST_WORD = 1 << 12


class WriterProcess:
    """Writer with the methods of ``EventWriter``, which writes in a process of its own.

    The calling thread must have its signals blocked: SIGPIPE comes when the process has ended.

    Parameters
    ----------
    path, is_object, pid, offset_ns
        Parameters of ``EventWriter``.

    Raises
    ------
    OSError
        No process or descriptor can be made, or Python does not start.
    """

    def __init__(self, path: str, is_object: bool, pid: int, offset_ns: int) -> None:
        theirs, ours = os.pipe()
        self._to = KeptDescriptor(ours)
        self._from: KeptDescriptor | None = None
        try:
            ours, their_word = os.pipe()
            self._from = KeptDescriptor(ours)
            try:
                _start(theirs, their_word)
            finally:
                os.close(their_word)
            self._send((path, is_object, pid, offset_ns))
        except OSError:
            self.abandon()
            raise
        finally:
            os.close(theirs)

    def append(self, fields: list[Any]) -> None:
        """Hand over events, given by their fields.

        Raises
        ------
        OSError
            Earlier events could not be written, or the process has ended.
        """
        try:
            self._send(fields)
        except BrokenPipeError:
            self._hear()
            raise

    def finish(self) -> None:
        """Wait until all events are written.

        Raises
        ------
        OSError
            They could not be written.
        """
        with suppress(BrokenPipeError):
            self._send(None)
        self._hear()
        self.abandon()

    def abandon(self) -> None:
        """Close the connection to the process, in this process only."""
        self._to.close()
        if self._from is not None:
            self._from.close()

    def _send(self, value: Any) -> None:
        self._to.check()
        data = memoryview(packed(value))
        while data:
            data = data[os.write(self._to.number, data) :]

    def _hear(self) -> None:
        assert self._from is not None
        self._from.check()
        word = os.read(self._from.number, LONGEST_WORD)
        if word != WHOLE:
            raise OSError(0, word.decode() or "the process that writes it was killed")


def _start(source: int, word: int) -> None:
    if not sys.executable:
        raise OSError(0, "there is no Python to start")
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.path.dirname(os.path.dirname(os.path.abspath(chimbuko.__file__)))
    silent = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
    started = os.posix_spawn(
        sys.executable,
        [sys.executable, *_OPTIONS, "-m", _MODULE],
        environment,
        file_actions=[(os.POSIX_SPAWN_DUP2, source, 0), (os.POSIX_SPAWN_DUP2, word, 1), silent],
        setsigmask=(),
    )
    try:
        status = os.waitpid(started, 0)[1]
    except ChildProcessError:
        # The program ignores SIGCHLD, so that the kernel has reaped the process.
        return
    if status:
        raise OSError(0, "it does not start")
