"""The guard of a folder of followed streams: ``python -m chimbuko.capture.follow.guard --folder DIR``.

A process of its own on each node, so small that it can stay when all others of ours are gone: unread data
takes space, and where it comes to an end the application does, too. It drops the oldest unread data of
streams beyond their limits, makes processes of ours go on that were stopped, as a stopped reader holds up
the end of an SST writer, and removes the folder when nobody needs it any more. It loads neither numpy nor
ADIOS2, and writes to nothing but the folder and its standard error, which belong on the node's own storage:
a network file system that hangs would stop it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from signal import SIGCONT, SIGKILL, Signals
from typing import NamedTuple

from chimbuko.capture.follow.limits import Limits
from chimbuko.capture.follow.presence import STOPPED, Process, Role, announced, claim, has_writer
from chimbuko.capture.follow.room import Room
from chimbuko.capture.follow.trimmer import IDLE_S, Trimmer
from chimbuko.core.errors import ChimbukoError, ConfigError
from chimbuko.runtime.process.signals import END, be_called, ignore_others

PATIENCE_S = 5.0


class _Seen(NamedTuple):
    stopped_s: float | None = None
    """Time for which it was stopped at each look, in seconds; None if it was not, or was just sent a
    signal.
    """
    went_on: bool = False
    """Whether it was made to go on before."""


class Watchdog:
    """Decides which processes to make go on, and which to kill.

    A reader that was stopped is made to go on after ``patience_s`` seconds, and one that is stopped again is
    killed after as many more. The guard looks about once a second: so a reader that has read a step can hold
    an application for no longer than twice the patience and six seconds, which are 16 by default.

    Parameters
    ----------
    patience_s
        How long a process may be stopped, in seconds.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._seen: dict[tuple[int, int], _Seen] = {}

    def look(self, living: Iterable[tuple[Process, str]], passed_s: float) -> list[tuple[Process, Signals]]:
        """Return the signals to send, and to whom.

        Parameters
        ----------
        living
            All processes that live, with their states.
        passed_s
            Seconds since the last look: at most twice what they were meant to be. When the whole machine
            stood still, nobody was stopped for that time.
        """
        seen, self._seen = self._seen, {}
        sent = []
        for process, state in living:
            key = process.pid, process.started
            before = seen.get(key, _Seen())
            stopped_s = None
            if state == STOPPED:
                stopped_s = 0.0 if before.stopped_s is None else before.stopped_s + passed_s
            self._seen[key] = before._replace(stopped_s=stopped_s)
            if stopped_s is None or stopped_s < self._patience_s:
                continue
            if number := _remedy(process.role, before.went_on):
                sent.append((process, number))
                self._seen[key] = _Seen(went_on=True)
        return sent


def _remedy(role: Role, went_on: bool) -> Signals | None:
    if role in (Role.LAUNCHER, Role.APPLICATION):
        return None
    if role is Role.JOINING or not went_on:
        return SIGCONT
    return SIGKILL if role is Role.READING else None


LINGER_S = 30.0
"""An application that was just started has no stream yet, and one of its launchers may be gone."""
_WATCH_S = 1.0
_TIDY_WATCHES = 8
_RECENT_NS = int(3 * _WATCH_S * 1e9)
_MOST_FAILURES_TOLD = 10


class Options(NamedTuple):
    """Task of a guard."""

    folder: str
    limits: Limits = Limits()
    keep: bool = False
    """Whether the folder stays when nobody needs it any more."""
    linger_s: float = LINGER_S
    """Time in seconds for which nobody must have needed the folder before the guard ends."""
    patience_s: float = PATIENCE_S
    """Time in seconds that a ``Watchdog`` waits before it acts."""

    def arguments(self) -> list[str]:
        """Return the options as arguments of a command line."""
        limits = self.limits
        return [
            *("--folder", self.folder, "--limit", str(limits.stream_bytes)),
            *("--node-limit", str(limits.node_bytes), "--reserve", str(limits.reserve_bytes)),
            *("--linger", str(self.linger_s), "--patience", str(self.patience_s)),
            *(("--keep",) if self.keep else ()),
        ]


def parsed(arguments: list[str]) -> Options:
    """Return the options of a command line; argparse would take longer than all the rest of the start.

    Raises
    ------
    ConfigError
        One is unknown, has no value or is no number.
    """
    keep = "--keep" in arguments
    words = [word for word in arguments if word != "--keep"]
    given = dict(zip(words[::2], words[1::2], strict=False))
    folder = given.pop("--folder", "")
    if not folder or len(words) % 2:
        raise ConfigError("guard: which folder? Give --folder DIR, and each option a value")
    limits = Limits()
    try:
        options = Options(
            os.path.abspath(folder),
            Limits(
                int(given.pop("--limit", limits.stream_bytes)),
                int(given.pop("--node-limit", limits.node_bytes)),
                int(given.pop("--reserve", limits.reserve_bytes)),
            ),
            keep,
            float(given.pop("--linger", LINGER_S)),
            float(given.pop("--patience", PATIENCE_S)),
        )
    except ValueError as error:
        raise ConfigError(f"guard: an option is no number ({error})") from None
    if given:
        raise ConfigError(f"guard: unknown option {next(iter(given))}")
    return options


