"""A call took longer because it made more calls than usual."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene

CLEARLY = 1.5
"""Times as many as an ordinary call of the function makes."""


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """What the further calls took, where calls are judged with what is inside them.

    As many of them as its window has say how long they take.
    """
    ordinary = scene.ordinary(flag)
    if flag.is_exclusive or ordinary is None or not flag.children:
        return
    further = flag.calls_made - ordinary.calls_made
    if flag.calls_made >= CLEARLY * max(ordinary.calls_made, 1):
        runtimes_us = sorted(child.exit_us - child.entry_us for child in flag.children)
        typical_us = runtimes_us[len(runtimes_us) // 2]
        yield Part(Kind.MORE_CALLS, further * typical_us, flag.children[-1].function)
