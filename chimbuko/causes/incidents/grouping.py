"""Groups of calls that belong together: each call leads to what held it up; a group is what leads to one
call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.kinds.heldup import STOPPED, WAITED_FOR_CORE
from chimbuko.causes.kinds.interpreter import LOOP
from chimbuko.causes.kinds.registry import IN_NODE
from chimbuko.causes.kinds.split import main_part
from chimbuko.causes.part import ANALYSIS, HELD_UP, HeldUp, Part
from chimbuko.core.calls.waiting import Waits

NEAR_SHARE = 0.5
"""Share of the shorter one's time by which waits for unknown ranks must overlap to be one delay."""
SAME_TAKING_US = 1_000_000
"""Maximum time between calls that lost a core to the same process, for them to be one delay."""
SAME_STOP_SHARE = 0.8
"""Share of the longer stop for which ranks must have stood still together to have been stopped together."""


def leads_to(flag: Flag, parts: Sequence[Part], flags: Mapping[str, Flag]) -> str:
    """Return the call that explains most of this one's excess; empty if the node does, or none of
    ``flags``.
    """
    if main_part(parts).kind in IN_NODE:
        return ""
    known = [part for part in parts if part.call_id in flags and part.call_id != flag.id]
    return main_part(known).call_id if known else ""


def joined_to(flag: Flag, beside: Iterable[Flag], parts: Mapping[str, Sequence[Part]]) -> str:
    """Return the call or loss that a held-up call or a loss is part of; empty without one.

    A loss that lies in one call for the most part is a part of that, also if the call waits for others, who
    lose nothing by it; and calls are parts of a loss.

    Parameters
    ----------
    beside
        Other calls and losses in which the thread lost time, at the same time.
    """
    if flag.loss is not None:
        found = [one for one in beside if _holds(one, flag, parts)]
    elif main_part(parts[flag.id]).kind in HELD_UP:
        losses = [one for one in beside if one.loss is not None]
        if any(_holds(flag, loss, parts) for loss in losses):
            return ""
        lost_us = flag.lost_to_us - flag.lost_from_us
        found = [loss for loss in losses if flag.overlap_us(loss) >= NEAR_SHARE * lost_us]
    else:
        return ""
    return max(found, key=lambda one: (flag.overlap_us(one), one.id)).id if found else ""


def _holds(call: Flag, loss: Flag, parts: Mapping[str, Sequence[Part]]) -> bool:
    """Whether most of a loss lies in one call, which took longer by it, or would have waited anyway."""
    if call.loss is not None or not call.is_flagged:
        return False
    is_held_up = main_part(parts[call.id]).kind in HELD_UP
    if not is_held_up and not (call.is_wait and loss.loss is HeldUp.WAITED_FOR_CORE):
        return False
    return call.overlap_us(loss) >= NEAR_SHARE * (loss.lost_to_us - loss.lost_from_us)


def root_of(call_id: str, leads: Mapping[str, str], flags: Mapping[str, Flag]) -> str:
    """Return the last call of the chain from a call; empty if none of them is among ``flags``.

    Behind a flagged call that is no wait, it is the last one that is flagged, or lost time by itself. Where
    calls lead to each other in a circle, one of them is the last, whichever the chain begins with.
    """
    chain: dict[str, int] = {}
    while call_id and call_id not in chain:
        chain[call_id] = len(chain)
        # Calls that were let go of lead nowhere.
        call_id = leads.get(call_id, "")
    calls = list(chain)
    if call_id:
        circle = calls[chain[call_id] :]
        calls[chain[call_id] :] = [max(circle, key=lambda one: _nearness_to_origin(one, flags))]
    root = ""
    for one in calls:
        flag = flags.get(one)
        if flag is not None and (flag.is_flagged or not flag.is_wait or not root or flags[root].is_wait):
            root = one
    return root


def _nearness_to_origin(call_id: str, flags: Mapping[str, Flag]) -> tuple[bool, bool, bool, float, str]:
    """Return by what the origin of a circle is told: who waits is held up, a loss is so whatever waits."""
    flag = flags.get(call_id)
    if flag is None:
        return False, False, False, 0.0, call_id
    return True, not flag.is_wait, flag.is_flagged, flag.excess_us, call_id


Culprit = tuple[str, str]
"""Node, and process there that is no part of the program and took a core."""


def culprit_of(flag: Flag, parts: Sequence[Part]) -> Culprit | None:
    """Return the process that a call's time was lost to; None if it was no other program."""
    main = main_part(parts)
    is_taken = main.kind == WAITED_FOR_CORE.id and main.is_foreign
    return (flag.node, main.by) if is_taken else None


