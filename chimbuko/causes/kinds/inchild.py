"""A call took longer because calls inside it did."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """What flagged calls inside it lost, where calls are judged with what is inside them."""
    if flag.is_exclusive:
        return
    for inner in scene.inside(flag):
        if inner.ancestors[0][0] == flag.id:
            yield Part(Kind.IN_CHILD, inner.excess_us, inner.function, None, inner.id)
