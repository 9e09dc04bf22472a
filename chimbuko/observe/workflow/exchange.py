"""Events that go into the scheduler, and instructions that come out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chimbuko.observe.workflow.task import ONE_CORE, Allocation, Resources, State


@dataclass(frozen=True)
class Begun:
    """Event: the workflow begins, as services and monitors are there."""


@dataclass(frozen=True)
class Advised:
    """Event: the values that were recommended to a task have been read."""

    task: str
    values: Mapping[str, str | int | float]
    """Recommended values by name, without those that nobody has recommended."""


@dataclass(frozen=True)
class Ended:
    """Event: a task's process has ended, or could not be started."""

    task: str
    code: int
    """Exit code of the process, as a shell gives it."""
    reason: str = ""
    """Reason of the failure, where the exit code does not tell it."""


@dataclass(frozen=True)
class Interrupted:
    """Event: the workflow has to end now."""


Event = Begun | Advised | Ended | Interrupted


@dataclass(frozen=True)
class Ask:
    """Instruction: read the values that are recommended to a task; ``Advised`` answers."""

    task: str


@dataclass(frozen=True)
class Launch:
    """Instruction: start a task; ``Ended`` answers."""

    task: str
    attempt: int
    """Number of the attempt, from 1 on."""
    words: tuple[str, ...]
    """Command of the task, with all values in it."""
    values: Mapping[str, str]
    """Recommended values that are in the command."""
    resources: Resources
    place: Allocation


@dataclass(frozen=True)
class Stop:
    """Instruction: end a running task; ``Ended`` answers."""

    task: str


@dataclass(frozen=True)
class Note:
    """Instruction: report that a task has come into another state."""

    task: str
    state: State
    attempt: int
    """Number of the attempt that is under way or was the last; 0 before the first."""
    code: int | None = None
    """Exit code of an attempt that has ended."""
    reason: str = ""
    place: Allocation | None = None
    """Nodes and cores of the task while it is executing."""
    resources: Resources = ONE_CORE


@dataclass(frozen=True)
class Finish:
    """Instruction: finish, as all tasks have come to an end."""


Instruction = Ask | Launch | Stop | Note | Finish
