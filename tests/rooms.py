"""How much of each room the tests run, and the floor under which that must not fall.

    python -m pytest --cov --cov-report= && python -m tests.rooms

What runs in other processes is not seen, and neither are compiled kernels: see ``test_uncompiled``.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from coverage import Coverage

from tests.places import ROOT

FLOORS = {"ad": 80, "chimbuko": 80, "provenance": 80, "pserver": 80, "viz": 80}
"""Per cent of the statements."""


def shares() -> dict[str, float]:
    """Per cent of the statements of each room that were run."""
    measured = Coverage()
    measured.load()
    statements, missing = Counter[str](), Counter[str]()
    for file in measured.get_data().measured_files():
        room = Path(file).relative_to(ROOT).parts[0]
        _, known, _, missed, _ = measured.analysis2(file)
        statements[room] += len(known)
        missing[room] += len(missed)
    return {room: 100 * (1 - missing[room] / count) for room, count in sorted(statements.items())}


def main() -> int:
    """Print each room with its floor; 1 where one has fallen under it."""
    found = shares()
    for room, floor in FLOORS.items():
        print(f"{room:<12} {found.get(room, 0.0):5.1f} % of statements run, at least {floor} % wanted")
    return int(any(found.get(room, 0.0) < floor for room, floor in FLOORS.items()))


if __name__ == "__main__":
    sys.exit(main())
