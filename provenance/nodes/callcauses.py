"""Why some calls were slow, as far as what is stored of their nodes says."""

from __future__ import annotations

from collections.abc import Sequence

from chimbuko.causes.evidence.flag import flag_of
from chimbuko.causes.evidence.nodescene import AROUND_US
from chimbuko.causes.evidence.part import Part
from chimbuko.causes.evidence.scene import Scene
from chimbuko.causes.split import split
from chimbuko.core.calls.record import CallRecord
from chimbuko.provenance.nodes.nodesamples import FOREVER_US, NodeSamples
from chimbuko.provenance.query.reader import RunReader


def scene_of(reader: RunReader, calls: Sequence[CallRecord]) -> Scene:
    """Calls with what their nodes did meanwhile, and usually do.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    samples, scene = NodeSamples(reader), Scene()
    for call in calls:
        scene.put(flag_of(call))
        for batch in samples.batches(call.entry_us - AROUND_US, _end_us(call) + AROUND_US, node=call.node):
            scene.put_samples(batch)
    for node in {call.node for call in calls}:
        for batch in samples.batches(0, FOREVER_US, is_sum=True, node=node):
            scene.put_samples(batch)
    return scene


def parts_of(scene: Scene) -> list[Part]:
    """What all its calls together lost; ranks may have lost more meanwhile, in no call."""
    calls = [flag for flag in scene.flags.values() if flag.loss is None]
    return [part for flag in calls for part in split(flag, scene)]


def _end_us(call: CallRecord) -> int:
    return call.exit_us or call.entry_us + call.inclusive_us
