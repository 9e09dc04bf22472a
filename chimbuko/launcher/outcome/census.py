"""Lines of the summary about calls that were analysed beside those that their sources saw."""

from __future__ import annotations

from collections.abc import Sequence

from chimbuko.core.calls.census import AT_THE_END, Census, share_of
from chimbuko.launcher.outcome.losses import MAKE_ROOM, Loss

_ADVICE = {
    AT_THE_END: f"their reader was killed, was replaced or could not keep up; {MAKE_ROOM}",
}


def missing_calls(census: Census) -> list[Loss]:
    """Return the calls that are missing, a loss for each reason."""
    return [
        Loss(f"{share_of(number, census.seen)} {reason}", _ADVICE.get(reason, ""))
        for reason, number in census.differences.items()
    ]


def without_loss(census: Census, reservations: Sequence[str]) -> str:
    """Return the words for a run of which nothing is known to be lost.

    Parameters
    ----------
    reservations
        Why more may be lost than was counted, in words.
    """
    if reservations:
        return f"no loss known, but {' and '.join(reservations)}: see below"
    return census.sentence
