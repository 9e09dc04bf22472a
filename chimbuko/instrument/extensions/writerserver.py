"""Writer server of a traced Python program that may use MPI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from chimbuko.instrument.tracer import writerserver
from chimbuko.instrument.tracer.chunks import Handover


def main() -> None:
    """Serve the socket that is the standard input."""
    writerserver.main(joined)


def joined(handovers: Iterator[Handover], pid: int, rank: int) -> Iterator[Handover]:
    """Yield the handovers of a process, with what its recorder has written since it was loaded."""
    timers = counters = 1
    for handover in handovers:
        if handover.rings:
            # Programs without MPI do not pay for the import.
            from chimbuko.instrument.extensions.joining import Joining

            with closing(Joining(handover.rings, pid, rank, timers, counters)) as joining:
                yield joining.join(handover)
                for following in handovers:
                    yield joining.join(following)
                yield joining.rest()
            return
        timers = max(timers, 1 + max(handover.timers, default=0))
        counters = max(counters, 1 + max(handover.counters, default=0))
        yield handover
