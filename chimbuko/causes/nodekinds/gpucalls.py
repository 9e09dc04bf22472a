"""A call waited for one on its process' GPU: until that was over, or until there was room for more."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import LEAST_SHARE, SLACK_US, Scene
from chimbuko.core.calls.waiting import puts_into_gpu_queue, waits_for_gpu


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """The wait, for the abnormal call on the GPU that covers most of it."""
    if flag.is_gpu or not (waits_for_gpu(flag.function) or puts_into_gpu_queue(flag.function)):
        return
    lost_us = {
        one.id: min(flag.overlap_us(one), one.excess_us, flag.excess_us)
        for one in scene.on_gpu(flag)
        if one.common_exit_us <= flag.common_exit_us + SLACK_US
    }
    call_id = max(lost_us, key=lambda one: (lost_us[one], one), default="")
    if call_id and lost_us[call_id] >= LEAST_SHARE * flag.excess_us:
        kind = Kind.GPU_CALL if waits_for_gpu(flag.function) else Kind.GPU_QUEUE
        yield Part(kind, lost_us[call_id], scene.flags[call_id].function, call_id=call_id)


def of_unknown(flag: Flag, scene: Scene) -> Iterator[Part]:
    """All that is left of a wait: for a call on the GPU that is not abnormal, or not in the trace."""
    if waits_for_gpu(flag.function):
        yield Part(Kind.GPU_CALL, flag.excess_us)