class Guard:
    """Looks after one folder. It has no clock: who calls it says how much time has passed.

    Parameters
    ----------
    report
        Takes a line for people.
    """

    def __init__(self, options: Options, report: Callable[[str], None]) -> None:
        self._options = options
        self._room = Room(options.folder)
        self._trimmer = Trimmer(options.folder, options.limits, self._room, report)
        self._watchdog = Watchdog(options.patience_s)
        self._announced: list[Process] = []
        self._living: list[tuple[Process, str]] = []
        self._changed_ns = 0
        self._since_watched_s = _WATCH_S
        self._watches = 0
        self._unneeded_s = 0.0
        self.is_ending = False
        """Whether it was asked to end: it does when the application has ended, whoever else is there."""

    def look(self, passed_s: float) -> float:
        """Do what is to be done now; the seconds until the next look.

        Raises
        ------
        OSError
            The folder is gone, or something in it cannot be read or given back.
        """
        if self._has_changed():
            self._trimmer.find()
            self._announced = announced(self._options.folder)
        self._since_watched_s += passed_s
        if self._since_watched_s >= _WATCH_S or self.is_ending:
            self._watch(min(self._since_watched_s, 2 * _WATCH_S))
            self._since_watched_s = 0.0
        return self._trimmer.look(passed_s)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to guard."""
        return self._unneeded_s > self._options.linger_s or (self.is_ending and self._unneeded_s > 0.0)

    def _watch(self, passed_s: float) -> None:
        self._living = [(process, state) for process in self._announced if (state := process.state())]
        for process, number in self._watchdog.look(self._living, passed_s):
            process.send(number)
        if self._watches % _TIDY_WATCHES == 0:
            self._trimmer.tidy()
            self._room.look_anew(["self", *self._application()])
        self._watches += 1
        self._unneeded_s = 0.0 if self._is_needed() else self._unneeded_s + passed_s

    def _has_changed(self) -> bool:
        """Whether streams or processes may have come or gone since this was asked last."""
        changed_ns = os.stat(self._options.folder).st_mtime_ns
        before, self._changed_ns = self._changed_ns, changed_ns
        # The kernel's clock for files goes in ticks: in the last one there may be another change to come.
        return changed_ns != before or time.time_ns() - changed_ns < _RECENT_NS

    def _is_needed(self) -> bool:
        needing = self._application() if self.is_ending else self._living
        return bool(needing) or any(map(has_writer, self._trimmer.streams))

    def _application(self) -> list[int]:
        return [process.pid for process, _ in self._living if process.role is Role.APPLICATION]


def remove(folder: str) -> None:
    """Remove a folder with all that is in it.

    Raises
    ------
    OSError
        Somebody makes files in it.
    """
    for place, folders, files in os.walk(folder, topdown=False):
        for name in files:
            os.unlink(os.path.join(place, name))
        for name in folders:
            os.rmdir(os.path.join(place, name))
    os.rmdir(folder)


def report(text: str) -> None:
    """Write a line to standard error; no error of that ends the guard."""
    with suppress(OSError):
        os.write(2, f"chimbuko: guard: {text}\n".encode())


def keep_guard(options: Options) -> None:
    """Guard a folder until nobody needs it any more.

    Raises
    ------
    ConfigError
        There is no such folder.
    """
    # Waited for, below: so nothing is interrupted, and none is missed.
    signal.pthread_sigmask(signal.SIG_BLOCK, [END])
    ignore_others()
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    try:
        if claim(options.folder) is None:
            return
        guard = Guard(options, report)
    except OSError as error:
        raise ConfigError(f"{options.folder}: no folder to guard ({error.strerror})") from None
    # It must not keep a folder of somebody else from being unmounted.
    os.chdir("/")
    failures = 0
    wait_s, before_s = 0.0, time.monotonic()
    while not guard.is_over:
        came = signal.sigtimedwait([END], wait_s)
        # Stopped for longer than it was to wait, Python returns what was in memory by chance, and not None.
        if came is not None and came.si_signo == END:
            guard.is_ending = True
        now_s = time.monotonic()
        try:
            wait_s = guard.look(now_s - before_s)
        except FileNotFoundError:
            if not os.path.isdir(options.folder):
                return
        except Exception as error:
            # Whatever it is, without a guard the application may end.
            failures += 1
            if failures <= _MOST_FAILURES_TOLD:
                report(f"{type(error).__name__}: {error}")
            wait_s = IDLE_S
        before_s = now_s
    if not options.keep:
        try:
            remove(options.folder)
        except OSError as error:
            report(f"{options.folder} could not be removed: {error}")


def main() -> None:
    """Entry of ``python -m chimbuko.capture.follow.guard``."""
    be_called("chimbuko.guard")
    # What was inherited may be a stream: ADIOS2's files stay open in children.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    try:
        keep_guard(parsed(sys.argv[1:]))
    except ChimbukoError as error:
        report(str(error))
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
