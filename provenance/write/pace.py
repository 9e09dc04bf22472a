"""Pace of work that is done again and again."""

from __future__ import annotations


class Pace:
    """Pace at which work is done at most once in a period, and takes at most a share of the time.

    Parameters
    ----------
    due_s
        When it is due first, in seconds on the clock of all times that it is given.
    """

    def __init__(self, period_s: float, most_share: float, due_s: float) -> None:
        self._period_s = period_s
        self._most_share = most_share
        self._due_s = due_s

    def wait_s(self, now_s: float) -> float:
        """Return the time until the work is due; 0 if it is."""
        return max(0.0, self._due_s - now_s)

    def is_due(self, now_s: float) -> bool:
        """Return whether the work is due."""
        return now_s >= self._due_s

    def rest(self, since_s: float, took_s: float) -> None:
        """Make the work due a period after ``since_s``, and later where it took long."""
        self._due_s = since_s + max(self._period_s, took_s / self._most_share)
