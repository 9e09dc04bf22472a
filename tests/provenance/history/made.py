"""Entries of made-up runs of one program."""

from __future__ import annotations

import numpy as np

from chimbuko.provenance.history.entry import Details, Entry, IncidentKind, Version

DAY_US = 86_400_000_000
BEGIN_US = 1_767_225_600_000_000
"""1 January 2026."""


def entry(number: int, **values: object) -> Entry:
    """An entry of a run that took a second of wall time."""
    whole: dict[str, object] = {
        "id": f"{number:012x}",
        "name": f"run-{number}",
        "folder": f"/data/chimbuko-runs/run-{number}",
        "key": "k1",
        "start_key": "s1",
        "title": "4 ranks, heat2d input.nc",
        "program": "heat2d",
        "started_us": BEGIN_US + number * DAY_US,
        "is_good": True,
        "quantities": {"wall": 1e6, "part computing_us": 4e6, "function solve": 3e6, "function write": 1e6},
    }
    return Entry(**(whole | values))  # type: ignore[arg-type]


def year(runs: int = 40, slower_from: int = 30, by: float = 1.3, seed: int = 1) -> list[Entry]:
    """Runs whose ``solve``, and with it their wall time, is slower from one of them on, on another commit."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(runs):
        factor = by if number >= slower_from else 1.0
        solve = 3e6 * factor * (1 + 0.02 * random.normal())
        write = 1e6 * (1 + 0.02 * random.normal())
        found.append(
            entry(
                number,
                quantities={
                    "wall": (solve + write) / 4,
                    "part computing_us": solve + write,
                    "function solve": solve,
                    "function write": write,
                },
                version=Version(commit="b" * 40 if number >= slower_from else "a" * 40),
                details=Details(incidents=[IncidentKind("heat2d", "solve", "stopped", 2, 1, 5e4)]),
            )
        )
    return found
