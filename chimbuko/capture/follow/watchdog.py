"""What is done about processes of ours that were stopped: a stopped reader holds the end of an SST writer."""

from __future__ import annotations

from collections.abc import Iterable
from signal import SIGCONT, SIGKILL, Signals
from typing import NamedTuple

from chimbuko.capture.follow.presence import STOPPED, Process, Role

PATIENCE_S = 5.0


class _Seen(NamedTuple):
    stopped_s: float | None = None
    """For how long it was stopped at each look; None where it was not, or was just sent a signal."""
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
        """What is to be sent to whom.

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
