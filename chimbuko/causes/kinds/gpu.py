"""Causes that lie on the GPU: a call waited for one there, or the GPU was slower or busier than usual."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.evidence import LEAST_SHARE, SLACK_US, Evidence
from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.nodeevidence import GpuActivity
from chimbuko.causes.kinds.cause import Cause
from chimbuko.causes.part import Part
from chimbuko.causes.wording import duration
from chimbuko.core.calls.waiting import puts_into_gpu_queue, waits_for_gpu
from chimbuko.core.units import number_of

THROTTLED, BUSY = 0.5, 0.8
"""Share of the lost time in which a GPU was throttled or busy, from which that is a cause."""
MORE = 0.3
"""Excess of that share over the usual one that a cause needs: what is always so makes no call slower."""
AT_WORK = 0.2
"""Share of the lost time in which kernels must have run on a GPU for its throttling to slow down a call."""


def waited_for_gpu(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the wait of a call that waits until the GPU has done its work."""
    if waits_for_gpu(flag.function):
        yield from _wait(WAITED_FOR_GPU.id, flag, evidence)


def gpu_queue_full(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the wait of a call that gives work to a GPU which has no room for more."""
    if puts_into_gpu_queue(flag.function):
        yield from _wait(GPU_QUEUE_FULL.id, flag, evidence)


def _wait(kind: str, flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the wait for the abnormal call on the GPU that covers most of it."""
    if flag.is_gpu:
        return
    lost_us = {
        one.id: min(flag.overlap_us(one), one.excess_us, flag.excess_us)
        for one in evidence.on_gpu(flag)
        if one.common_exit_us <= flag.common_exit_us + SLACK_US
    }
    call_id = max(lost_us, key=lambda one: (lost_us[one], one), default="")
    if call_id and lost_us[call_id] >= LEAST_SHARE * flag.excess_us:
        yield Part(kind, lost_us[call_id], evidence.flags[call_id].function, call_id=call_id)


def waited_for_unknown_gpu_call(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the whole excess: the call on the GPU is not abnormal, or not in the trace."""
    if waits_for_gpu(flag.function):
        yield Part(WAITED_FOR_GPU.id, flag.excess_us)


def slow_gpu(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield what the one GPU explains that explains most; throttling goes before other load."""
    if flag.is_wait:
        return
    found = [part for one in evidence.nodes.gpus(flag) if (part := _slowed_by(one, flag)) is not None]
    if found:
        yield max(found, key=lambda part: (part.kind == GPU_THROTTLED.id, part.lost_us))


def _slowed_by(activity: GpuActivity, flag: Flag) -> Part | None:
    now, usual, by = activity.now, activity.usual, f"GPU {activity.number}"
    if now.throttled >= max(THROTTLED, usual.throttled + MORE) and now.busy >= AT_WORK:
        return Part(GPU_THROTTLED.id, now.throttled * flag.excess_us, by=by)
    if now.busy >= max(BUSY, usual.busy + MORE):
        shared = activity.foreign
        return Part(GPU_BUSY.id, now.busy * flag.excess_us, by=by, is_foreign=shared > 0, count=shared)
    return None


def _clause_of_wait(part: Part, rank: int | None) -> str:
    return "" if part.function else f"as it waited {duration(part.lost_us)} for what the GPU had to do"


def _clause_of_busy(part: Part, rank: int | None) -> str:
    others = f", with {number_of(part.count, 'programs')} of others on it" if part.count else ""
    return f"as {part.by} had more to do than usual for {duration(part.lost_us)}{others}"


def _clause_of_throttled(part: Part, rank: int | None) -> str:
    return f"as {part.by} was slowed down for {duration(part.lost_us)}, for heat or by its power supply"


WAITED_FOR_GPU = Cause(
    id="waited for GPU",
    colour="node",
    text="until {function|its work} had ended on the GPU",
    is_wait=True,
    find=waited_for_gpu,
    claim=waited_for_unknown_gpu_call,
    clause=_clause_of_wait,
)
GPU_QUEUE_FULL = Cause(
    id="GPU queue full",
    colour="node",
    text="until the GPU could take more work, behind {function}",
    is_wait=True,
    find=gpu_queue_full,
)
GPU_BUSY = Cause(
    id="GPU busy",
    colour="node",
    text="as {by} had more to do than usual[, with {count program} of others on it]",
    is_in_node=True,
    find=slow_gpu,
    clause=_clause_of_busy,
    recurring="had a GPU with more to do than usual",
)
GPU_THROTTLED = Cause(
    id="GPU throttled",
    colour="node",
    text="as {by} was slowed down, for heat or by its power supply",
    is_in_node=True,
    find=slow_gpu,
    clause=_clause_of_throttled,
    recurring="had a GPU that was slowed down",
)
