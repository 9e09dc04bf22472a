"""What a check of ``chimbuko doctor`` has found."""

from __future__ import annotations

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """What one check has found."""

    about: str
    state: str
    """``ok``, ``warning`` (it works, but) or ``problem``."""
    text: str
    advice: str = ""
    """What to do; empty where nothing is."""
