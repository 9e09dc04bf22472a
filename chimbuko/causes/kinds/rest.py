"""Causes of what no other cause explains."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.kinds.cause import Cause
from chimbuko.causes.part import Part
from chimbuko.core.calls.waiting import waits_for_gpu


def own_code(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the whole excess, unless the call is one in which ranks wait, or waits for a GPU."""
    if not (flag.is_wait or waits_for_gpu(flag.function)):
        yield Part(OWN_CODE.id, flag.excess_us)


OWN_CODE = Cause(
    id="own code",
    colour="program",
    text="with no wait on record",
    claim=own_code,
)
NOT_EXPLAINED = Cause(
    id="not explained", colour="unexplained", text="for a reason that is not on record", is_wait=True
)
