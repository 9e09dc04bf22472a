"""Processes that a workflow starts, each with all that it starts itself, until none of them is left."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from chimbuko.core.errors import ConfigError
from chimbuko.runtime.process.lifetime import die_with_parent
from chimbuko.runtime.process.signals import FROM_OTHERS, heed
from chimbuko.runtime.process.usercommand import UserCommand, shell_code

GRACE_S = 5.0
"""Between SIGTERM and SIGKILL."""
ORPHANS_GRACE_S = 20.0
"""The same for what a leader that was killed has left: services among it deliver what they have."""
LOOK_S = 0.1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None)


def adopt_orphans() -> None:
    """Make this process the parent of orphans that its children leave behind, from now on."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def leave_to_child() -> None:
    """Go on in a child of this process. This one waits for it, hands signals on and ends with its exit code;
    where the child is killed it ends all that has come of it, also what is in sessions of its own.

    Called while there is one thread.
    """
    adopt_orphans()
    own = os.getpid()
    # A signal that ended this process before it hands them on would leave the other one to itself.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, FROM_OTHERS)
    leader = os.fork()
    if not leader:
        # A terminal's Ctrl-C comes to the other process, and from there.
        os.setsid()
        die_with_parent(signal.SIGTERM)
        if os.getppid() != own:
            os._exit(128 + signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return
    heed(FROM_OTHERS, lambda number, frame: os.kill(leader, number))
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _, status = os.waitpid(leader, 0)
    _end_orphans()
    os._exit(shell_code(os.waitstatus_to_exitcode(status)))


def _end_orphans() -> None:
    deadline_s = time.monotonic() + ORPHANS_GRACE_S
    asked: set[int] = set()
    while (orphans := _children(os.getpid())) and time.monotonic() < deadline_s:
        for pid in orphans:
            with suppress(ProcessLookupError, PermissionError):
                if pid not in asked:
                    os.kill(pid, signal.SIGTERM)
            asked.add(pid)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(LOOK_S)
    kill_orphans()


class Child:
    """One process, in a session of its own.

    Parameters
    ----------
    log
        Its output is added to that; None for that of this process.
    cores
        It is bound to these; None for no others than this process.

    Raises
    ------
    ConfigError
        The folder does not exist, or the log cannot be written.
    CommandError
        The command cannot be run.
    """

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        log: Path | None = None,
        cores: set[int] | None = None,
    ) -> None:
        self._kill_at_s: float | None = None

        def prepare() -> None:
            die_with_parent(signal.SIGTERM)
            if cores is not None:
                os.sched_setaffinity(0, cores)

        if not folder.is_dir():
            raise ConfigError(f"{folder}: no such folder")
        self._code: int | None = None
        self._command = UserCommand()
        try:
            output = None if log is None else log.open("ab")
        except OSError as error:
            raise ConfigError(f"{log}: cannot be written ({error.strerror})") from error
        try:
            self._command.start(
                words,
                environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C is for who leads the workflow, which ends it in order.
                start_new_session=True,
                preexec_fn=prepare,
            )
        finally:
            if output is not None:
                output.close()

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._command.pid

    @property
    def code(self) -> int | None:
        """Exit code as a shell gives it; None while it runs. Processes that it left behind are killed."""
        if not self._has_ended():
            if self._kill_at_s is not None and time.monotonic() >= self._kill_at_s:
                self.kill()
            return None
        return self._code

    def ask_to_end(self) -> None:
        """Ask it and all of its session to end, and kill them some time later."""
        if not self._has_ended():
            self._command.send(signal.SIGTERM)
            self._command.send(signal.SIGCONT)
            self._kill_at_s = time.monotonic() + GRACE_S

    def send(self, number: int) -> None:
        """Send it a signal, and not what it has started."""
        if not self._has_ended():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill all of its session."""
        self._command.send(signal.SIGKILL)

    def _has_ended(self) -> bool:
        """Whether it has; then nothing of its session is left, either."""
        if self._code is not None:
            return True
        # Its number, which is that of the session, stays its own until it is waited for.
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return False
        self.kill()
        self._code = self._command.wait()
        return True


def kill_orphans(known: Sequence[int] = ()) -> None:
    """Kill processes that became children of this one as their parent died, with their own children."""
    own = os.getpid()
    while True:
        orphans = [pid for pid in _children(own) if pid not in known]
        for pid in orphans:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        if not orphans:
            return


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found
