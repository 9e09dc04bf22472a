"""Starts the guard of a folder, and sees that there is one: for the launcher and for the agent."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import chimbuko
from chimbuko.capture.follow.guard import Options
from chimbuko.capture.follow.presence import STOPPED, Role, announce, guard_of, looked_up
from chimbuko.core.errors import ServiceError
from chimbuko.runtime.process.lifetime import Sacrifice, oom_score, set_oom_score
from chimbuko.runtime.process.signals import END

LOG = "guard.log"
MODULE = "chimbuko.capture.follow.guard"
READY_S = 20.0
STOP_S = 5.0
"""Longest wait for the end of the guard, in seconds: it ends with the application, but what that has started
in the background may go on.
"""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 2.0, 60.0


class GuardStarter:
    """Keeper of a guard on a folder. The guard outlives the process that started it.

    Parameters
    ----------
    options
        Options of a guard that is started here; a guard that runs already may have others.
    log
        File for its few lines, on the node's own storage: a network file system that hangs would stop it.
        Where none is given, ``guard.log`` in the folder, which may be removed with it.
    """

    def __init__(self, options: Options, log: Path | None = None) -> None:
        self._options = options
        self._log = log or Path(options.folder) / LOG
        self._pid = 0
        self._not_before_s = 0.0
        self._pause_s = _FIRST_PAUSE_S

    @property
    def folder(self) -> str:
        """Folder that is guarded."""
        return self._options.folder

    def begin(self, application: int | None = None) -> None:
        """Start the guard for the launcher, which is this process, and its application.

        Parameters
        ----------
        application
            Process id of the application; None if others start it.

        Raises
        ------
        OSError
            The folder is gone, or no process can be started.
        """
        announce(self.folder, "launcher", Role.LAUNCHER)
        if application is not None:
            # Without a word of it the guard looks at its streams alone.
            with suppress(OSError):
                announce(self.folder, "application", Role.APPLICATION, application)
        self.ensure()

    def ensure(self) -> None:
        """Start a guard if there is none, make it go on if it was stopped: cheap, for every second.

        Nothing happens where the folder is gone, or where a guard was started moments ago.

        Raises
        ------
        OSError
            No process can be started.
        """
        pid = guard_of(self._options.folder)
        if pid is not None:
            self._pause_s = _FIRST_PAUSE_S
            if looked_up(pid)[0] == STOPPED:
                os.kill(pid, signal.SIGCONT)
            return
        self._has_failed()
        now_s = time.monotonic()
        if now_s < self._not_before_s or not os.path.isdir(self._options.folder):
            return
        # One that fails at once is not started every second.
        self._not_before_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        self._pid = self._start()
        # An agent's own is higher, and would be inherited.
        set_oom_score(oom_score(Sacrifice.GUARD), self._pid)

    def wait(self, timeout_s: float = READY_S) -> None:
        """Wait until there is a guard, before the application is started: that or another, if it was killed.

        Raises
        ------
        ServiceError
            There is none after ``timeout_s`` seconds.
        """
        end_s = time.monotonic() + timeout_s
        while guard_of(self._options.folder) is None:
            if time.monotonic() > end_s:
                raise ServiceError(
                    f"{self._options.folder}: no guard of the streams started (its log is {self._log})"
                )
            self.ensure()
            time.sleep(0.005)

    def stop(self, timeout_s: float = STOP_S) -> bool:
        """Let the guard know to end when the application has, and wait; whether it did within the time.

        A guard of somebody else is asked, too. It goes on for as long as a stream is being written.
        """
        pid = guard_of(self._options.folder)
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, END)
        end_s = time.monotonic() + timeout_s
        while guard_of(self._options.folder) is not None:
            if time.monotonic() > end_s:
                return False
            time.sleep(0.01)
        return True

    def _has_failed(self) -> bool:
        """Whether what was started here has ended; that ends its last trace, too."""
        if self._pid:
            try:
                ended, _ = os.waitpid(self._pid, os.WNOHANG)
            except ChildProcessError:
                ended = self._pid
            if ended:
                self._pid = 0
        return self._pid == 0

    def _start(self) -> int:
        # Without site, and the finders of editable installs in it, which would cost 10 ms and 2 MB.
        command = [sys.executable, "-S", "-P", "-m", MODULE, *self._options.arguments()]
        path = os.pathsep.join((str(Path(chimbuko.__file__).parents[1]), os.environ.get("PYTHONPATH", "")))
        with self._log.open("ab") as log, open(os.devnull, "r+b") as nothing:
            return os.posix_spawn(
                sys.executable,
                command,
                {**os.environ, "PYTHONPATH": path.strip(os.pathsep)},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, nothing.fileno(), 0),
                    (os.POSIX_SPAWN_DUP2, nothing.fileno(), 1),
                    (os.POSIX_SPAWN_DUP2, log.fileno(), 2),
                ],
                # Ctrl-C, a lost terminal and the end of a process group are not for the guard.
                setsid=True,
            )
