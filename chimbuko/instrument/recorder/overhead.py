"""Settings of the recorder: the part of a program's time that it may cost, and what it leaves alone."""

from __future__ import annotations

from typing import Final

from chimbuko.core.errors import ConfigError

OVERHEAD_VARIABLE: Final = "CHIMBUKO_OVERHEAD"
"""Environment variable with the budget of recorded programs, as a number up to 1; the library reads it."""


NO_OPENMP_VARIABLE: Final = "CHIMBUKO_NO_OPENMP"
"""Environment variable under which the library records no constructs of OpenMP."""


def parse_overhead(text: str) -> str:
    """Return the value of the variable for a percentage such as ``2%``.

    Raises
    ------
    ConfigError
        The text is no percentage above 0 and up to 100.
    """
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = 0.0
    if not text.strip().endswith("%") or not 0 < percent <= 100:
        raise ConfigError(f"--overhead {text}: not a percentage above 0; give one such as 2%")
    return repr(percent / 100)
