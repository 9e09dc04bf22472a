"""Why some calls were slow, as far as what is stored of their nodes says."""

from __future__ import annotations

from collections.abc import Sequence

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import flag_of
from chimbuko.causes.evidence.nodeevidence import AROUND_US
from chimbuko.causes.kinds.split import split
from chimbuko.causes.part import Part
from chimbuko.core.calls.record import CallRecord
from chimbuko.provenance.nodes.nodesamples import FOREVER_US, NodeSamples
from chimbuko.provenance.query.reader import RunReader


def evidence_of(reader: RunReader, calls: Sequence[CallRecord]) -> Evidence:
    """Calls with what their nodes did meanwhile, and usually do.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    samples, evidence = NodeSamples(reader), Evidence()
    for call in calls:
        evidence.put(flag_of(call))
        for batch in samples.batches(call.entry_us - AROUND_US, _end_us(call) + AROUND_US, node=call.node):
            evidence.put_samples(batch)
    for node in {call.node for call in calls}:
        for batch in samples.batches(0, FOREVER_US, is_sum=True, node=node):
            evidence.put_samples(batch)
    return evidence


def parts_of(evidence: Evidence) -> list[Part]:
    """What all its calls together lost; ranks may have lost more meanwhile, in no call."""
    calls = [flag for flag in evidence.flags.values() if flag.loss is None]
    return [part for flag in calls for part in split(flag, evidence)]


def _end_us(call: CallRecord) -> int:
    return call.exit_us or call.entry_us + call.inclusive_us
