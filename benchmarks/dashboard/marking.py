"""A program whose calls take 1 ms but for some, of which it writes down when they end: µs since the epoch.

Run: chimbuko run -- chimbuko trace benchmarks/dashboard/marking.py SECONDS FILE
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

USUAL_S = 0.001
MARK_S = 0.2
BETWEEN_S = 1.37
"""From mark to mark: no multiple of a trace period, so that marks fall on all parts of it."""
LEARNING_S = 5.0
"""Before the first mark."""
QUIET_S = 5.0
"""After the last: with the run its dashboard ends, and what is on its way by then reaches no page."""


def work(duration_s: float) -> None:
    """Compute."""
    end_s = time.perf_counter() + duration_s
    while time.perf_counter() < end_s:
        pass


def rest() -> None:
    """Leave the processor to others."""
    time.sleep(USUAL_S)


def main() -> None:
    """Work for so long."""
    seconds, marks = float(sys.argv[1]), Path(sys.argv[2])
    began_s = time.monotonic()
    next_s = LEARNING_S
    with marks.open("w") as file:
        while (now_s := time.monotonic() - began_s) < seconds:
            rest()
            if now_s < next_s or now_s > seconds - QUIET_S:
                work(USUAL_S)
                continue
            next_s += BETWEEN_S
            work(MARK_S)
            file.write(f"{time.time_ns() // 1000}\n")
            file.flush()


if __name__ == "__main__":
    main()
