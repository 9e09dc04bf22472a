"""The core of the sampler: the last of the mask, beside no worker where there is a free one."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from chimbuko.monitor.findings.finding import workers
from chimbuko.monitor.sampling.span import Span


def last_core(masks: Iterable[Iterable[int]], allowed: Iterable[int]) -> int:
    """Where the sampler begins: the last core of the masks that it may use, or the last that it may use."""
    may = set(allowed)
    wanted = may & {cpu for mask in masks for cpu in mask}
    return max(wanted or may)


def better_core(span: Span, allowed: Collection[int], current: int) -> int:
    """The last core without a worker, where the current one has one; else the current one.

    A worker takes the core that it is bound to, or the one on which it ran last.
    """
    taken = {one.cpus[0] if len(one.cpus) == 1 else one.processor for one in workers(span)}
    free = set(allowed) - taken
    return max(free) if free and current in taken else current