def groups(
    flags: Mapping[str, Flag], leads: Mapping[str, str], parts: Mapping[str, Sequence[Part]]
) -> dict[str, list[str]]:
    """Return the ids of the calls of each group, by the id of the one that they lead to.

    Calls that count for nothing by themselves belong to a group only if one that does leads to the same.
    """
    roots = {call_id: root_of(call_id, leads, flags) for call_id in flags}
    known = {roots[flag.id] for flag in flags.values() if counts(flag, parts[flag.id])}
    roots = {call_id: root for call_id, root in roots.items() if root in known}
    # A wait that leads nowhere may be of the same delay as others that go on at the same time.
    lost = [flag for flag in flags.values() if roots.get(flag.id) == flag.id]
    stands_for = _together(
        flag for flag in lost if flag.is_wait and main_part(parts[flag.id]).kind not in IN_NODE
    )
    stands_for |= _taken_together(lost, parts)
    stands_for |= _stopped_together(lost, parts)
    stands_for |= _held_up_together(lost, parts)
    members: dict[str, list[str]] = defaultdict(list)
    for call_id, root in roots.items():
        members[stands_for.get(root, root)].append(call_id)
    return members


def counts(flag: Flag, parts: Sequence[Part]) -> bool:
    """Whether a call or loss makes an incident by itself. What the analysis took in no call does not: it is
    the price of looking at ranks.
    """
    return flag.is_flagged and not (flag.loss is not None and main_part(parts).by == ANALYSIS)


def _together(lost: Iterable[Flag]) -> dict[str, str]:
    """Return for each wait the id of the longest one of those that overlap it."""
    stands_for: dict[str, str] = {}
    open_now: dict[int, list[Flag]] = defaultdict(list)
    for flag in sorted(lost, key=lambda flag: (flag.common_entry_us, flag.id)):
        others = [other for other in open_now[flag.program] if other.common_exit_us > flag.common_entry_us]
        open_now[flag.program] = others
        near = next((other for other in others if _are_near(flag, other)), None)
        stands_for[flag.id] = flag.id if near is None else stands_for[near.id]
        others.append(flag)
    return stands_for


def _taken_together(lost: Iterable[Flag], parts: Mapping[str, Sequence[Part]]) -> dict[str, str]:
    """Return for each call whose core a process took the id of the first call that lost it to the same one
    then.
    """
    stands_for: dict[str, str] = {}
    last: dict[Culprit, Flag] = {}
    for flag in sorted(lost, key=lambda flag: (flag.entry_us, flag.id)):
        culprit = culprit_of(flag, parts[flag.id])
        if culprit is None:
            continue
        before = last.get(culprit)
        is_same = before is not None and flag.entry_us <= before.exit_us + SAME_TAKING_US
        stands_for[flag.id] = stands_for[before.id] if before is not None and is_same else flag.id
        if before is None or flag.exit_us > before.exit_us or not is_same:
            last[culprit] = flag
    return stands_for


def _stopped_together(lost: Iterable[Flag], parts: Mapping[str, Sequence[Part]]) -> dict[str, str]:
    """Return for each call whose rank was stopped the id of the first one whose rank was stopped at the same
    time.
    """
    stands_for: dict[str, str] = {}
    first: list[Flag] = []
    stopped = [flag for flag in lost if main_part(parts[flag.id]).kind == STOPPED.id]
    for flag in sorted(stopped, key=lambda flag: (flag.common_from_us, flag.id)):
        first = [one for one in first if one.common_to_us > flag.common_from_us]
        same = next((one for one in first if _is_same_stop(one, flag)), flag)
        stands_for[flag.id] = same.id
        if same is flag:
            first.append(flag)
    return stands_for


def _held_up_together(lost: Iterable[Flag], parts: Mapping[str, Sequence[Part]]) -> dict[str, str]:
    """Return for each task that waited for its event loop the id of the first one that did so then, as the
    same function kept it.
    """
    stands_for: dict[str, str] = {}
    last: dict[tuple[int, int, str], Flag] = {}
    held_up = [flag for flag in lost if main_part(parts[flag.id]).kind == LOOP.id]
    for flag in sorted(held_up, key=lambda flag: (flag.entry_us, flag.id)):
        key = flag.program, flag.rank, main_part(parts[flag.id]).by
        before = last.get(key, flag)
        is_same = flag.entry_us < before.exit_us
        stands_for[flag.id] = stands_for.get(before.id, flag.id) if is_same else flag.id
        last[key] = max(before, flag, key=lambda one: one.exit_us)
    return stands_for


def _is_same_stop(one: Flag, other: Flag) -> bool:
    longer_us = max(flag.lost_to_us - flag.lost_from_us for flag in (one, other))
    is_together = one.overlap_us(other) >= SAME_STOP_SHARE * longer_us
    return one.program == other.program and one.rank != other.rank and is_together


def _are_near(one: Flag, other: Flag) -> bool:
    shorter_us = min(one.inclusive_us, other.inclusive_us)
    are_apart = one.rank != other.rank or (one.waits is Waits.THREADS and one.thread != other.thread)
    return are_apart and one.overlap_us(other) >= NEAR_SHARE * shorter_us
