"""What the dashboard takes in a browser: until it shows something, while it streams, with many who look.

Run: python -m benchmarks.dashboard [--only BENCHMARK ...] [--part P] [--rounds N] [--minutes M]

Chromium without a window opens real pages of the real server, over made-up runs of 10,000 ranks. Each figure
stands beside what it may be, and beside what a page that does nothing takes in the same round.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.dashboard import crowd, delay, paint, stream, timeline
from benchmarks.dashboard.chromium import chromium
from benchmarks.dashboard.figures import Figure, figures_table, load_now

DELAY_S = 90.0
"""So long does a program run."""
CROWD = 100
"""Pages at once."""
CROWD_S = 60.0
"""How long they stay."""

BENCHMARKS: dict[str, Callable[[Any, argparse.Namespace], list[Figure]]] = {
    "paint": lambda browser, options: paint.measure(browser, options.part, options.rounds, options.steps),
    "stream": lambda browser, options: stream.measure(browser, options.part, options.rounds),
    "memory": lambda browser, options: stream.measure_memory(browser, options.part, round(options.minutes)),
    "delay": lambda browser, options: delay.measure(browser, DELAY_S),
    "timeline": lambda browser, options: timeline.measure(browser, options.part, options.rounds),
    "crowd": lambda browser, options: crowd.measure(browser, options.part, CROWD, CROWD_S),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS), metavar="BENCHMARK"
    )
    parser.add_argument("--part", type=float, default=1.0, help="of the ranks and calls, to try it out")
    parser.add_argument("--steps", type=int, default=3_600, help="of each rank, where pages are opened")
    parser.add_argument("--rounds", type=int, default=5, help="how often what is short is measured")
    parser.add_argument("--minutes", type=float, default=30.0, help="how long memory is watched")
    options = parser.parse_args()
    # As with Ctrl-C: what was started ends, and what was made is removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for name in options.only:
        print(f"{name}: {load_now()}", file=sys.stderr)
        print(f"{name}, {load_now()} before")
        with chromium() as browser:
            figures = BENCHMARKS[name](browser, options)
        print(figures_table(figures), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
