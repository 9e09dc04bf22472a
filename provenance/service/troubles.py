"""Troubles of the writer with its broker and its store."""

from __future__ import annotations

from chimbuko.core.errors import ChimbukoError
from chimbuko.provenance.service.steps import GiveUp, Pause, Report

FIRST_RETRY_S = 0.1
LAST_RETRY_S = 2.0
STOP_GRACE_S = 10.0
"""Time to go on trying, once asked to stop, while broker or store cannot be used."""


class Troubles:
    """Troubles that may pass: each kind is reported once, and each try waits longer.

    ::

        NONE ──failed ─▶ Pause, with a line──▶ TROUBLED ─┐ failed ─▶ Pause, twice as long; another line
          ▲                                     │  │  ▲  │           where it is another kind of error
          └──────────over ─▶ Report─────────────┘  │  └──┘
                                                   └── failed, STOP_GRACE_S after the end ─▶ GiveUp
    """

    def __init__(self) -> None:
        self._said: type[ChimbukoError] | None = None
        """Kind of the error that was reported last; None without trouble."""
        self._since_s = 0.0
        self._retry_s = FIRST_RETRY_S
        self._stopping_since_s: float | None = None

    def validate_state(self) -> None:
        """Raise ``AssertionError`` where what is known contradicts itself."""
        assert FIRST_RETRY_S <= self._retry_s <= LAST_RETRY_S
        assert self._said is not None or self._retry_s == FIRST_RETRY_S, "it waits longer without trouble"

    def failed(self, now_s: float, error: ChimbukoError, is_stopping: bool) -> Pause | GiveUp:
        """Return what to do about an error."""
        if is_stopping:
            if self._stopping_since_s is None:
                self._stopping_since_s = now_s
            if now_s - self._stopping_since_s > STOP_GRACE_S:
                return GiveUp(error)
        if self._said is None:
            self._since_s = now_s
        is_new, self._said = self._said is not type(error), type(error)
        pause = Pause(f"{error}; records wait until it works again" if is_new else "", self._retry_s)
        self._retry_s = min(2 * self._retry_s, LAST_RETRY_S)
        return pause

    def over(self, now_s: float) -> Report | None:
        """Return what to say where all works again; None where there was no trouble."""
        if self._said is None:
            return None
        self._said, self._retry_s = None, FIRST_RETRY_S
        return Report(f"records are stored again, after {now_s - self._since_s:.1f} s")
