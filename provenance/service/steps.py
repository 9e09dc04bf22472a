"""Steps of the writer's service: what it is told, and what it is to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

import msgspec

from chimbuko.core.errors import ChimbukoError
from chimbuko.provenance.write.severecalls import SevereCall


class Stream(Enum):
    """Stream of messages at the broker."""

    RECORDS = "records"
    STATISTICS = "statistics"
    SAMPLES = "samples"


class Began(msgspec.Struct, frozen=True):
    """A round begins."""

    time_s: float
    is_stopping: bool
    """Whether the writer is asked to stop, once nothing is left to write."""
    quiet_s: float
    """Time for which nothing has to be done for incidents."""


class Came(msgspec.Struct, frozen=True):
    """Entries came, or the wait for them is over."""

    time_s: float
    entries: Mapping[Stream, Sequence[bytes]]
    """Ids of the entries."""
    record_bytes: int
    """Size of the records."""
    is_awaited: bool
    """Whether somebody waits for the writer."""


class Committed(msgspec.Struct, frozen=True):
    """All that can be stored of the entries in hand of a stream is committed."""

    time_s: float
    stream: Stream
    sequences: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Number of the last batch of each rank's stream, where it is of records."""
    has_ended: bool = False
    """Whether ranks have ended, whose agents may soon be gone."""
    severe: Sequence[SevereCall] = ()
    """Severe calls that the store did not have."""


class FindingsRead(msgspec.Struct, frozen=True):
    """Findings in published quantities were read, and those that are new are stored."""

    time_s: float
    sealed: bytes
    """Message in which they came."""


class Asked(msgspec.Struct, frozen=True):
    """Event: requests for a copy of the store were looked up."""

    time_s: float
    request: bytes | None
    """Name of the last request; None if nobody ever asked."""
    is_leaving: bool
    """Whether this node may soon be gone."""


class Copied(msgspec.Struct, frozen=True):
    """Event: a copy of the store was made, or could not be made."""

    time_s: float
    asked: Asked
    """Requests that were known when the copy was begun."""
    is_made: bool


class Failed(msgspec.Struct, frozen=True):
    """A step failed, in a way that may pass."""

    time_s: float
    error: ChimbukoError


class LetGo(msgspec.Struct, frozen=True):
    """The damaged store was let go of."""

    time_s: float
    error: ChimbukoError
    aside: str
    """Path of the copy; empty if the store stays in its place."""


class Done(msgspec.Struct, frozen=True):
    """A step is done that gives nothing else to know."""

    time_s: float


Event = Began | Came | Committed | FindingsRead | Asked | Copied | Failed | LetGo | Done


class Read(msgspec.Struct, frozen=True):
    """Instruction to read the entries after these, and to wait for them; ``Came`` answers."""

    after: Mapping[Stream, bytes]
    count: int
    wait_s: float


class Gather(msgspec.Struct, frozen=True):
    """Instruction to read further records once somebody waits for the writer, or a time is over."""

    after: bytes
    count: int
    wait_s: float


class Commit(msgspec.Struct, frozen=True):
    """Instruction to store the entries in hand of a stream; ``Committed`` answers."""

    stream: Stream


class Explain(msgspec.Struct, frozen=True):
    """Instruction to look at the incidents, and to say what is known of those of severe calls."""

    is_urgent: bool
    severe: Sequence[SevereCall] = ()


class Acknowledge(msgspec.Struct, frozen=True):
    """Instruction to acknowledge batches, and to remove entries from the broker."""

    stream: Stream
    entries: Sequence[bytes]
    sequences: Mapping[str, int]


class ReadFindings(msgspec.Struct, frozen=True):
    """Instruction to store findings in published quantities; ``FindingsRead`` answers."""

    known: bytes
    """Message whose findings are stored."""


class LookAround(msgspec.Struct, frozen=True):
    """Instruction to say that time has passed, and to look whether a copy is asked for; ``Asked`` answers."""


class Copy(msgspec.Struct, frozen=True):
    """Instruction to copy the store; ``Copied`` answers."""

    asked: Asked


class Abandon(msgspec.Struct, frozen=True):
    """Instruction to let go of the store, which is damaged; ``LetGo`` answers."""

    error: ChimbukoError
    puts_aside: bool
    """Whether its file is to be put aside, so that a new one is begun."""


class Report(msgspec.Struct, frozen=True):
    """Instruction to let the user know of something."""

    line: str


class Pause(msgspec.Struct, frozen=True):
    """Instruction to wait before all that is not acknowledged is read again."""

    line: str
    """Reason for the user; empty if it is known already."""
    pause_s: float


class GiveUp(msgspec.Struct, frozen=True):
    """Instruction to end with an error."""

    error: ChimbukoError


Instruction = (
    Read
    | Gather
    | Commit
    | Explain
    | Acknowledge
    | ReadFindings
    | LookAround
    | Copy
    | Abandon
    | Report
    | Pause
    | GiveUp
)
