"""Recommends the largest step with which no simulation became unstable.

analysis.py NAME...      names of the simulations
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from chimbuko.namespaces import Client, Observation, Reader

MOST_GROWTH = 1.01
"""Of the largest temperature: heat that only spreads never makes it larger."""


def stable_number(observations: Sequence[Observation], name: str) -> float | None:
    """The diffusion number of a simulation; None if it became unstable."""
    largest = [one.change.put.get((name, "largest")) for one in observations]
    values = [float(value) for value in largest if value is not None]
    numbers = [one.change.put[name, "number"] for one in observations if (name, "number") in one.change.put]
    is_stable = bool(values) and all(value <= MOST_GROWTH * values[0] for value in values)
    return float(numbers[-1]) if is_stable and numbers else None


def main() -> None:
    with Reader() as reader:
        observations = reader.history("application")
    numbers = [number for name in sys.argv[1:] if (number := stable_number(observations, name)) is not None]
    if not numbers:
        sys.exit("no simulation was stable: nothing is recommended")
    with Client() as client:
        client.create("application").publish_tree({"advice": {"number": max(numbers)}})
    print(f"{len(numbers)} of {len(sys.argv) - 1} were stable; {max(numbers)} is recommended")


if __name__ == "__main__":
    main()
