"""Choice of the unread steps that are dropped when streams take more space than they may. It knows no files
and no clock.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple


class Limits(NamedTuple):
    """Space that followed streams may take, in bytes."""

    stream_bytes: int = 64 << 20
    """Limit of one stream, in bytes."""
    node_bytes: int = 1 << 30
    """Limit of all streams of the node together, in bytes."""
    reserve_bytes: int = 64 << 20
    """Bytes that have to be left of the file system and, where that is memory, of whose memory it is."""


class Held(NamedTuple):
    """Steps and bytes that one stream holds."""

    held_bytes: int
    """Space that its data takes, with that of the step which is being written."""
    first_step: int
    """The first one whose data is still there."""
    begins: Sequence[int]
    """Offsets in bytes where the data of each complete step from that one on begins; these never fall."""


def first_steps(streams: Sequence[Held], limits: Limits, other_bytes: int, left_bytes: int) -> list[int]:
    """Return the first step that each stream keeps.

    Steps are dropped one by one, the oldest first: of a stream beyond its own limit, until it is not; then,
    while all together are beyond theirs or the reserve is touched, of the stream that holds most. The newest
    complete step of a stream always stays: where the one behind it ends, nobody knows yet. So limits can be
    exceeded by one step per stream.

    Parameters
    ----------
    other_bytes
        What cannot be dropped, but counts against the limit of the node: metadata.
    left_bytes
        What is left of the room, now.
    """
    kept = [_within(stream, limits.stream_bytes) for stream in streams]
    remaining = [
        stream.held_bytes - _freed(stream, steps) for stream, steps in zip(streams, kept, strict=True)
    ]
    dropped = sum(stream.held_bytes for stream in streams) - sum(remaining)
    excess = max(
        sum(remaining) + other_bytes - limits.node_bytes, limits.reserve_bytes - left_bytes - dropped
    )
    # Of streams that hold the same, the first.
    largest = [
        (-held, place) for place, held in enumerate(remaining) if _can_drop(streams[place], kept[place])
    ]
    heapq.heapify(largest)
    while excess > 0 and largest:
        negative, place = largest[0]
        stream, steps = streams[place], kept[place]
        size = stream.begins[steps + 1] - stream.begins[steps]
        kept[place] += 1
        excess -= size
        if _can_drop(stream, kept[place]):
            heapq.heapreplace(largest, (negative + size, place))
        else:
            heapq.heappop(largest)
    return [stream.first_step + steps for stream, steps in zip(streams, kept, strict=True)]


def _within(stream: Held, limit: int) -> int:
    """Return the number of steps that have to go, so that a stream alone is within its limit, or as near as
    can be.
    """
    excess = stream.held_bytes - limit
    if excess <= 0 or len(stream.begins) < 2:
        return 0
    return min(bisect_left(stream.begins, stream.begins[0] + excess), len(stream.begins) - 1)


def _freed(stream: Held, steps: int) -> int:
    return stream.begins[steps] - stream.begins[0] if steps else 0


def _can_drop(stream: Held, steps: int) -> bool:
    return steps + 1 < len(stream.begins)
