"""A call took longer, and a counter rose by more than usual: instructions, cache misses, bytes of files."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene

CLEARLY = 2.0
"""Times as much as in an ordinary call of the function."""


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """What the further events took if each takes what it does in an ordinary call, by the counter that rose
    most; not of calls in which ranks wait, which may count while they poll.
    """
    ordinary = scene.ordinary(flag)
    if ordinary is None or flag.is_wait:
        return
    usual = dict(ordinary.counted)
    ratios = {name: value / usual[name] for name, value in flag.counted if usual.get(name, 0) > 0}
    name = max(ratios, key=lambda one: (ratios[one], one), default="")
    if name and ratios[name] >= CLEARLY:
        yield Part(Kind.COUNTER, (ratios[name] - 1) * flag.expected_us, by=name, count=round(ratios[name]))
