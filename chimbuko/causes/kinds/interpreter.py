"""Causes that a tracer reports as counters: pauses of Python itself, and locks with their holders."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.incident import Incident
from chimbuko.causes.kinds.cause import Cause, Told
from chimbuko.causes.kinds.spent import LEAST_SHARE
from chimbuko.causes.part import Part
from chimbuko.causes.wording import duration
from chimbuko.core.pauses import Pause
from chimbuko.core.units import number_of
from chimbuko.monitor.procfs.systemcalls import CHILDREN, CONDITIONS, FILES, LOCKS, NAPS, SOCKETS

LEAST_SEEN_SHARE = 0.2
"""Share of the excess in which looks at a thread, 50 ms apart, must have seen it wait for a lock or for the
interpreter."""

ELSEWHERE_SHARE = 0.5
"""Share of such a wait for which its thread may have slept for something else."""


def paused(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield what the call spent on garbage, on imports and until its event loop was free, which the tracer
    measures.
    """
    for cause, kind in ((COLLECTION, Pause.COLLECTION), (IMPORT, Pause.IMPORT), (LOOP, Pause.LOOP)):
        what, length_us = flag.paused_us(kind)
        if length_us >= LEAST_SHARE * flag.excess_us:
            yield Part(cause.id, length_us, by=what)


def blocked(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the wait for a lock or the interpreter: as long as its thread slept, where that is known."""
    if flag.is_wait:
        return
    seen = [
        (cause, *flag.paused_us(kind))
        for cause, kind in ((LOCK, Pause.LOCK), (INTERPRETER, Pause.INTERPRETER))
    ]
    cause, what, seen_us = max(seen, key=lambda one: one[2])
    if not what or seen_us < LEAST_SEEN_SHARE * flag.excess_us:
        return
    activity = evidence.activity(flag)
    slept_us = 0.0
    if activity is not None:
        slept_us = activity.slept_us(LOCKS | CONDITIONS)
        if activity.slept_us(NAPS | CHILDREN | FILES | SOCKETS) > max(slept_us, ELSEWHERE_SHARE * seen_us):
            # Somebody had the interpreter while it wanted nothing.
            return
    yield Part(cause.id, max(slept_us, float(seen_us)), by=what)


def _loop_held(incident: Incident, main: Part) -> Told | None:
    """Tell who kept an event loop from how many tasks."""
    hit = [one for one in incident.waited if one.kind == LOOP.id]
    tasks = number_of(len({incident.thread, *(one.thread for one in hit)}), "tasks")
    held = f"{main.by} kept the event loop of rank {incident.rank} for {duration(main.lost_us)}"
    return Told(f"{held}, for which {tasks} waited", hit)


COLLECTION = Cause(
    id="garbage collection",
    colour="program",
    text="collecting garbage ({by})",
    find=paused,
    clause=lambda part, rank: f"as Python collected garbage for {duration(part.lost_us)} ({part.by})",
)
IMPORT = Cause(
    id="import",
    colour="program",
    text="importing {by}",
    find=paused,
    clause=lambda part, rank: f"as it imported {part.by} for {duration(part.lost_us)}",
)
LOOP = Cause(
    id="waited for event loop",
    colour="program",
    text="waiting for the event loop, which {by} kept to itself",
    find=paused,
    clause=lambda part, rank: f"as {part.by} kept the event loop for {duration(part.lost_us)}",
    tell=_loop_held,
)
LOCK = Cause(
    id="waited for lock",
    colour="program",
    text="waiting for a lock ({by})",
    find=blocked,
    clause=lambda part, rank: f"as it waited {duration(part.lost_us)} for a lock ({part.by})",
)
INTERPRETER = Cause(
    id="waited for interpreter",
    colour="program",
    text="waiting for the interpreter (GIL), in which {by} ran in another thread",
    find=blocked,
    clause=lambda part, rank: (
        f"as it waited {duration(part.lost_us)} for the interpreter (GIL), "
        f"which {part.by} had in another thread"
    ),
)
