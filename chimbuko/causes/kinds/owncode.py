"""A call lost time in its own code."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene
from chimbuko.core.calls.waiting import waits_for_gpu


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """All that is left, unless the call is one in which ranks wait, or waits for a GPU."""
    if not (flag.is_wait or waits_for_gpu(flag.function)):
        yield Part(Kind.OWN_CODE, flag.excess_us)
