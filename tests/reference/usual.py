"""What calls on a path usually take, slow and obvious."""

from __future__ import annotations

import math
import statistics

FIRST, MEMORY, EACH, STRIDE = 8, 64, 256, 16


def level_of(runtime_us: float) -> float:
    """Straight between powers of two."""
    whole = math.floor(math.log2(runtime_us))
    return whole + (runtime_us / 2.0**whole - 1.0)


def runtime_of(level: float) -> float:
    """The other way round."""
    whole = math.floor(level)
    return 2.0**whole * (1.0 + level - whole)


def usual_us(runtimes_us: list[float]) -> float | None:
    """Of the calls of one path, in order; None where there are too few."""
    if len(runtimes_us) < FIRST:
        return None
    levels = [level_of(max(runtime, 0.5)) for runtime in runtimes_us]
    level = statistics.median(levels[:FIRST])
    for number, one in enumerate(levels[FIRST:], FIRST + 1):
        if number <= EACH or number % STRIDE == 0:
            level += max(-1.0, min(1.0, one - level)) / MEMORY
    return runtime_of(level)
