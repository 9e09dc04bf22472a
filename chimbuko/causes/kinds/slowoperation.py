"""An operation of MPI took long although nobody came late: the data took long, or the cores were not free."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene
from chimbuko.causes.kinds.lateatcollective import came_us
from chimbuko.causes.kinds.latesender import sent_us
from chimbuko.core.calls.waiting import Waits, is_receive_only


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """The time after all had come, where that is on record."""
    begun_us: int | None = None
    if flag.waits is Waits.COLLECTIVE:
        if not flag.collectives and scene.culprit(flag) is not None:
            # To look for all that wait at the same time costs most of all, and here it is known for whom.
            return
        came = came_us(flag, scene)
        if scene.ranks[flag.program] <= {flag.rank, *came}:
            begun_us = max(came.values(), default=None)
    elif is_receive_only(flag.function):
        times = [sent_us(message, flag, scene) for message in flag.messages if message.kind == "RECV"]
        known = [time_us for time_us in times if time_us is not None]
        if known and len(known) == len(times):
            begun_us = max(known)
    if begun_us is not None:
        yield Part(Kind.SLOW_OPERATION, flag.common_exit_us - max(begun_us, flag.common_entry_us))
