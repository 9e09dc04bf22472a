"""Durations, costs and ranks as all sentences word them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from chimbuko.core.units import format_duration_us, number_of

MOST_RANKS = 6
"""Maximum number of ranks that are named one by one; more are named as ranges, and counted."""
ALIKE = 1.1
"""Factor up to which two figures are called the same."""
_ZEROS = re.compile(r"\.0+(?= )")


class Bound(StrEnum):
    """How sure a lost time is, from the surest on."""

    EXACT = "exact"
    ESTIMATED = "estimated"
    """A part of it was estimated from some ranks that were asked."""
    LEAST = "at least"
    """More may have been lost, by ranks that nobody asked."""


BOUNDS = tuple(Bound)
"""Bounds, each less sure than the one before."""
_SIGNS = {Bound.EXACT: "", Bound.ESTIMATED: "≈ ", Bound.LEAST: "≥ "}


def least_sure(bounds: Iterable[Bound]) -> Bound:
    """Return how sure a sum is of parts that are so sure."""
    return max(bounds, key=BOUNDS.index, default=Bound.EXACT)


def bounded(lost_us: float, bound: Bound, *, is_short: bool = False) -> str:
    """Return a lost time with how sure it is; ``is_short`` where it stands in a column."""
    if bound is Bound.LEAST and not is_short:
        return f"at least {duration(lost_us)}"
    return _SIGNS[bound] + (format_duration_us(lost_us) if is_short else duration(lost_us))


def size(size_bytes: int) -> str:
    """Return a number of bytes in the unit in which it is short."""
    for unit, factor in (("GB", 2**30), ("MB", 2**20), ("kB", 2**10)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.3g} {unit}"
    return f"{size_bytes} bytes"


def duration(duration_us: float) -> str:
    """Return a duration in words, whole numbers without zeros behind the point."""
    return _ZEROS.sub("", format_duration_us(duration_us))


def spread(lost_us: Mapping[int, float]) -> str:
    """Return how long ranks lost time: about the same each, or from the shortest to the longest."""
    shortest, longest = min(lost_us.values()), max(lost_us.values())
    if longest <= ALIKE * shortest:
        return duration(sum(lost_us.values()) / len(lost_us)) + (" each" if len(lost_us) > 1 else "")
    return f"{duration(shortest)} to {duration(longest)}"


def lost_time(cost_us: float, ranks: int = 1, bound: Bound = Bound.EXACT) -> str:
    """Return the time that was lost, and on how many ranks together it was, where these are several."""
    about = "≈ " if bound is Bound.ESTIMATED else ""
    together = f" on {about}{number_of(ranks, 'ranks')} together" if ranks > 1 else ""
    return f"{bounded(cost_us, bound)} lost{together}"


def ranks_in_words(ranks: Iterable[int]) -> str:
    """Return ranks as ``rank 3``, ``ranks 1, 2 and 5`` or ``512 ranks (0-255, 512-767)``."""
    return _in_words(ranks, "ranks")


def threads_in_words(threads: Iterable[int]) -> str:
    """Return threads as ``ranks_in_words`` does ranks."""
    return _in_words(threads, "threads")


def _in_words(numbers: Iterable[int], nouns: str) -> str:
    listed = sorted(set(numbers))
    if len(listed) == 1:
        return f"{nouns[:-1]} {listed[0]}"
    if len(listed) <= MOST_RANKS:
        return f"{nouns} {', '.join(map(str, listed[:-1]))} and {listed[-1]}"
    ranges = _ranges(listed)
    shown = ", ".join(f"{a}-{b}" if b > a else str(a) for a, b in ranges[:MOST_RANKS])
    more = ", ..." if len(ranges) > MOST_RANKS else ""
    return f"{number_of(len(listed), nouns)} ({shown}{more})"


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found
