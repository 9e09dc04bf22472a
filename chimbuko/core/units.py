"""Durations, sizes and numbers of things as people write and read them."""

from __future__ import annotations

import math
import re

from chimbuko.core.errors import ConfigError

_UNITS_US = {"us": 1.0, "µs": 1.0, "\u03bcs": 1.0, "ms": 1e3, "s": 1e6}
"""Factors to µs; µ is typed as either of two characters."""

MINUS = "\u2212"
"""Minus sign before a negative number: a hyphen is shorter, and lines break after it."""

_AGES_S = {"min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}

_SIZES = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}

_NUMBER_AND_UNIT = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(\D*)")


def number_of(number: int, things: str) -> str:
    """Return a number of things: ``1 rank``, ``1,200 ranks``; the plural is given, and its first noun
    changed.
    """
    if number != 1:
        return f"{number:,} {things}"
    words = things.split(" ")
    noun = next((at for at, word in enumerate(words) if word.endswith("s")), 0)
    words[noun] = _singular(words[noun])
    return f"1 {' '.join(words)}"


def _singular(plural: str) -> str:
    if plural.endswith("ies"):
        return plural[:-3] + "y"
    return plural.removesuffix("es" if plural.endswith("sses") else "s")


def format_duration_us(duration_us: float) -> str:
    """Return a duration with three significant digits in the unit that suits: ``512 µs``, ``1.50 ms``, ``12.3
    s``; from 1,000 seconds on it is ``16 min 40 s``, ``3 h 58 min`` or ``1,234 h``.

    Whole µs stay whole (``5 µs``); below 1 ns all is 0.
    """
    if duration_us < 0:
        return f"{MINUS}{format_duration_us(-duration_us)}"
    if duration_us < 1e-3:
        return "0 µs"
    # The unit is that of the rounded value: 999.7 µs is 1.00 ms.
    rounded_us = float(f"{duration_us:.3g}")
    if rounded_us < 1e3:
        return f"{rounded_us:.0f} µs" if rounded_us.is_integer() else f"{format_significant(rounded_us)} µs"
    if rounded_us < 1e6:
        return f"{format_significant(rounded_us / 1e3)} ms"
    if rounded_us < 1e9:
        return f"{format_significant(rounded_us / 1e6)} s"
    seconds, minutes = round(duration_us / 1e6), round(duration_us / 60e6)
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{minutes // 60} h {minutes % 60} min" if minutes < 6000 else f"{duration_us / 3600e6:,.0f} h"


def format_signed_us(duration_us: float) -> str:
    """Return a difference of durations with its sign (``+`` or ``−``), or a time after or before some
    moment.
    """
    return format_duration_us(duration_us) if duration_us < 0 else f"+{format_duration_us(duration_us)}"


def format_signed(value: float, form: str) -> str:
    """Return a number with its sign, in a form such as ``.1f``: ``+8.1``, ``−92.9``."""
    text = f"{value:+{form}}"
    return MINUS + text[1:] if text.startswith("-") else text


def format_change(share: float, form: str = ".1f") -> str:
    """Return a change in percent, with its sign: ``+8.1 %``."""
    return f"{format_signed(100 * share, form)} %"


def format_share(share: float, form: str = ".0f") -> str:
    """Return a share from 0 to 1 in percent: ``47 %``."""
    return f"{format(100 * share, form)} %"


def format_times(ratio: float) -> str:
    """Return a ratio: ``4.3×``, and from ten on whole: ``1,234×``."""
    return f"{ratio:,.0f}×" if ratio >= 9.95 else f"{ratio:.1f}×"


MOST_TIMES = 1000.0
"""Factor between runtimes from which it says nothing to anybody."""
LEAST_USUAL_US = 10.0
"""Usual runtime in µs below which a factor says nothing to anybody."""


def against_usual(runtime_us: float, usual_us: float, usual: str) -> str:
    """Return how a runtime stands to the usual one, as the end of a clause; empty if that is not known.

    A factor says something where both can be imagined: not that 150 ms are 50,000 times as long as 3 µs.

    Parameters
    ----------
    usual
        The usual runtime in words.
    """
    if usual_us <= 0.0:
        return ""
    times = runtime_us / usual_us
    is_telling = times < MOST_TIMES and usual_us >= LEAST_USUAL_US
    return f", {format_times(times)} its usual {usual}" if is_telling else f" instead of {usual}"


def parse_duration_us(text: str) -> float:
    """Return a duration such as ``5ms``, ``200 us`` or ``1.5s``, in µs; all but 0 need a unit.

    Raises
    ------
    ConfigError
        The text is no duration.
    """
    match = _NUMBER_AND_UNIT.fullmatch(text.strip())
    if match and not match[2] and float(match[1]) == 0:
        return 0.0
    if match and not match[2]:
        number = match[1].rstrip(".")
        raise ConfigError(f"{text!r}: of which unit? give {number}us, {number}ms or {number}s")
    if not match or match[2] not in _UNITS_US:
        raise ConfigError(f"{text!r}: not a duration; give one like 200us, 5ms or 1.5s")
    return float(match[1]) * _UNITS_US[match[2]]


def parse_age_us(text: str) -> int:
    """Return an age such as ``12h``, ``7d`` or ``2w``, in µs.

    Raises
    ------
    ConfigError
        The text is no age.
    """
    match = _NUMBER_AND_UNIT.fullmatch(text.strip())
    if not match or match[2] not in _AGES_S:
        raise ConfigError(f"{text!r}: not an age; give one like 30min, 12h, 7d or 2w")
    return round(float(match[1]) * _AGES_S[match[2]] * 1e6)


def format_significant(value: float) -> str:
    """Return a number above 0 with three significant digits, or all before its point: ``2.50``, ``1234``."""
    rounded = float(f"{value:.3g}")
    before_point = math.floor(math.log10(rounded)) + 1
    return f"{value:.{max(0, 3 - before_point)}f}"


def parse_size(text: str) -> int:
    """Return a size such as ``64MB`` or ``1.5 GB``, in bytes.

    Raises
    ------
    ConfigError
        The text is no size.
    """
    match = _NUMBER_AND_UNIT.fullmatch(text.strip())
    if not match or match[2] not in _SIZES or float(match[1]) == 0:
        raise ConfigError(f"{text!r}: not a size; give one like 500kB, 64MB or 1GB")
    return round(float(match[1]) * _SIZES[match[2]])
