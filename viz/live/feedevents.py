"""Events that a run's feed is told of, and instructions that it gives; in both, time is a value."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chimbuko.core.arrays import RankKey
from chimbuko.core.calls.record import StepCount, StreamHealth
from chimbuko.runtime.protocol.messages import Frame, FunctionStatistics, RankStatistics
from chimbuko.runtime.runs.directory import RunInfo


class Moment(NamedTuple):
    """Moment by the clock that tells how long something takes, and by that of the day."""

    clock_s: float
    """Time in seconds on a clock that never goes back; for lengths of time only."""
    epoch_us: int
    """Time in µs since the epoch, by which nodes say when something was."""

    @classmethod
    def now(cls) -> Moment:
        """Return the present moment."""
        return cls(time.monotonic(), time.time_ns() // 1000)


StepsByRank = dict[RankKey, list[StepCount]]


@dataclass(frozen=True)
class RoundBegan:
    """Event: it is time to look for news."""

    at: Moment


@dataclass(frozen=True)
class FramesRead:
    """Event: the broker answered, with frames or without."""

    at: Moment
    frames: Sequence[tuple[int, Frame | None]]
    """Frames, each with the time in µs when it was sent; None for what is no frame."""
    position: bytes
    """Id of the last frame that is known now."""
    is_all: bool
    """Whether there were no more."""


@dataclass(frozen=True)
class SnapshotRead:
    """Event: a part of the parameter server answered with all it knows."""

    at: Moment
    part: int
    snapshot: Frame


@dataclass(frozen=True)
class BrokerLost:
    """Event: the broker did not answer."""

    at: Moment
    why: str


@dataclass(frozen=True)
class StoreRead:
    """Event: the totals in the store were read."""

    at: Moment
    ranks: Sequence[RankStatistics]
    functions: Sequence[FunctionStatistics]
    health: Sequence[StreamHealth]
    times_us: tuple[int, int] | None
    """Start of the first analysed step and end of the newest, in µs since the epoch; None without any."""


@dataclass(frozen=True)
class InfoRead:
    """Event: the run's description was read."""

    at: Moment
    info: RunInfo


@dataclass(frozen=True)
class RoundEnded:
    """Event: all that was due has been read, as far as it could be."""

    at: Moment


@dataclass(frozen=True)
class Stopping:
    """Event: one more round follows, and then no more."""

    at: Moment


Event = RoundBegan | FramesRead | SnapshotRead | BrokerLost | StoreRead | InfoRead | RoundEnded | Stopping


@dataclass(frozen=True)
class ReadFrames:
    """Instruction: wait for frames, and read them."""

    after: bytes
    """Id of the last frame that is known."""


@dataclass(frozen=True)
class AskSnapshots:
    """Instruction: ask parts of the parameter server for a snapshot."""

    parts: tuple[int, ...]


@dataclass(frozen=True)
class ReadSnapshots:
    """Instruction: look whether these parts of the parameter server have answered."""

    parts: tuple[int, ...]


@dataclass(frozen=True)
class ReadStore:
    """Instruction: read the totals in the store."""


@dataclass(frozen=True)
class ReadGrid:
    """Instruction: read the steps in the store for the grid, from one on, where the grid is kept already."""

    since: int


@dataclass(frozen=True)
class ReadInfo:
    """Instruction: read the run's description."""


@dataclass(frozen=True)
class SendUpdate:
    """Instruction: send pages what is new, with the grid's changes and the status."""

    at_s: float
    """Time before which it is too early, on the clock of moments, in seconds."""
    steps: StepsByRank
    resync: bool
    """Whether steps may be missing here, so that histories and grid are to be read again."""


Instruction = ReadFrames | AskSnapshots | ReadSnapshots | ReadStore | ReadGrid | ReadInfo | SendUpdate
