"""How much of each room the tests run, and the floor under which that must not fall.

    NUMBA_DISABLE_JIT=1 python -m pytest --cov --cov-report= tests/ad/analysis … && python -m tests.rooms

What runs in other processes is not seen, and compiled kernels are not either: ``make test`` runs the tests of
the cores once more with the kernels as plain Python, which also shows what compiled code hides, bad indices
and overflow. ``make coverage`` runs all tests, and looks at all five rooms.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from coverage import Coverage

from tests.places import ROOT

CORES = {
    "ad/detectors": 94,
    "ad/calls": 94,
    "ad/analysis": 73,
    "ad/kernels": 95,
    "pserver/state": 96,
    "chimbuko/core/statistics": 96,
    "chimbuko/core/calls": 95,
}
"""Per cent of the statements of what computes, kernels included."""
ROOMS = {"ad": 89, "chimbuko": 77, "provenance": 97, "pserver": 84, "viz": 83}
"""Per cent of the statements of all five, kernels left out."""


def shares(folders: list[str], with_kernels: bool) -> dict[str, float]:
    """Per cent of the statements of each folder that were run."""
    measured = Coverage()
    measured.load()
    statements, missing = Counter[str](), Counter[str]()
    for file in measured.get_data().measured_files():
        place = Path(file).relative_to(ROOT).as_posix()
        for folder in folders:
            if place.startswith(f"{folder}/") and (with_kernels or "/kernels/" not in place):
                _, known, _, missed, _ = measured.analysis2(file)
                statements[folder] += len(known)
                missing[folder] += len(missed)
    return {folder: 100 * (1 - missing[folder] / count) for folder, count in statements.items()}


def main() -> int:
    """Print each folder with its floor; 1 where one has fallen under it."""
    is_all = "--all" in sys.argv[1:]
    floors = ROOMS if is_all else CORES
    found = shares(list(floors), with_kernels=not is_all)
    for folder, floor in floors.items():
        print(f"{folder:<20} {found.get(folder, 0.0):5.1f} % of statements run, at least {floor} % wanted")
    return int(any(found.get(folder, 0.0) < floor for folder, floor in floors.items()))


if __name__ == "__main__":
    sys.exit(main())
