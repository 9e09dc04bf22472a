"""Pieces of lists that are held in memory; the cursor is the place of the next entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol, TypeVar

import msgspec
from msgspec import Meta

from chimbuko.viz.api.parameters import Limit

T = TypeVar("T")

Place = Annotated[
    Annotated[str, Meta(pattern="^[0-9]{1,9}$")] | None,
    Meta(description="`next` of the answer before; leave it out to begin. Its form may change."),
]


class PageParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Which piece of a list is wanted."""

    limit: Limit = 50
    cursor: Place = None


class Paged(Protocol):
    """Parameters that say which piece of a list is wanted."""

    @property
    def limit(self) -> int:
        """Most entries of the piece."""
        ...

    @property
    def cursor(self) -> str | None:
        """Where it begins; None for the first one."""
        ...


def page_of(rows: Sequence[T], wanted: Paged) -> tuple[list[T], str | None]:
    """The wanted piece, and the cursor of the one that follows; None at the end."""
    first = int(wanted.cursor or 0)
    end = first + wanted.limit
    return list(rows[first:end]), str(end) if end < len(rows) else None
