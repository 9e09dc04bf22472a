"""Shares of a recorded trace: which agent analyses which of its streams, where agents are on several nodes.

A share is a file in the run's folder, which all nodes see; the agent that renames it has it. So the agent
still has it when the broker or the services have been started again, and finds it when it comes back under
its name. When the share is read to its end the agent renames it once more.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from chimbuko.runtime.runs.directory import RunDirectory

_FREE, _TAKEN, _READ = "free", "of-", "read"


class Share(msgspec.Struct, frozen=True):
    """Streams whose rank, divided by the number of shares, leaves this index."""

    index: int
    count: int


def offer_shares(run: RunDirectory, count: int) -> None:
    """Make so many shares of the recorded streams of a run."""
    run.shares.mkdir(exist_ok=True)
    for index in range(count):
        (run.shares / f"{index}-{_FREE}").touch()


def claim_share(run: RunDirectory, agent: str) -> Share | None:
    """Return the share of an agent, which nobody else gets from now on; None if all are taken."""
    names = _names(run)
    for index, name in names.items():
        if name == f"{_TAKEN}{agent}":
            return Share(index, len(names))
    for index, name in names.items():
        # Another agent may have been faster.
        with suppress(FileNotFoundError):
            if name == _FREE:
                (run.shares / f"{index}-{_FREE}").rename(run.shares / f"{index}-{_TAKEN}{agent}")
                return Share(index, len(names))
    return None


def note_read(run: RunDirectory, agent: str, share: Share) -> None:
    """Note that an agent has read its share to the end."""
    (run.shares / f"{share.index}-{_TAKEN}{agent}").rename(run.shares / f"{share.index}-{_READ}")


def unread_shares(run: RunDirectory) -> list[str]:
    """Return, for each share that is not read to its end, the agent that has it, or that nobody took it."""
    return [
        "nobody took it" if name == _FREE else name.removeprefix(_TAKEN)
        for name in _names(run).values()
        if name != _READ
    ]


def _names(run: RunDirectory) -> dict[int, str]:
    """Return by index, in order: ``free``, ``of-`` and the agent that has it, or ``read``."""
    found = (path.name.partition("-") for path in run.shares.glob("[0-9]*-*"))
    return dict(sorted((int(index), name) for index, _, name in found))
