"""Causes of what no other cause explains."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import Flag, Work
from chimbuko.causes.kinds.cause import Cause
from chimbuko.causes.kinds.spent import FAULT_US, LEAST_SHARE
from chimbuko.causes.part import Part
from chimbuko.causes.wording import duration
from chimbuko.core.calls.waiting import AWAIT, waits_for_gpu
from chimbuko.core.units import number_of

RAN_SHARE = 0.5
"""Share of the excess, without the waits for a core that come with running, that further CPU time must make
up for a call to have been slow as it ran longer."""
UNCERTAIN_US = 1000
"""Time from before a call, at most, that counts of its work may contain: they are read once in so long."""


def own_code(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the excess, but for the time that the thread was off its core, as far as that was counted.

    A call in which ranks wait, or that waits for a GPU, has none; nor has a task that awaits.
    """
    if _is_own(flag):
        yield Part(OWN_CODE.id, flag.excess_us - off_core_us(flag, evidence), by=_ran(flag, evidence))


def off_core(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield how long the thread of a call was off its core, as far as that was counted."""
    if _is_own(flag):
        yield Part(OFF_CORE.id, off_core_us(flag, evidence))


def _is_own(flag: Flag) -> bool:
    return not (flag.is_wait or waits_for_gpu(flag.function) or flag.function.startswith(AWAIT))


def off_core_us(flag: Flag, evidence: Evidence) -> float:
    """Return how long the thread of a call was off its core beyond what is usual; 0 where nobody has counted.

    Waits for a core come with running: a call that runs for longer has more of them on a busy node.
    """
    ordinary, activity = evidence.ordinary(flag), evidence.activity(flag)
    now, usual = dict(flag.worked), dict(ordinary.worked) if ordinary is not None else {}
    off_us = float(now.get(Work.OFF_CORE, 0))
    # On a busy node an ordinary call may have lost some time itself.
    lost_us = max(0.0, ordinary.excess_us) if ordinary is not None else 0.0
    usual_us = max(0.0, usual.get(Work.OFF_CORE, 0) - lost_us)
    ran_us, usually_ran_us = now.get(Work.CPU_TIME, 0), usual.get(Work.CPU_TIME, 0)
    if not usually_ran_us:
        waited_us = activity.usual_wait_us if activity is not None else 0.0
        return min(flag.excess_us, max(0.0, off_us - max(usual_us, waited_us)))
    more_us = max(0, ran_us - usually_ran_us)
    waited_us = usual_us * ran_us / usually_ran_us if activity is None else activity.usual_wait_us
    with_more_us = more_us * (1.0 + waited_us / max(1, ran_us))
    return max(0.0, min(off_us - usual_us, flag.excess_us - with_more_us))


def _ran(flag: Flag, evidence: Evidence) -> str:
    """Return the CPU time of a call that ran longer than an ordinary one, with its page faults where these
    took a part of it; empty if it did not, or nobody has counted.

    Whether it did more, or the machine was slower, only counters of the hardware tell.
    """
    ordinary = evidence.ordinary(flag)
    if ordinary is None:
        return ""
    now, usual = dict(flag.worked), dict(ordinary.worked)
    ran_us, usual_us = now.get(Work.CPU_TIME, 0), usual.get(Work.CPU_TIME, 0)
    activity = evidence.activity(flag)
    waited_us = activity.usual_wait_us if activity is not None else 0.0
    if ran_us - usual_us - UNCERTAIN_US < RAN_SHARE * (flag.excess_us - waited_us):
        return ""
    said = f"{duration(ran_us)} of CPU time{_instead_of(duration(usual_us) if usual_us else '')}"
    faults, usual_faults = now.get(Work.FAULTS, 0), usual.get(Work.FAULTS, 0)
    if FAULT_US * (faults - usual_faults) >= LEAST_SHARE * flag.excess_us:
        usually = f"{usual_faults:,}" if usual_faults else ""
        said += f", {number_of(faults, 'page faults')}{_instead_of(usually)}"
    return said


def _instead_of(usual: str) -> str:
    return f" instead of {usual}" if usual else ""


OWN_CODE = Cause(
    id="own code",
    colour="program",
    text="with no wait on record",
    claim=own_code,
    is_by_amount=True,
    clause=lambda part, rank: f"as it ran longer ({part.by})" if part.by else "",
)
OFF_CORE = Cause(
    id="off its core",
    colour="unexplained",
    text="while its thread did not run: it slept, or waited for a core, which no look has seen",
    claim=off_core,
    clause=lambda part, rank: f"as its thread did not run for {duration(part.lost_us)}",
)
NOT_EXPLAINED = Cause(
    id="not explained", colour="unexplained", text="for a reason that is not on record", is_wait=True
)
