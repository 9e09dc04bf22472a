"""When recorded streams end that several agents read: a call that never ended was open up to the last end."""

from __future__ import annotations

from typing import cast

from chimbuko.runtime.protocol.runbroker import RunBroker


def newest_end_us(broker: RunBroker, share: int, count: int, newest_us: int) -> int | None:
    """The newest event of all shares, once each of them is read; None before.

    Parameters
    ----------
    share, count
        Number of the share that was read, and how many there are.
    newest_us
        Of that share; 0 where it has none.
    """
    with broker.client.pipeline(transaction=False) as pipeline:
        pipeline.hset(broker.keys.trace_ends, str(share), newest_us)
        pipeline.hvals(broker.keys.trace_ends)
        ends = cast(list[bytes], pipeline.execute()[-1])
    return max(map(int, ends)) if len(ends) == count else None
