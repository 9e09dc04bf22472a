"""One finding."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from chimbuko.monitor.sampling.sample import SAMPLER
from chimbuko.monitor.sampling.span import Span, ThreadSpan

ACTIVE_SHARE = 0.05
"""A thread that ran or waited for a core for less of the time is no worker."""


class Finding(msgspec.Struct, frozen=True):
    """Something that costs the program time, or will end it."""

    kind: str
    """One word, such as ``oversubscribed``."""
    text: str
    """Observation, with the figures that show it."""
    advice: str
    """Advice to the user."""
    threads: tuple[int, ...] = ()
    """Whom it concerns."""


def workers(span: Span) -> list[ThreadSpan]:
    """Return threads that want to run; the sampler's are none."""
    return [
        thread
        for thread in span.threads.values()
        if thread.kind != SAMPLER and thread.busy_share + (thread.waited_share or 0.0) >= ACTIVE_SHARE
    ]


def cut_off_per_s(thread: ThreadSpan) -> float:
    """Return how often per second a thread's core was taken from it."""
    return thread.involuntary / thread.seconds if thread.seconds > 0 else 0.0


def number_of_processes(threads: Iterable[ThreadSpan]) -> int:
    """Return the number of processes that threads belong to."""
    return len({thread.pid for thread in threads})
