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
    SLOW_OPERATION = "slow operation"
    """In an operation of MPI for which nobody came late."""
    MORE_BYTES = "more bytes"
    """It moved more data than usual."""
    GPU_CALL = "waited for GPU"
    """It waited until a call on the GPU that its process uses was over; one that may not be on record."""
    GPU_QUEUE = "GPU queue full"
    """It had work for the GPU, which had no room for more before a call there was over."""
    COUNTER = "counter out of range"
    """A counter rose by more than in an ordinary call of the function."""
    STOPPED = "stopped"
    """The process had been stopped, by a signal or a debugger."""
    WAITED_FOR_CORE = "waited for core"
    """It could have run, and its core was another's."""
    PAGE_FAULTS = "page faults"
    """The kernel gave it memory, page by page."""
    MEMORY = "memory pressure"
    """Memory was short: pages had to be made free, or read back from storage."""
    MIGRATION = "migration"
    """It was moved from core to core."""
    STORAGE = "storage"
    """It waited for a device or a file system."""
    NETWORK = "network"
    """It waited for a socket or a pipe, outside of MPI."""
    HELD_LOCK = "held lock"
    """Another thread held a lock that it wanted."""
    SYSTEM_TIME = "system time"
    """In the kernel, for the system calls that it made."""
    GPU_BUSY = "GPU busy"
    """The GPU that it uses had more to do than usual."""
    GPU_THROTTLED = "GPU throttled"
    """The GPU that it uses was slowed down for heat, or by its power supply."""
    OWN_CODE = "own code"
    """In the function itself; it waited for nothing that is on record."""
    NOT_EXPLAINED = "not explained"


OF_NODE = frozenset(
    (
        *(Kind.STOPPED, Kind.WAITED_FOR_CORE, Kind.PAGE_FAULTS, Kind.MEMORY, Kind.MIGRATION, Kind.STORAGE),
        *(Kind.NETWORK, Kind.HELD_LOCK, Kind.SYSTEM_TIME, Kind.GPU_BUSY, Kind.GPU_THROTTLED),
    )
)
"""Lost because of the node, as its samples say."""
HELD_UP = frozenset((Kind.STOPPED, Kind.WAITED_FOR_CORE))
"""The thread did not run, whatever it was in: so may be lost also what looks like a wait for other ranks."""


ANALYSIS = "the analysis itself"
"""Who took a core, where that were processes of ours."""
LIMIT = "the CPU limit of its control group"
"""What kept it from a core, where nobody else took that."""


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
    by: str = ""
    """Who took the core, or ran meanwhile; which counter. Empty where that is not known, or nobody did."""
    is_foreign: bool = False
    """That is no process of the program."""
    core: int | None = None
    count: int = 0
    """Of page faults, or moves; of other processes that use the GPU; or how many times as much a counter
    rose by."""
