"""Whose stream it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StreamIdentity:
    """Whose stream it is; part of every record."""

    program: int
    rank: int
    node: str
