"""A program that does the same again and again, sometimes delayed; it notes each delay in a truth file.

Written without anything of ours: it runs under ``chimbuko trace``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path


def work(milliseconds: float) -> None:
    """One call, of about that length."""
    time.sleep(milliseconds / 1000)


def main() -> None:
    """All cycles."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--cycles", type=int, required=True)
    parser.add_argument("--modes-ms", type=float, nargs="+", required=True, help="lengths that take turns")
    parser.add_argument("--delayed-ms", type=float, required=True)
    parser.add_argument("--delayed", type=int, nargs="+", required=True, help="cycles, counted from 1")
    parser.add_argument("--truth", type=Path, required=True)
    options = parser.parse_args()
    with options.truth.open("w") as truth:
        for cycle in range(1, options.cycles + 1):
            is_delayed = cycle in options.delayed
            length_ms = options.delayed_ms if is_delayed else options.modes_ms[cycle % len(options.modes_ms)]
            start_us = time.time_ns() // 1000
            work(length_ms)
            if is_delayed:
                end_us = time.time_ns() // 1000
                print(options.rank, cycle, "work", start_us, end_us, round(length_ms), file=truth)


if __name__ == "__main__":
    main()
