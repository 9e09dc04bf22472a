"""Process that is watched."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Watched:
    """A rank's process."""

    pid: int
    program: int
    rank: int
