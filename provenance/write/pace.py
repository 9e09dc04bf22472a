"""Pace of work that is done again and again, and of what may come to the store."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np


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


BUDGET_PERIOD_S = 1.0
MEMORY_S = 5.0
"""Time in seconds after which what was measured counts for a third."""
BUSY_SHARE = 0.5
"""Share of its time that a writer is at work from which on it says what it can take."""
MOST_SHARE = 0.9
"""Share of its time that it shall be at work at most: the rest is for what has queued."""
DRAIN_S = 10.0
"""Time in seconds in which what has queued shall be stored."""
LEAST_SHARE = 0.1
"""Share of its time that is for abnormal calls even where all else takes more."""
LEAST_SEEN = 0.01
"""Calls per second of an agent below which it is forgotten."""


class StoreBudget:
    """Budget of abnormal calls of each agent, from what the store was seen to take, and what waits for it.

    A writer that is half idle takes all that comes. One that is not divides among its agents what it can
    store: those that find little keep all of it, and the others get equal shares of the rest. A node may have
    several agents, each of which keeps to its own.
    """

    def __init__(self, now_s: float) -> None:
        self._since_s = now_s
        self._waited_s = 0.0
        self._came: Counter[str] = Counter()
        self._records = 0
        self._rates: dict[str, float] = {}
        """Calls per second of each agent."""
        self._records_per_s = self._busy_share = 0.0
        self._sums = np.zeros(6)
        """Sums over transactions: their number, batches, records, squares of these, seconds, and records by
        seconds."""

    def waited(self, seconds: float) -> None:
        """Note that the writer had nothing to do for so long."""
        self._waited_s += seconds

    def stored(self, calls: Mapping[str, int], records: int, batches: int, took_s: float) -> None:
        """Note a transaction of so many batches.

        Parameters
        ----------
        calls
            Number of abnormal calls in it, by agent.
        records
            Number of all records in it, with normal calls and second revisions.
        """
        self._came.update(calls)
        self._records += records
        self._sums += (1.0, batches, records, records * records, took_s, records * took_s)

    def is_due(self, now_s: float) -> bool:
        """Return whether a period is over."""
        return now_s - self._since_s >= BUDGET_PERIOD_S

    def per_agent(self, now_s: float, waiting: int) -> float | None:
        """Return the abnormal calls per second that each agent may send from now on, None for all; a
        period is over.

        Parameters
        ----------
        waiting
            Number of batches that wait at the broker.
        """
        passed_s = now_s - self._since_s
        kept = math.exp(-passed_s / MEMORY_S)
        new = (1.0 - kept) / passed_s
        agents = self._rates.keys() | self._came.keys()
        rates = {agent: kept * self._rates.get(agent, 0.0) + new * self._came[agent] for agent in agents}
        self._rates = {agent: rate for agent, rate in rates.items() if rate > LEAST_SEEN}
        self._records_per_s = kept * self._records_per_s + new * self._records
        self._busy_share = kept * self._busy_share + new * max(passed_s - self._waited_s, 0.0)
        record_s = self._record_s
        queue_s = waiting * float(self._sums[4] / self._sums[1]) if self._sums[1] else 0.0
        self._sums *= kept
        self._since_s, self._waited_s, self._records = now_s, 0.0, 0
        self._came.clear()
        calls_per_s = sum(self._rates.values())
        if self._busy_share < BUSY_SHARE or not calls_per_s or record_s <= 0.0:
            return None
        call_s = record_s * self._records_per_s / calls_per_s
        others = self._busy_share - call_s * calls_per_s
        share = max(MOST_SHARE - others - queue_s / DRAIN_S, LEAST_SHARE)
        return level(list(self._rates.values()), share / call_s)

    @property
    def _record_s(self) -> float:
        """Return the seconds that a record more in a transaction takes; 0 where none was stored."""
        count, _, records, squares, seconds, products = self._sums.tolist()
        if records <= 0.0:
            return 0.0
        spread = count * squares - records * records
        slope = (count * products - records * seconds) / spread if spread > 1e-6 * squares * count else 0.0
        each = float(seconds / records)
        # More than all that it took it cannot be, and of alike transactions nobody can tell.
        return float(slope) if 0.0 < slope < each else each


NEAR = 0.8
"""Share of the largest rate from which an agent counts as one that would send more."""


def level(rates: list[float], most: float) -> float:
    """Return the rate to which all are limited, so that they come to ``most`` in all; what those leave that
    have less is for the others.
    """
    if (spare := most - sum(rates)) >= 0.0:
        highest = max(rates)
        return highest + spare / sum(rate >= NEAR * highest for rate in rates)
    left, share = most, 0.0
    for at, rate in enumerate(sorted(rates)):
        share = left / (len(rates) - at)
        if rate >= share:
            break
        left -= rate
    return share
