"""One part of what a call took too long, and why."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """Why time was lost."""

    IN_CHILD = "in child"
    """Inside a call that it made."""
    MORE_CALLS = "more calls"
    """It called a function more often than usual."""
    LATE_CHILD = "late child"
    """It called a function later than usual."""
    LATE_SENDER = "late sender"
    """It waited for a message that another rank sent late."""
    LATE_RECEIVER = "late receiver"
    """Its message was received late, and it waited for that."""
    LATE_AT_COLLECTIVE = "late at collective"
    """It waited in a collective operation for the rank that came last."""
    MORE_BYTES = "more bytes"
    """It moved more data than usual."""
    OWN_CODE = "own code"
    """In the function itself; it waited for nothing that is on record."""
    NOT_EXPLAINED = "not explained"


WAITING = frozenset((Kind.LATE_SENDER, Kind.LATE_RECEIVER, Kind.LATE_AT_COLLECTIVE))
"""Lost because of another rank."""


class Part(msgspec.Struct, frozen=True):
    """Some of a call's excess, and its cause."""

    kind: Kind
    lost_us: float
    function: str = ""
    """The child; or what the other rank was in. Empty where that is not known."""
    rank: int | None = None
    """Whom it waited for; None where that is not known, or it did not wait."""
    call_id: str = ""
    """The recorded call in which the time was lost; empty where none is."""
    is_matched: bool = True
    """Found by what was recorded of the call itself; otherwise by when others lost time."""
