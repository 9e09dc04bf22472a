"""All causes, in the order in which calls are asked for them."""

from __future__ import annotations

from chimbuko.causes.kinds.amounts import COUNTER, MORE_BYTES, MORE_CALLS
from chimbuko.causes.kinds.cause import Cause
from chimbuko.causes.kinds.children import IN_CHILD, LATE_CHILD
from chimbuko.causes.kinds.gpu import GPU_BUSY, GPU_QUEUE_FULL, GPU_THROTTLED, WAITED_FOR_GPU
from chimbuko.causes.kinds.heldup import STOPPED, WAITED_FOR_CORE
from chimbuko.causes.kinds.interpreter import COLLECTION, IMPORT, INTERPRETER, LOCK
from chimbuko.causes.kinds.peers import LATE_AT_COLLECTIVE, LATE_RECEIVER, LATE_SENDER, SLOW_OPERATION
from chimbuko.causes.kinds.rest import NOT_EXPLAINED, OWN_CODE
from chimbuko.causes.kinds.spent import (
    ASLEEP,
    CHILD,
    HELD_LOCK,
    MEMORY_PRESSURE,
    MIGRATION,
    NETWORK,
    OTHER_THREAD,
    PAGE_FAULTS,
    STORAGE,
    SYSTEM_TIME,
)
from chimbuko.causes.kinds.threads import LATE_THREAD
from chimbuko.causes.kinds.work import LOW_CLOCK, MORE_WORK, SLOWER_MACHINE

CAUSES: tuple[Cause, ...] = (
    # Who is stopped while it waits is waited for itself, by those whom it seems to wait for.
    STOPPED,
    # Both ends of a large message take longer, and each would be taken for what the other waited for.
    MORE_BYTES,
    LATE_SENDER,
    LATE_RECEIVER,
    LATE_AT_COLLECTIVE,
    LATE_THREAD,
    # Behind the waits for ranks: who polls on a core that is shared has waited for it, too.
    WAITED_FOR_CORE,
    WAITED_FOR_GPU,
    GPU_QUEUE_FULL,
    SLOW_OPERATION,
    IN_CHILD,
    MORE_CALLS,
    # Measured where they happen; what a thread does in them, samples of the node say in general.
    COLLECTION,
    IMPORT,
    LOCK,
    INTERPRETER,
    PAGE_FAULTS,
    MEMORY_PRESSURE,
    MIGRATION,
    STORAGE,
    NETWORK,
    HELD_LOCK,
    OTHER_THREAD,
    CHILD,
    SYSTEM_TIME,
    LATE_CHILD,
    # Behind all that a thread waited for itself: a library may sleep or spin while its GPU computes.
    GPU_BUSY,
    GPU_THROTTLED,
    ASLEEP,
    MORE_WORK,
    SLOWER_MACHINE,
    LOW_CLOCK,
    COUNTER,
    OWN_CODE,
    NOT_EXPLAINED,
)
IN_NODE = frozenset(cause.id for cause in CAUSES if cause.is_in_node)
"""Ids of the causes that lie in the node."""
_BY_ID = {cause.id: cause for cause in CAUSES}


def cause_of(kind: str) -> Cause:
    """Return the cause with an id, as ``Part.kind`` has it."""
    return _BY_ID[kind]
