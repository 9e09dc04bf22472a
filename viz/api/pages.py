"""Pieces of lists that are held in memory; the cursor is the place of the next entry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from chimbuko.errors import ConfigError
from chimbuko.viz.api.parameters import PageParameters

T = TypeVar("T")


def page_of(rows: Sequence[T], wanted: PageParameters) -> tuple[Sequence[T], str | None]:
    """The wanted piece, and the cursor of the one that follows; None at the end.

    Raises
    ------
    ConfigError
        The cursor is not one of these.
    """
    cursor = wanted.cursor or "0"
    if not re.fullmatch("[0-9]{1,9}", cursor):
        raise ConfigError(f"cursor={cursor[:40]!r}: not one that this list ended with; leave it out")
    first = int(cursor)
    end = first + wanted.limit
    return rows[first:end], str(end) if end < len(rows) else None
