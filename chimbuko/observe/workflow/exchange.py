"""What goes into the scheduler, events, and what comes out of it, instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chimbuko.observe.workflow.task import ONE_CORE, Allocation, Resources, State


@dataclass(frozen=True)
class Begun:
    """The workflow begins: services and monitors are there."""


@dataclass(frozen=True)
class Advised:
    """What had been recommended to a task was read."""

    task: str
    values: Mapping[str, str | int | float]
    """By name; without those that nobody has recommended."""


@dataclass(frozen=True)
class Ended:
    """A task's process has ended, or could not be started."""

    task: str
    code: int
    """Its exit code, as a shell gives it."""
    reason: str = ""
    """Where there is more to say than the code."""


@dataclass(frozen=True)
class Interrupted:
    """The workflow has to end now."""


Event = Begun | Advised | Ended | Interrupted


@dataclass(frozen=True)
class Ask:
    """Read what is recommended to a task; ``Advised`` answers."""

    task: str


@dataclass(frozen=True)
class Launch:
    """Start a task; ``Ended`` answers."""

    task: str
    attempt: int
    """From 1 on."""
    words: tuple[str, ...]
    """Its command, with all values in it."""
    values: Mapping[str, str]
    """What was recommended, and was heeded."""
    resources: Resources
    place: Allocation


@dataclass(frozen=True)
class Stop:
    """End a task that runs; ``Ended`` answers."""

    task: str


@dataclass(frozen=True)
class Note:
    """A task has come into another state."""

    task: str
    state: State
    attempt: int
    """The one that is under way or was the last; 0 before the first."""
    code: int | None = None
    """Exit code of an attempt that has ended."""
    reason: str = ""
    place: Allocation | None = None
    """While it is executing."""
    resources: Resources = ONE_CORE


@dataclass(frozen=True)
class Finish:
    """All tasks have come to an end."""


Instruction = Ask | Launch | Stop | Note | Finish
