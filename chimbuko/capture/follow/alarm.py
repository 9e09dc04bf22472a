"""Waits until something was written to a stream, or a stream appears: the kernel says so, and waiting costs
nothing.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
from pathlib import Path

from chimbuko.capture.follow.steps import INDEX

_MODIFIED = 0x2
_CREATED = 0x100
_MOVED_TO = 0x80
_libc = ctypes.CDLL(None, use_errno=True)


class Alarm:
    """Wakes who waits for the next step of a followed stream, or for streams.

    A signal with a handler does so, too.

    Parameters
    ----------
    folder
        Folder of the stream, or in which streams appear; it exists. None to wait for ``others`` alone.
    poll_s
        Time after which it wakes in any case, in seconds, where the kernel reports no changes: on
        network file systems, or where all watches of the user are taken.
    others
        Files that wake it, too, when they can be read; whoever waits reads them.
    """

    def __init__(self, folder: Path | None, poll_s: float, others: tuple[int, ...] = ()) -> None:
        self._poll_s = poll_s
        self._file = _libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        self._signals, self._signalled = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(self._signalled, warn_on_full_buffer=False)
        # Not select(), which knows no more than 1,024 files.
        self._poll = select.poll()
        self._own = {self._signals, self._file}
        for file in (self._signals, *others):
            self._poll.register(file, select.POLLIN)
        if self._file >= 0:
            self._poll.register(self._file, select.POLLIN)
        self._is_watching = folder is None or (self._file >= 0 and self._watches(folder))

    def _watches(self, folder: Path) -> bool:
        def watch(path: Path, changes: int) -> bool:
            return bool(_libc.inotify_add_watch(self._file, os.fsencode(path), changes) >= 0)

        return watch(folder / INDEX, _MODIFIED) or watch(folder, _CREATED | _MOVED_TO | _MODIFIED)

    def wait(self, timeout_s: float) -> None:
        """Wait until something changed since the last call, at most ``timeout_s`` seconds."""
        if not self._is_watching:
            timeout_s = min(timeout_s, self._poll_s)
        for file, _ in self._poll.poll(1000 * timeout_s):
            if file in self._own:
                # Whatever it says, the index or the folder says what there is.
                os.read(file, 1 << 16)

    def close(self) -> None:
        """Watch no longer."""
        signal.set_wakeup_fd(-1)
        for file in (self._file, self._signals, self._signalled):
            if file >= 0:
                os.close(file)
