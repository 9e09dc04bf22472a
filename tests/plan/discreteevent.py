"""A workflow played through event by event, beside the equations: groups, each with a queue of one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Worker:
    """One group."""

    execution_s: float
    started_at: float = 0.0
    """When it took what came last."""
    ready_at: float = 0.0
    """When it has done that."""


@dataclass
class Stream:
    """Data of one asynchronous task, to workers in turn."""

    every: int
    workers: list[Worker]
    transfer_s: float = 0.0
    """Where it takes time, both sides take part in it, and nothing waits in between."""


def play(steps: int, step_s: float, streams: list[Stream]) -> float:
    """Seconds until the application has done its steps, and workers all that they were given."""
    now = 0.0
    for step in range(1, steps + 1):
        now += step_s
        for stream in streams:
            if step % stream.every:
                continue
            worker = stream.workers[step // stream.every % len(stream.workers)]
            if stream.transfer_s:
                now = max(now, worker.ready_at) + stream.transfer_s
                worker.started_at = now
            else:
                # There is room for one that waits: that before must have been taken.
                now = max(now, worker.started_at)
                worker.started_at = max(now, worker.ready_at)
            worker.ready_at = worker.started_at + worker.execution_s
    return max([now, *(worker.ready_at for stream in streams for worker in stream.workers)])
