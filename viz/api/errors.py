"""The one form that errors of the API have."""

from __future__ import annotations

import msgspec


class ErrorBody(msgspec.Struct, frozen=True):
    """The one form that errors of the API have."""

    ok: bool
    """False."""
    error: str
    """One line: what is wrong, and what to do."""
    status: int
    """The answer's HTTP status."""


def error_body(status: int, text: str) -> bytes:
    """An error as JSON."""
    return msgspec.json.encode(ErrorBody(False, text, status))
