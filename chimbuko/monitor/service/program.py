"""Runs a program, or finds one that runs, and drives a session until its end."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from chimbuko.core.errors import ConfigError
from chimbuko.monitor.procfs.task import parse_thread_group
from chimbuko.monitor.sampling.identity import start_ticks_of
from chimbuko.monitor.service.election import Election, folder_of_job
from chimbuko.monitor.service.session import Session
from chimbuko.monitor.service.settings import Settings
from chimbuko.runtime.process.lifetime import log, write_error
from chimbuko.runtime.process.ranks import stated_rank
from chimbuko.runtime.process.signals import heed
from chimbuko.runtime.process.usercommand import UserCommand
from chimbuko.runtime.process.wakeup import Wakeup

# Reasons to end a program before it ends itself: its log stands still, or somebody asks for it by a file.


@dataclass
class LogWatch:
    """Whether a file has been written to lately. One that is not there yet has not."""

    path: Path
    time_out_s: float
    _last: tuple[int, int] | None = None
    _since_s: float | None = None

    def stale_s(self, now_s: float) -> float:
        """Return the seconds for which the log has not changed since it was first looked at, where that is
        too long; else 0.
        """
        last = None
        with suppress(OSError):
            found = self.path.stat()
            last = (found.st_mtime_ns, found.st_size)
        if self._since_s is None or last != self._last:
            self._last, self._since_s = last, now_s
        stale_s = now_s - self._since_s
        return stale_s if stale_s >= self.time_out_s else 0.0


@dataclass
class Endings:
    """Conditions that are looked at each period."""

    log: LogWatch | None = None
    stop_file: Path | None = None

    @property
    def is_any(self) -> bool:
        """Whether there is anything to look at."""
        return self.log is not None or self.stop_file is not None

    def reason(self, now_s: float) -> str:
        """Why the program is to be ended now; empty if it may go on."""
        if self.stop_file is not None and self.stop_file.exists():
            return f"{self.stop_file} is there"
        stale_s = self.log.stale_s(now_s) if self.log is not None else 0.0
        return f"{self.log.path} has not changed for {stale_s:.0f} s" if self.log and stale_s else ""


TIMED_OUT = 124
"""Exit code where the log stood still, as timeout(1) has it."""
GRACE_S = 10.0
"""Between SIGTERM and SIGKILL."""


class Beside(Protocol):
    """Observer of a program beside the sampler, while it runs."""

    @property
    def variables(self) -> Mapping[str, str]:
        """Further ones for its environment."""

    def collect(self) -> None:
        """Collect what was observed, once the program has ended and before another monitor may report."""


def run(
    command: Sequence[str],
    settings: Settings,
    endings: Endings,
    beside: Beside | None = None,
) -> tuple[int, list[str]]:
    """Run a program and watch it: its exit code, and the lines of the report; none if another monitor of
    its job will report.

    Parameters
    ----------
    beside
        What is found out of it beside that.

    Raises
    ------
    CommandError
        It cannot be run.
    ConfigError
        It cannot be watched as the settings say, and is not started.
    """
    ranked = stated_rank(os.environ) is not None
    election = Election(folder_of_job(os.environ, os.getppid())) if ranked else None
    # Where Python crashes it shows where it was; other programs do not look at it.
    environment = {
        "PYTHONFAULTHANDLER": "1",
        **os.environ,
        **(beside.variables if beside is not None else {}),
    }
    if settings.locks is not None:
        environment = settings.locks.environment(environment)
    session = Session(settings, election)
    with Wakeup() as wakeup, UserCommand() as program:
        program.start(command, environment)
        ending = _Ending(program, endings)
        try:
            session.join([program.pid])
            lines = _watch(
                session,
                lambda: program.poll() is not None,
                lambda timeout_s: wakeup.wait(min(timeout_s, ending.look())),
                settings.period_s,
                beside.collect if beside is not None else _nothing,
            )
        except Exception as error:
            # Whatever it is, it must not end the program, nor change its exit code.
            write_error(traceback.format_exc())
            log(f"the monitor has failed ({error}); the program goes on without it")
            lines = []
        code = program.wait()
    return TIMED_OUT if ending.timed_out else code, lines


def attach(pids: Sequence[int], settings: Settings) -> list[str]:
    """Watch processes until all have ended, or Ctrl-C, SIGTERM or SIGHUP comes: the lines of the report.

    Raises
    ------
    ConfigError
        There is no such process, or a file cannot be written.
    """
    starts = {pid: _start_of(pid) for pid in pids}
    session = Session(settings)
    session.join(list(starts))
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda which, _: asked.append(which))
    heed((signal.SIGHUP,), lambda which, _: asked.append(which))
    with ExitStack() as stack, Wakeup() as wakeup:
        descriptors = {pid: found for pid in starts if (found := _descriptor(pid)) is not None}
        for descriptor in descriptors.values():
            stack.callback(os.close, descriptor)

        def living() -> set[int]:
            return {pid for pid, start in starts.items() if start_ticks_of(pid) == start}

        return _watch(
            session,
            lambda: bool(asked) or not living(),
            lambda timeout_s: wakeup.wait(
                timeout_s, [descriptors[pid] for pid in descriptors.keys() & living()]
            ),
            settings.period_s,
            _nothing,
        )


def _start_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            process = parse_thread_group(file.read())
    except OSError:
        process = None
    if process is not None and process != pid:
        raise ConfigError(f"--pid {pid}: a thread of process {process}; give --pid {process}")
    start = start_ticks_of(pid)
    if start is None:
        raise ConfigError(f"--pid {pid}: no such process on this node that you may see")
    return start


def _descriptor(pid: int) -> int | None:
    """Return a descriptor that becomes readable when a process ends. Linux before 5.3 has none, nor have
    Pythons that were built there: then its end is seen at the next sample.
    """
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


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

    def __init__(self, program: UserCommand, endings: Endings) -> None:
        self._program = program
        self._endings = endings
        self._asked_s: float | None = None
        self.timed_out = False

    def look(self) -> float:
        """Look now; seconds until the next look."""
        now_s = time.monotonic()
        if self._asked_s is not None:
            if now_s - self._asked_s > GRACE_S:
                self._program.send(signal.SIGKILL)
            return 1.0
        reason = self._endings.reason(now_s)
        if reason:
            log(f"{reason}: the program is ended")
            self._asked_s = now_s
            self.timed_out = self._endings.stop_file is None or not self._endings.stop_file.exists()
            self._program.send(signal.SIGTERM)
        return 1.0 if self._endings.is_any else float("inf")
