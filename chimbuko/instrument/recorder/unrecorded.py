"""Programs that were started with an environment in which nothing records them, as sentences."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

SUFFIX = ".unrecorded"
"""End of the names of the library's files about such starts, in a folder of rings."""
MOST_NAMED = 3


def unrecorded_starts(folder: Path) -> list[str]:
    """Return a sentence for each program that has started others so, and what it preloaded into them."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    with suppress(OSError):
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            starter, started, preloaded, *_ = [*path.read_text(errors="replace").split("\n"), "", ""]
            names = found.setdefault((os.path.basename(starter), preloaded), {})
            names[os.path.basename(started)] = None
    return [_sentence(starter, list(names), preloaded) for (starter, preloaded), names in found.items()]


def _sentence(starter: str, started: list[str], preloaded: str) -> str:
    more = f" and {len(started) - MOST_NAMED} more" if len(started) > MOST_NAMED else ""
    names = f"{', '.join(started[:MOST_NAMED])}{more}"
    what, advice = "without LD_PRELOAD", "leave LD_PRELOAD as it is"
    if preloaded:
        what = "with an LD_PRELOAD of its own"
        advice = f"add to what is there, as in LD_PRELOAD={preloaded}:$LD_PRELOAD"
    return f"{starter} starts {names} {what}, so nothing records it; {advice}"
