"""All kinds of findings, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chimbuko.monitor.report import cores, limits, threads
from chimbuko.monitor.report.finding import Finding
from chimbuko.monitor.sampling.span import Span

KINDS: tuple[Callable[[Span], Iterator[Finding]], ...] = (
    limits.killed,
    threads.deadlocked,
    threads.stuck,
    limits.throttled,
    limits.stolen,
    threads.interpreter_bound,
    threads.many_threads,
    cores.taken_cores,
    limits.gpu_throttled,
    limits.memory_filling,
    limits.memory_growing,
    limits.memory_low,
    threads.storage_bound,
    threads.system_bound,
    threads.migrating,
    cores.undersubscribed,
    cores.sampler_beside,
)


def findings(span: Span) -> list[Finding]:
    """All that is found in a span; several kinds may be about the same threads."""
    span = limits.without_throttling(span)
    return [finding for kind in KINDS for finding in kind(span)]
