"""Waits until something was written to a stream: the kernel tells, so that waiting costs nothing."""

from __future__ import annotations

import ctypes
import os
import select
import signal
from pathlib import Path

from chimbuko.follow.steps import INDEX

_MODIFIED = 0x2
_CREATED = 0x100
_MOVED_TO = 0x80
_libc = ctypes.CDLL(None, use_errno=True)


class Alarm:
    """Wakes who waits for the next step of a followed stream. A signal with a handler wakes it, too.

    Parameters
    ----------
    stream
        Its folder, which exists.
    poll_s
        Time after which it wakes in any case, in seconds, where the kernel tells of no changes: on
        network file systems, or where all watches of the user are taken.
    """

    def __init__(self, stream: Path, poll_s: float) -> None:
        self._poll_s = poll_s
        self._file = _libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        self._signals, self._signalled = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(self._signalled, warn_on_full_buffer=False)
        # Not select(), which knows no more than 1,024 files.
        self._poll = select.poll()
        self._poll.register(self._signals, select.POLLIN)
        if self._file >= 0:
            self._poll.register(self._file, select.POLLIN)
        self._is_told = self._file >= 0 and (
            _libc.inotify_add_watch(self._file, os.fsencode(stream / INDEX), _MODIFIED) >= 0
            or _libc.inotify_add_watch(self._file, os.fsencode(stream), _CREATED | _MOVED_TO | _MODIFIED) >= 0
        )

    def wait(self, timeout_s: float) -> None:
        """Wait until something changed since the last call, at most ``timeout_s`` seconds."""
        if not self._is_told:
            timeout_s = min(timeout_s, self._poll_s)
        for file, _ in self._poll.poll(1000 * timeout_s):
            # Whatever it says, the index tells what there is.
            os.read(file, 1 << 16)

    def close(self) -> None:
        """Watch no longer."""
        signal.set_wakeup_fd(-1)
        for file in (self._file, self._signals, self._signalled):
            if file >= 0:
                os.close(file)
