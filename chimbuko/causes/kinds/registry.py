"""All causes, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Part
from chimbuko.causes.evidence.scene import Scene
from chimbuko.causes.kinds import (
    counter,
    inchild,
    lateatcollective,
    latechild,
    latereceiver,
    latesender,
    morebytes,
    morecalls,
    owncode,
    slowoperation,
)
from chimbuko.causes.nodekinds import gpucalls, gpus, heldup, spent

CAUSES: tuple[Callable[[Flag, Scene], Iterator[Part]], ...] = (
    # Who is stopped while it waits is waited for itself, by those whom it seems to wait for.
    heldup.stopped,
    # Both ends of a large message take longer, and each would be taken for what the other waited for.
    morebytes.parts,
    latesender.parts,
    latereceiver.parts,
    lateatcollective.parts,
    # Behind what a wait was for: who polls on a core that is shared has waited for it, too.
    heldup.without_core,
    gpucalls.parts,
    slowoperation.parts,
    inchild.parts,
    morecalls.parts,
    spent.parts,
    latechild.parts,
    # Behind all that a thread waited for itself: a library may sleep or spin while its GPU computes.
    gpus.parts,
    counter.parts,
    gpucalls.of_unknown,
    owncode.parts,
)
"""Each says what of a call's excess it explains, as if it were the only one; earlier ones go first."""
