"""Steps of the writer's service: what it is told, and what it is to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from chimbuko.core.errors import ChimbukoError
from chimbuko.provenance.write.severecalls import SevereCall


class Stream(Enum):
    """Stream of messages at the broker."""

    RECORDS = "records"
    STATISTICS = "statistics"
    SAMPLES = "samples"


@dataclass(frozen=True)
class Began:
    """A round begins."""

    time_s: float
    is_stopping: bool
    """Whether the writer is asked to stop, once nothing is left to write."""
    quiet_s: float
    """Time for which nothing has to be done for incidents."""


@dataclass(frozen=True)
class Came:
    """Entries came, or the wait for them is over."""

    time_s: float
    entries: Mapping[Stream, Sequence[bytes]]
    """Ids of the entries."""
    record_bytes: int
    """Size of the records."""
    is_awaited: bool
    """Whether somebody waits for the writer."""


@dataclass(frozen=True)
class Committed:
    """All that can be stored of the entries in hand of a stream is committed."""

    time_s: float
    stream: Stream
    sequences: Mapping[str, int] = field(default_factory=dict)
    """Number of the last batch of each rank's stream, where it is of records."""
    has_ended: bool = False
    """Whether ranks have ended, whose agents may soon be gone."""
    severe: Sequence[SevereCall] = ()
    """Severe calls that the store did not have."""


@dataclass(frozen=True)
class FindingsRead:
    """Findings in published quantities were read, and those that are new are stored."""

    time_s: float
    sealed: bytes
    """Message in which they came."""


@dataclass(frozen=True)
class Asked:
    """Event: requests for a copy of the store were looked up."""

    time_s: float
    request: bytes | None
    """Name of the last request; None if nobody ever asked."""
    is_leaving: bool
    """Whether this node may soon be gone."""


@dataclass(frozen=True)
class Copied:
    """Event: a copy of the store was made, or could not be made."""

    time_s: float
    asked: Asked
    """Requests that were known when the copy was begun."""
    is_made: bool


@dataclass(frozen=True)
class Failed:
    """A step failed, in a way that may pass."""

    time_s: float
    error: ChimbukoError


@dataclass(frozen=True)
class LetGo:
    """The damaged store was let go of."""

    time_s: float
    error: ChimbukoError
    aside: str
    """Path of the copy; empty if the store stays in its place."""


@dataclass(frozen=True)
class Done:
    """A step is done that gives nothing else to know."""

    time_s: float


Event = Began | Came | Committed | FindingsRead | Asked | Copied | Failed | LetGo | Done


@dataclass(frozen=True)
class Read:
    """Instruction to read the entries after these, and to wait for them; ``Came`` answers."""

    after: Mapping[Stream, bytes]
    count: int
    wait_s: float


@dataclass(frozen=True)
class Gather:
    """Instruction to read further records once somebody waits for the writer, or a time is over."""

    after: bytes
    count: int
    wait_s: float


@dataclass(frozen=True)
class Commit:
    """Instruction to store the entries in hand of a stream; ``Committed`` answers."""

    stream: Stream


@dataclass(frozen=True)
class Explain:
    """Instruction to look at the incidents, and to say what is known of those of severe calls."""

    is_urgent: bool
    severe: Sequence[SevereCall] = ()


@dataclass(frozen=True)
class Acknowledge:
    """Instruction to acknowledge batches, and to remove entries from the broker."""

    stream: Stream
    entries: Sequence[bytes]
    sequences: Mapping[str, int]


@dataclass(frozen=True)
class ReadFindings:
    """Instruction to store findings in published quantities; ``FindingsRead`` answers."""

    known: bytes
    """Message whose findings are stored."""


@dataclass(frozen=True)
class LookAround:
    """Instruction to say that time has passed, and to look whether a copy is asked for; ``Asked`` answers."""


@dataclass(frozen=True)
class Copy:
    """Instruction to copy the store; ``Copied`` answers."""

    asked: Asked


@dataclass(frozen=True)
class Abandon:
    """Instruction to let go of the store, which is damaged; ``LetGo`` answers."""

    error: ChimbukoError
    puts_aside: bool
    """Whether its file is to be put aside, so that a new one is begun."""


@dataclass(frozen=True)
class Report:
    """Instruction to let the user know of something."""

    line: str


@dataclass(frozen=True)
class Pause:
    """Instruction to wait before all that is not acknowledged is read again."""

    line: str
    """Reason for the user; empty if it is known already."""
    pause_s: float


@dataclass(frozen=True)
class GiveUp:
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
