"""A call took longer because its thread could have run, and its core was another's."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.nodescene import Rival, Seen
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import POLLING_SHARE, Scene

LEAST_SHARE = 0.2
"""Of the excess: some of it every thread waits now and then."""
CULPRIT_SHARE = 0.25
"""Of the wait, that a rival must have run for to be named."""


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """For how long it waited, and who ran on its core most of that time."""
    seen = scene.seen(flag)
    least_share = POLLING_SHARE if flag.is_wait else LEAST_SHARE
    if seen is None or seen.waited_us < least_share * flag.excess_us:
        return
    rival = culprit(seen)
    if rival is None:
        yield Part(Kind.WAITED_FOR_CORE, seen.waited_us)
    else:
        yield Part(
            Kind.WAITED_FOR_CORE, seen.waited_us, by=rival.name, is_foreign=rival.is_foreign, core=rival.core
        )


def culprit(seen: Seen) -> Rival | None:
    """Who ran most on its core; None where nobody ran long enough."""
    first = seen.rivals[0] if seen.rivals else None
    return first if first is not None and first.ran_us >= CULPRIT_SHARE * seen.waited_us else None
