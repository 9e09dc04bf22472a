"""A call that moves data took longer because there was more of it than usual."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene

CLEARLY = 2.0
"""Times as many bytes as an ordinary call of the function moves."""


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """What the further bytes took, at the speed of an ordinary call."""
    ordinary = scene.ordinary(flag)
    if ordinary is None or not ordinary.size_bytes:
        return
    ratio = flag.size_bytes / ordinary.size_bytes
    if ratio >= CLEARLY:
        yield Part(Kind.MORE_BYTES, (ratio - 1) * flag.expected_us)
