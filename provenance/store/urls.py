"""URLs of stores: of an SQLite file, or of a database of PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chimbuko.core.errors import StoreError

if TYPE_CHECKING:
    from sqlalchemy import URL


def public_url(url: URL | str) -> str:
    """Return a store's URL as it may be shown and kept, without password and options.

    Raises
    ------
    StoreError
        The text is not a URL.
    """
    parsed = parsed_url(url) if isinstance(url, str) else url
    return parsed.set(query={}).render_as_string(hide_password=True)


def parsed_url(url: str) -> URL:
    """Parse the URL of a store, and complete it by the driver that serves it.

    Raises
    ------
    StoreError
        The text is not the URL of a store.
    """
    # Here because a run whose store is its own has no URL to parse before its program starts.
    from sqlalchemy import exc, make_url

    # A URL that cannot be parsed is not repeated: it may hold a password.
    wanted = "give sqlite:///PATH or postgresql+psycopg://USER@HOST/DATABASE"
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError):
        raise StoreError(f"the store's URL cannot be understood; {wanted}") from None
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if not (is_sqlite(parsed) or parsed.drivername == "postgresql+psycopg"):
        raise StoreError(f"{parsed.drivername}: not a kind of store; {wanted}")
    if is_sqlite(parsed) and parsed.database in (None, "", ":memory:"):
        raise StoreError(f"the store's URL names no file; {wanted}")
    return parsed


def is_sqlite(url: URL) -> bool:
    """Return whether the store is a file of SQLite."""
    return url.drivername in ("sqlite", "sqlite+pysqlite")


def path_of(url: URL) -> Path:
    """Return the path of a store in SQLite."""
    return Path(url.database or "").absolute()
