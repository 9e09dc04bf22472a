"""A call waited in a collective operation for the rank that came last."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import SLACK_US, Scene
from chimbuko.causes.kinds.waitedfor import LATE_SHARE, last_of, waited_for, waited_for_known
from chimbuko.core.calls.waiting import Waits


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """The wait, if the call is part of a collective operation; for the rank that is known to have come last.

    Else for any other one that lost time meanwhile, and is said to be a guess then; or for the only one that
    does not wait itself.
    """
    if flag.waits is not Waits.COLLECTIVE:
        return
    last = last_of(came_us(flag, scene), flag) if flag.collectives else None
    if last is not None and _ended_it(last[1], flag):
        yield from waited_for_known(Kind.LATE_AT_COLLECTIVE, flag, scene, *last)
        return
    members = set[int]()
    for operation in flag.collectives:
        members |= scene.ends.members(flag.program, operation) - {flag.rank}
    found = list(waited_for(Kind.LATE_AT_COLLECTIVE, flag, scene, members if len(members) > 1 else ()))
    if not found:
        found = list(_by_who_waits(flag, scene))
    yield from (msgspec.structs.replace(part, is_matched=False) for part in found)


def came_us(flag: Flag, scene: Scene) -> dict[int, int]:
    """When other ranks came, on the common clock, as far as that is known.

    Where a trace has no numbers of operations, those are taken for one in which ranks wait at the same time.
    """
    came = {}
    for operation in flag.collectives:
        for rank, time_us in scene.ends.entered_us(flag.program, operation).items():
            came[rank] = scene.common_us(flag.program, rank, time_us)
    if not flag.collectives:
        for other in scene.together(flag):
            came[other.rank] = max(other.common_entry_us, came.get(other.rank, 0))
    return came


def _by_who_waits(flag: Flag, scene: Scene) -> Iterator[Part]:
    """By elimination: the one rank that does not wait, or if all do, the one that came last."""
    came = came_us(flag, scene)
    missing = scene.ranks[flag.program] - {flag.rank, *came}
    if len(missing) == 1 and came:
        yield from waited_for(Kind.LATE_AT_COLLECTIVE, flag, scene, missing)
    elif not missing:
        last = last_of(came, flag)
        if last is not None:
            yield from waited_for_known(Kind.LATE_AT_COLLECTIVE, flag, scene, *last)


def _ended_it(came_us: int, flag: Flag) -> bool:
    """Whether the operation went on no longer than until then: else somebody who is not known came later."""
    return flag.common_exit_us - came_us <= LATE_SHARE * flag.excess_us + SLACK_US
