"""Which calls belong together: each leads to what held it up; an incident is what leads to one of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.kinds.heldup import STOPPED, WAITED_FOR_CORE
from chimbuko.causes.kinds.registry import IN_NODE
from chimbuko.causes.kinds.split import main_part
from chimbuko.causes.part import ANALYSIS, HELD_UP, HeldUp, Part

NEAR_SHARE = 0.5
"""Of the shorter one's time: waits of which nobody knows for whom are one if they overlap by so much."""
SAME_TAKING_US = 1_000_000
"""Calls that lost a core to the same process are one delay, with no more than this between them."""
SAME_STOP_SHARE = 0.8
"""Of the longer one's time: ranks that stood still together for so much of it were stopped together."""


def leads_to(flag: Flag, parts: Sequence[Part], flags: Mapping[str, Flag]) -> str:
    """The call that explains most of this one's excess; empty where the node does, or none of ``flags``."""
    if main_part(parts).kind in IN_NODE:
        return ""
    known = [part for part in parts if part.call_id in flags and part.call_id != flag.id]
    return main_part(known).call_id if known else ""


def joined_to(flag: Flag, beside: Iterable[Flag], parts: Mapping[str, Sequence[Part]]) -> str:
    """What a call is part of that was kept from running, or what a loss of its thread is: a loss that lies in
    one call for the most part is a part of that, also if it waits for others, who lose nothing by it; and
    calls are parts of a loss. Empty without one.

    Parameters
    ----------
    beside
        What else the thread lost time in, at the same time.
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
    """The last call of the chain from a call; of what is behind a flagged one that is no wait, the last one
    that is flagged, or lost time by itself. Empty where none of them is among ``flags``.
    """
    seen = set()
    root = ""
    while call_id and call_id not in seen:
        seen.add(call_id)
        flag = flags.get(call_id)
        if flag is not None and (flag.is_flagged or not flag.is_wait or not root or flags[root].is_wait):
            root = call_id
        call_id = leads[call_id]
    return root


Culprit = tuple[str, str]
"""A node, and what of it that is no part of the program took a core."""


def culprit_of(flag: Flag, parts: Sequence[Part]) -> Culprit | None:
    """Whom a call's time was lost to; None where that was no other program."""
    main = main_part(parts)
    is_taken = main.kind == WAITED_FOR_CORE.id and main.is_foreign
    return (flag.node, main.by) if is_taken else None


def groups(
    flags: Mapping[str, Flag], leads: Mapping[str, str], parts: Mapping[str, Sequence[Part]]
) -> dict[str, list[str]]:
    """Ids of the calls of each group, by the id of the one that they lead to.

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
    members: dict[str, list[str]] = defaultdict(list)
    for call_id, root in roots.items():
        members[stands_for.get(root, root)].append(call_id)
    return members


def counts(flag: Flag, parts: Sequence[Part]) -> bool:
    """Whether a call makes an incident by itself, or what was lost in no call: what the analysis itself took
    there is a price of looking at ranks.
    """
    return flag.is_flagged and not (flag.loss is not None and main_part(parts).by == ANALYSIS)


def _together(lost: Iterable[Flag]) -> dict[str, str]:
    """Id of each wait to that of the longest one of those that overlap."""
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
    """Id of each call whose core somebody took to that of the first one whom the same took it from then."""
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
    """Id of each call whose rank was stopped to that of the first one whose rank was so at the same time."""
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


def _is_same_stop(one: Flag, other: Flag) -> bool:
    longer_us = max(flag.lost_to_us - flag.lost_from_us for flag in (one, other))
    is_together = one.overlap_us(other) >= SAME_STOP_SHARE * longer_us
    return one.program == other.program and one.rank != other.rank and is_together


def _are_near(one: Flag, other: Flag) -> bool:
    shorter_us = min(one.inclusive_us, other.inclusive_us)
    return one.rank != other.rank and one.overlap_us(other) >= NEAR_SHARE * shorter_us
