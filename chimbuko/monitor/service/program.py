"""Runs a program, or finds one that runs, and drives a session until its end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from chimbuko.errors import ConfigError
from chimbuko.monitor.sampling.identity import read_identity, start_ticks_of
from chimbuko.monitor.service.election import Election, folder_of_job
from chimbuko.monitor.service.endings import Endings
from chimbuko.monitor.service.session import Session, Settings
from chimbuko.process.lifetime import log
from chimbuko.process.ranks import stated_rank
from chimbuko.process.wakeup import Wakeup

TIMED_OUT = 124
"""Exit code where the log stood still, as timeout(1) has it."""
GRACE_S = 10.0
"""Between SIGTERM and SIGKILL."""


class Beside(Protocol):
    """What else is found out of a program while it runs."""

    @property
    def variables(self) -> Mapping[str, str]:
        """Further ones for its environment."""

    def collect(self) -> None:
        """It has ended; called before another monitor may report."""


def run(
    command: Sequence[str],
    settings: Settings,
    endings: Endings,
    beside: Beside | None = None,
) -> tuple[int, list[str]]:
    """Run a program and watch it: its exit code, and the lines of the report; none where another monitor of
    its job will report.

    Parameters
    ----------
    beside
        What is found out of it beside that.

    Raises
    ------
    ConfigError
        It cannot be run.
    """
    ranked = stated_rank(os.environ) is not None
    election = Election(folder_of_job(os.environ, os.getppid())) if ranked else None
    # Where Python crashes it shows where it was; other programs do not look at it.
    environment = {
        "PYTHONFAULTHANDLER": "1",
        **os.environ,
        **(beside.variables if beside is not None else {}),
    }
    with Wakeup() as wakeup:
        try:
            # It inherits what a launcher has opened for it, as MPICH's does; of ours nothing is inherited.
            process = subprocess.Popen(command, env=environment, close_fds=False)
        except OSError as error:
            raise ConfigError(f"{command[0]}: cannot be run ({error.strerror})") from error
        # Ctrl-C reaches the program as well, which decides what becomes of it; SIGTERM is passed on.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
        ending = _Ending(process, endings)
        lines = _watch(
            Session(process.pid, settings, election),
            lambda: process.poll() is not None,
            lambda timeout_s: wakeup.wait(min(timeout_s, ending.look())),
            settings.period_s,
            beside.collect if beside is not None else _nothing,
        )
    # As a shell says that a signal ended it.
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return TIMED_OUT if ending.timed_out else code, lines


def attach(pid: int, settings: Settings) -> list[str]:
    """Watch a process until it ends, or Ctrl-C or SIGTERM comes: the lines of the report.

    Raises
    ------
    ConfigError
        There is no such process.
    """
    identity = read_identity(pid)
    if identity is None:
        raise ConfigError(f"--pid {pid}: no such process on this node")
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda which, _: asked.append(which))
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        raise ConfigError(f"--pid {pid}: no such process on this node") from None
    try:
        with Wakeup() as wakeup:
            return _watch(
                Session(pid, settings),
                lambda: bool(asked) or start_ticks_of(pid) != identity.start_ticks,
                lambda timeout_s: wakeup.wait(timeout_s, [descriptor]),
                settings.period_s,
                _nothing,
            )
    finally:
        os.close(descriptor)


def _nothing() -> None:
    pass


def _watch(
    session: Session,
    is_over: Callable[[], bool],
    wait: Callable[[float], None],
    period_s: float,
    at_end: Callable[[], None],
) -> list[str]:
    session.period()
    due_s = time.monotonic()
    while not is_over():
        due_s = max(due_s + period_s, time.monotonic())
        while not is_over() and time.monotonic() < due_s:
            wait(max(0.0, due_s - time.monotonic()))
        if not is_over():
            session.period()
    at_end()
    return session.end()


class _Ending:
    """Ends a program for a reason: it is asked to, and killed where it does not."""

    def __init__(self, process: subprocess.Popen[bytes], endings: Endings) -> None:
        self._process = process
        self._endings = endings
        self._asked_s: float | None = None
        self.timed_out = False

    def look(self) -> float:
        """Look now; seconds until the next look."""
        now_s = time.monotonic()
        if self._asked_s is not None:
            if now_s - self._asked_s > GRACE_S:
                self._process.kill()
            return 1.0
        reason = self._endings.reason(now_s)
        if reason:
            log(f"{reason}: the program is ended")
            self._asked_s = now_s
            self.timed_out = self._endings.stop_file is None or not self._endings.stop_file.exists()
            self._process.terminate()
        return 1.0 if self._endings.is_any else float("inf")
