"""All causes, in the order in which calls are asked for them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any

from msgspec.structs import replace

from chimbuko.causes.kinds.cause import Cause
from chimbuko.causes.kinds.children import IN_CHILD, LATE_CHILD
from chimbuko.causes.kinds.gpu import GPU_BUSY, GPU_QUEUE_FULL, GPU_THROTTLED, WAITED_FOR_GPU
from chimbuko.causes.kinds.heldup import STOPPED, WAITED_FOR_CORE
from chimbuko.causes.kinds.interpreter import COLLECTION, IMPORT, INTERPRETER, LOCK, LOOP
from chimbuko.causes.kinds.peers import (
    LATE_AT_COLLECTIVE,
    LATE_RECEIVER,
    LATE_SENDER,
    LATE_THREAD,
    SLOW_OPERATION,
)
from chimbuko.causes.kinds.rest import NOT_EXPLAINED, OFF_CORE, OWN_CODE
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
from chimbuko.causes.kinds.work import COUNTER, LOW_CLOCK, MORE_BYTES, MORE_CALLS, MORE_WORK, SLOWER_MACHINE
from chimbuko.core import plugins

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
    LOOP,
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
    OFF_CORE,
    NOT_EXPLAINED,
)
"""Causes of our own."""
IN_NODE = frozenset(cause.id for cause in CAUSES if cause.is_in_node)
"""Ids of the causes of our own that lie in the node; those of plugins lie elsewhere."""
_BY_ID = {cause.id: cause for cause in CAUSES}


@cache
def plugin_causes() -> tuple[Cause, ...]:
    """Return the causes of plugins, which are asked first: who writes one knows the program best."""
    found = (cause for _, cause in plugins.working("causes", Cause))
    return tuple(_guarded(cause) for cause in found if cause.id not in _BY_ID and not cause.is_in_node)


def _guarded(cause: Cause) -> Cause:
    """Return a cause whose functions say nothing where they fail, which is named once: no plugin may end the
    analysis of a run.
    """
    has_failed = False

    def guard(function: Callable[..., Any], otherwise: object) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any) -> Any:
            nonlocal has_failed
            try:
                found = function(*arguments)
                return list(found) if isinstance(found, Iterator) else found
            except Exception as error:
                if not has_failed:
                    print(f"chimbuko: the cause {cause.id} of a plugin failed: {error!r}", file=sys.stderr)
                has_failed = True
                return otherwise

        return call

    return replace(
        cause,
        find=cause.find and guard(cause.find, ()),
        claim=cause.claim and guard(cause.claim, ()),
        clause=guard(cause.clause, ""),
        tell=guard(cause.tell, None),
    )


def cause_of(kind: str) -> Cause:
    """Return the cause with an id, as ``Part.kind`` has it; for that of a plugin which is not installed here
    one that says nothing.
    """
    if kind in _BY_ID:
        return _BY_ID[kind]
    unknown = Cause(id=kind, colour="unexplained", text=f"as a plugin says: {kind}")
    return next((cause for cause in plugin_causes() if cause.id == kind), unknown)
