"""Periods in which a thread was kept from running for much of its time, by looks at it. No I/O, no clock."""

from __future__ import annotations

import sys
from collections import deque
from statistics import median
from typing import NamedTuple

LEAST_LOST_US = 50_000
"""Least loss that is reported, in µs."""
LEAST_SHARE = 0.10
"""Least loss that is reported, as a share of the time that it took."""
LEAST_OF_USUAL = 0.5
"""Nor waits for a core that are not this much more than what is usual: of ranks that share their cores all
the time, now one waits longer and now another."""
QUIET_US, RESUMED_US = 500_000, 100_000
"""A loss is over when so long nothing was added to it; a stop, when the thread has gone on for so long."""
LONGEST_US = 60_000_000
"""Longest loss, in µs: what lasts longer is how the node is, and its findings say so."""
WINDOW_US = 1_000_000
LEAST_WINDOWS, MOST_WINDOWS = 5, 60
"""Least and most windows without losses, by which the usual waits of a thread are known."""


class Stretch(NamedTuple):
    """Time of one thread between two looks at it."""

    begin_us: int
    end_us: int
    ran_us: int
    waited_us: int
    """Waits for a core that were over by then, in µs; the first may have begun before."""
    was_stopped: bool
    """Whether the thread was stopped at its beginning."""
    is_stopped: bool
    """Whether the thread was stopped at its end."""

    @property
    def length_us(self) -> int:
        """Length from look to look, in µs."""
        return self.end_us - self.begin_us

    @property
    def still_us(self) -> int:
        """Neither on a core nor waiting for one."""
        return max(0, self.length_us - self.ran_us - self.waited_us)

    @property
    def stopped(self) -> tuple[int, int, int]:
        """Begin and end of what has to do with its being stopped, and for how long of that it was; without a
        stop all of it, and 0.
        """
        if self.was_stopped and self.is_stopped:
            return self.begin_us, self.end_us, self.length_us
        if self.was_stopped:
            return self.begin_us, self.begin_us + self.still_us, self.still_us
        if self.is_stopped:
            return self.end_us - self.still_us, self.end_us, self.still_us
        return self.begin_us, self.end_us, 0


class Loss(NamedTuple):
    """Loss of one thread, from its first to its last moment."""

    begin_us: int
    end_us: int
    lost_us: int


class LossFinder:
    """Losses of one kind of one thread: stretches of time of which it lost ``LEAST_SHARE`` or more.

    What is lost adds up, and what may be lost is taken away, until nothing is left: the loss lasts from where
    this began to where it was most.

    Parameters
    ----------
    longest_us
        A loss that lasts longer is over then.
    quiet_us
        One is over, too, when so long nothing was added to it.
    """

    def __init__(self, longest_us: int = sys.maxsize, quiet_us: int = QUIET_US) -> None:
        self._longest_us = longest_us
        self._quiet_us = quiet_us
        self._sum_us = self._most_us = 0.0
        self._lost_us = self._lost_at_most_us = 0.0
        self._begin_us = self._end_us = 0

    @property
    def loss(self) -> Loss | None:
        """The one that goes on, as far as it goes; None if it is too small so far."""
        if self._lost_at_most_us < LEAST_LOST_US:
            return None
        return Loss(self._begin_us, self._end_us, round(self._lost_at_most_us))

    def add(self, begin_us: int, end_us: int, lost_us: float, allowed: float = LEAST_SHARE) -> Loss | None:
        """Add a stretch, and return the loss that it shows to be over.

        Parameters
        ----------
        lost_us
            More than its length where some of it was lost before; less than nothing where less than usual.
        allowed
            The share of time that may be lost.
        """
        over = None
        if self._sum_us > 0.0 and (
            begin_us - self._end_us >= self._quiet_us or end_us - self._begin_us > self._longest_us
        ):
            over = self._ended()
        gain_us = lost_us - allowed * (end_us - begin_us)
        if self._sum_us + gain_us <= 0.0:
            return self._ended() or over
        if self._sum_us == 0.0:
            self._begin_us = min(begin_us, end_us - round(lost_us))
        self._sum_us += gain_us
        self._lost_us += lost_us
        if self._sum_us > self._most_us:
            self._most_us, self._end_us, self._lost_at_most_us = self._sum_us, end_us, self._lost_us
        return over

    def _ended(self) -> Loss | None:
        loss = self.loss
        self._sum_us = self._most_us = self._lost_us = self._lost_at_most_us = 0.0
        return loss


class UsualWait:
    """The share of its time for which a thread usually waits for a core."""

    def __init__(self) -> None:
        self._shares: deque[float] = deque(maxlen=MOST_WINDOWS)
        self._length_us = self._waited_us = 0

    @property
    def share(self) -> float | None:
        """Usual share of the time that the thread waits; None until enough is known."""
        return median(self._shares) if len(self._shares) >= LEAST_WINDOWS else None

    def add(self, stretch: Stretch) -> None:
        """Take a stretch without a loss."""
        self._length_us += stretch.length_us
        self._waited_us += stretch.waited_us
        if self._length_us >= WINDOW_US:
            self._shares.append(self._waited_us / self._length_us)
            self._length_us = self._waited_us = 0


class LossesOfThread:
    """Losses of one thread by being stopped, and by waits for its core beyond its usual ones."""

    def __init__(self) -> None:
        self._usual = UsualWait()
        self._stops, self._waits = LossFinder(quiet_us=RESUMED_US), LossFinder(LONGEST_US)
        self._given: set[tuple[bool, Loss]] = set()
        self._over: list[tuple[bool, Loss]] = []

    def add(self, stretch: Stretch) -> None:
        """Add what the thread did from one look to the next."""
        if stretch.length_us <= 0:
            return
        stop = self._stops.add(*stretch.stopped)
        if stop is not None:
            self._over.append((True, stop))
        usual = self._usual.share
        if usual is not None:
            lost_us = stretch.waited_us - usual * stretch.length_us
            allowed = max(LEAST_SHARE, LEAST_OF_USUAL * usual)
            wait = self._waits.add(stretch.begin_us, stretch.end_us, lost_us, allowed)
            if wait is not None:
                self._over.append((False, wait))
                if wait.end_us - wait.begin_us > LONGEST_US - QUIET_US:
                    self._usual = UsualWait()
        if self._waits.loss is None:
            self._usual.add(stretch)

    def news(self) -> list[tuple[bool, Loss]]:
        """Losses that are new, or have grown since they were given; each with whether it was by a stop."""
        going_on = (True, self._stops.loss), (False, self._waits.loss)
        open_now = {(is_stop, loss) for is_stop, loss in going_on if loss is not None}
        new = [one for one in (*self._over, *sorted(open_now)) if one not in self._given]
        self._given, self._over = open_now, []
        return new
