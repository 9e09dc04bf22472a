"""Causes of what no other cause explains."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.work import Work
from chimbuko.causes.kinds.cause import Cause
from chimbuko.causes.kinds.spent import FAULT_US, LEAST_SHARE
from chimbuko.causes.part import Part
from chimbuko.causes.wording import duration
from chimbuko.core.calls.waiting import waits_for_gpu
from chimbuko.core.units import number_of

RAN_SHARE = 0.5
"""Share of the excess that further CPU time must make up, for a call to have been slow as it ran longer."""


def own_code(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the whole excess, unless the call is one in which ranks wait, or waits for a GPU."""
    if not (flag.is_wait or waits_for_gpu(flag.function)):
        yield Part(OWN_CODE.id, flag.excess_us, by=_ran(flag, evidence))


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
    if ran_us - usual_us < RAN_SHARE * flag.excess_us:
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
NOT_EXPLAINED = Cause(
    id="not explained", colour="unexplained", text="for a reason that is not on record", is_wait=True
)
