"""Steps of the parameter server: events that its schedule takes, and instructions that it gives.

An event has the time at which it came about, in seconds on a clock that never goes back.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class _Event:
    time_s: float


class RoundBegun(_Event):
    """The server has nothing left to do of what it was told before."""


@dataclass(frozen=True)
class Merged(_Event):
    """The broker was read, and the deltas that came are merged."""

    deltas: int
    is_awaited: bool
    """Whether somebody waits for the server."""


class ModelPublished(_Event):
    """Changes of the model were published; an instruction to do so may find none that are due."""


@dataclass(frozen=True)
class ReportSought(_Event):
    """The last report to the store was looked for at the broker."""

    is_taken: bool
    """Whether the store has removed it, as it is written there."""


class ReportMade(_Event):
    """Event: there is a new report to the store."""


@dataclass(frozen=True)
class Saved(_Event):
    """The state was saved."""

    took_s: float
    """Duration of all that the instruction asked for, in seconds."""
    copy_took_s: float | None
    """Duration of the copying onto shared storage in seconds; None if nothing was to be copied."""
    is_settled: bool
    """Whether the merged deltas are trimmed, and all agents know that these are saved."""


class Hastened(_Event):
    """The server may be killed soon, and its node be gone."""


class StopAsked(_Event):
    """The server was asked to end when nothing is left to merge."""


class BrokerFailed(_Event):
    """The broker does not answer; all further instructions of the round are void."""


Event = (
    RoundBegun
    | Merged
    | ModelPublished
    | ReportSought
    | ReportMade
    | Saved
    | Hastened
    | StopAsked
    | BrokerFailed
)


@dataclass(frozen=True)
class Read:
    """Read deltas from the broker, and merge them."""

    wait_s: float
    """Maximum time to wait for the first one, in seconds."""
    publishes_each: bool
    """Whether an epoch that a delta closes is published before the next delta is merged, as that may be of
    the next epoch where another server was killed before it could publish this one.
    """


@dataclass(frozen=True)
class Publish:
    """Publish the model to agents, and acknowledge what is merged."""

    is_whole: bool
    """Whether all of it is published, in place of what the broker has."""


@dataclass(frozen=True)
class SendFrame:
    """Send changes to dashboards, and answer those that have asked for more."""

    is_last: bool


@dataclass(frozen=True)
class SeekReport:
    """Look at the broker for the last report to the store."""


@dataclass(frozen=True)
class MakeReport:
    """Make a report of the changes for the store, if there are any."""

    is_last: bool


@dataclass(frozen=True)
class SendReport:
    """Send the last report that was made to the store."""


@dataclass(frozen=True)
class Save:
    """Save the state."""

    copies: bool
    """Whether it is copied onto shared storage, too."""
    trims: bool
    """Whether merged deltas are trimmed afterwards, and agents may forget them."""


@dataclass(frozen=True)
class WriteStory:
    """Write the story of the schedule into its file."""


@dataclass(frozen=True)
class Pause:
    """Do nothing for a while."""

    pause_s: float


Instruction = Read | Publish | SendFrame | SeekReport | MakeReport | SendReport | Save | WriteStory | Pause
