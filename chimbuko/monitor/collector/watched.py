"""Process that is watched."""

from __future__ import annotations

import msgspec


class Watched(msgspec.Struct, frozen=True):
    """A rank's process."""

    pid: int
    program: int
    rank: int
