"""A program of two ranks, of which rank 1 hangs until a file appears, in a function that usually takes 1 ms.

python hanging.py FILE
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

CALLS = 300
RANKS = 2
HANGING_RANK = 1


def relax(release: Path | None = None) -> None:
    time.sleep(0.001)
    while release is not None and not release.exists():
        time.sleep(0.01)


def solve(rank: int, release: Path) -> None:
    for _ in range(CALLS):
        relax()
    if rank == HANGING_RANK:
        relax(release)
    while not release.exists():
        relax()
    for _ in range(CALLS):
        relax()


def launch(release: str) -> int:
    trace = [sys.executable, "-m", "chimbuko", "trace"]
    ranks = [
        subprocess.Popen([*trace, "--rank", str(rank), __file__, release, str(rank)]) for rank in range(RANKS)
    ]
    return max(rank.wait() for rank in ranks)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        sys.exit(launch(sys.argv[1]))
    solve(int(sys.argv[2]), Path(sys.argv[1]))
