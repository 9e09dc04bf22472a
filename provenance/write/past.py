"""Past of a run, as far as it may have to do with what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chimbuko.causes.incident import Incident
from chimbuko.core.calls.record import CallRecord
from chimbuko.monitor.samples.nodebatch import NodeBatch
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.nodes.nodesamples import FOREVER_US, NodeSamples
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance


@dataclass(frozen=True)
class Past:
    """Past of a run that an earlier writer stored."""

    last_number: int = 0
    """Number of the newest incident; 0 without any."""
    incidents: Sequence[Incident] = ()
    """Incidents that may grow."""
    records: Sequence[CallRecord] = ()
    """Calls of these incidents, and of none."""
    samples: Sequence[NodeBatch] = ()

    @classmethod
    def read(cls, provenance: Provenance, length_us: int) -> Past:
        """Read what is stored of the last ``length_us``.

        Raises
        ------
        StoreError
            The store cannot be read.
        """
        found = Incidents(provenance.reader)
        last_number, known = found.last_number(), found.recent(length_us)
        if not known:
            return cls(last_number)
        since_us, ids = min(one.begin_us for one in known), {one.id for one in known}
        stored = provenance.calls.in_time(CallFilter(label=None, time_min_us=since_us))
        # Incidents that began before that stay as they are.
        records = [one for one in stored if not one.incident_id or one.incident_id in ids]
        return cls(
            last_number, known, records, list(NodeSamples(provenance.reader).batches(since_us, FOREVER_US))
        )
