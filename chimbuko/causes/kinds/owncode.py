"""A call lost time in its own code, or waiting for a GPU of which nothing abnormal is on record."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene
from chimbuko.causes.evidence.waiting import waits_for_gpu


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """All that is left, unless the call is one in which ranks wait."""
    if waits_for_gpu(flag.function):
        yield Part(Kind.GPU_CALL, flag.excess_us)
    elif not flag.is_wait:
        yield Part(Kind.OWN_CODE, flag.excess_us)
