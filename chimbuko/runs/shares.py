"""Shares of a recorded trace: which agent analyses which of its streams, where agents are on several nodes.

A share is a file in the run's folder, which all nodes see; who renames it has it. So it is still his when the
broker or the services have been started again, and an agent that comes back under its name finds it.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from chimbuko.runs.directory import RunDirectory

_FREE, _TAKEN = "free", "of-"


@dataclass(frozen=True)
class Share:
    """The streams whose rank, divided by the number of shares, leaves this index."""

    index: int
    count: int


def offer_shares(run: RunDirectory, count: int) -> None:
    """Make so many shares of the recorded streams of a run."""
    run.shares.mkdir(exist_ok=True)
    for index in range(count):
        (run.shares / f"{index}-{_FREE}").touch()


def claim_share(run: RunDirectory, agent: str) -> Share | None:
    """The share of an agent, which nobody else gets from now on; None where all are taken."""
    names = _names(run)
    for index, name in names.items():
        if name == f"{_TAKEN}{agent}":
            return Share(index, len(names))
    for index, name in names.items():
        # Another agent may be faster.
        with suppress(FileNotFoundError):
            if name == _FREE:
                (run.shares / f"{index}-{_FREE}").rename(run.shares / f"{index}-{_TAKEN}{agent}")
                return Share(index, len(names))
    return None


def are_all_read(run: RunDirectory, done: Collection[str]) -> bool:
    """Whether each share has been taken, by one of the agents that have come to their end."""
    return all(name.removeprefix(_TAKEN) in done for name in _names(run).values())


def _names(run: RunDirectory) -> dict[int, str]:
    """By index, in order: ``free``, or ``of-`` and who has it."""
    found = (path.name.partition("-") for path in run.shares.glob("[0-9]*-*"))
    return dict(sorted((int(index), name) for index, _, name in found))
