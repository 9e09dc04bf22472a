"""Steps of the parameter server: events that its schedule takes, and instructions that it gives.

An event has the time at which it came about, in seconds on a clock that never goes back.
"""

from __future__ import annotations

import msgspec


class _Event(msgspec.Struct, frozen=True):
    time_s: float


class RoundBegun(_Event, frozen=True):
    """The server has nothing left to do of what it was told before."""


class Merged(_Event, frozen=True):
    """The broker was read, and the deltas that came are merged."""

    deltas: int
    is_awaited: bool
    """Whether somebody waits for the server."""


class ModelPublished(_Event, frozen=True):
    """Changes of the model were published; an instruction to do so may find none that are due."""


class ReportSought(_Event, frozen=True):
    """The last report to the store was looked for at the broker."""

    is_taken: bool
    """Whether the store has removed it, as it is written there."""


class ReportMade(_Event, frozen=True):
    """Event: there is a new report to the store."""


class Saved(_Event, frozen=True):
    """The state was saved."""

    took_s: float
    """Duration of all that the instruction asked for, in seconds."""
    copy_took_s: float | None
    """Duration of the copying onto shared storage in seconds; None if nothing was to be copied."""
    is_settled: bool
    """Whether the merged deltas are trimmed, and all agents know that these are saved."""


class Hastened(_Event, frozen=True):
    """The server may be killed soon, and its node be gone."""


class StopAsked(_Event, frozen=True):
    """The server was asked to end when nothing is left to merge."""


class BrokerFailed(_Event, frozen=True):
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


class Read(msgspec.Struct, frozen=True):
    """Read deltas from the broker, and merge them."""

    wait_s: float
    """Maximum time to wait for the first one, in seconds."""
    publishes_each: bool
    """Whether an epoch that a delta closes is published before the next delta is merged, as that may be of
    the next epoch where another server was killed before it could publish this one.
    """


class Publish(msgspec.Struct, frozen=True):
    """Publish the model to agents, and acknowledge what is merged."""

    is_whole: bool
    """Whether all of it is published, in place of what the broker has."""


class SendFrame(msgspec.Struct, frozen=True):
    """Send changes to dashboards, and answer those that have asked for more."""

    is_last: bool


class SeekReport(msgspec.Struct, frozen=True):
    """Look at the broker for the last report to the store."""


class MakeReport(msgspec.Struct, frozen=True):
    """Make a report of the changes for the store, if there are any."""

    is_last: bool


class SendReport(msgspec.Struct, frozen=True):
    """Send the last report that was made to the store."""


class Save(msgspec.Struct, frozen=True):
    """Save the state."""

    copies: bool
    """Whether it is copied onto shared storage, too."""
    trims: bool
    """Whether merged deltas are trimmed afterwards, and agents may forget them."""


class WriteStory(msgspec.Struct, frozen=True):
    """Write the story of the schedule into its file."""


class Pause(msgspec.Struct, frozen=True):
    """Do nothing for a while."""

    pause_s: float


Instruction = Read | Publish | SendFrame | SeekReport | MakeReport | SendReport | Save | WriteStory | Pause
