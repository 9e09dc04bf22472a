"""The coarser levels in which steps and times are kept beside the finest, for pictures of a whole run."""

from __future__ import annotations

LEVELS = range(1, 5)
"""Coarser levels, of 8, 64, 512 and 4,096 steps: an hour of 10,000 ranks is 560,000 rows of the second."""
MOST_SHOWN = 254
"""A byte of ``peaks`` tells no larger numbers of anomalies apart."""

TIME_LEVELS_US = (1_000_000, 64_000_000)
"""Length of a bucket of each level of ``time_totals``: a day has 86,400 of the first, 1,350 of the second."""
