"""One stop is one incident, and what was lost counts once, whatever of it is on record."""

from __future__ import annotations

import pytest

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.incident import Incident
from chimbuko.causes.incidents.tracker import IncidentTracker
from chimbuko.core.calls.record import CallRecord
from chimbuko.monitor.sampling.nodebatch import NodeBatch
from tests.causes.flagged import flag, record
from tests.causes.losses import loss, shared
from tests.causes.nodes import batch, ticks


def incidents(
    flags: list[Flag], *samples: NodeBatch, others: list[CallRecord] | None = None
) -> list[Incident]:
    tracker = IncidentTracker()
    for one in others or []:
        tracker.put_communication(one)
    for some in samples:
        tracker.put_samples(some)
    tracker.put(flags)
    return tracker.update().incidents


@pytest.mark.parametrize("has_loss", [False, True], ids=["samples of the call alone", "loss by looks"])
@pytest.mark.parametrize("ends_ms", [302, 330, 420])
def test_a_stop_and_the_wait_for_it_are_one_incident(has_loss: bool, ends_ms: int) -> None:
    """The stopped call ends later than the wait, as it goes on; looks see the stop end up to 20 ms late."""
    stopped = flag("timestep", 0, 0, ends_ms)
    wait = record("MPI_Recv()", 1, 0, 303, received_from=[0], number=7)
    sent = record("MPI_Send()", 0, 0, 1, sends_after=[(1, 301.9)], number=7)
    losses = [loss(0, 0, 320, 300, True)] if has_loss else []
    stop = batch(
        [*ticks(0, 0, 300, state=b"T", ran_us=0), *ticks(0, 300, 440), *ticks(1, 0, 320)], losses=losses
    )
    (one,) = incidents(
        [stopped, flag("MPI_Recv()", 1, 0, 303, received_from=[0], number=7)], stop, others=[wait, sent]
    )
    assert (one.kind, one.rank, one.ranks) == ("stopped", 0, 2)


def test_a_loss_counts_what_lies_in_no_call_of_any_incident() -> None:
    """Two calls of a rank lost most of what it lost by samples, for other reasons than its core alone."""
    lost = shared(loss(1, 0, 1000, 500))
    calls = [flag("compute", 1, 0, 240), flag("pack", 1, 500, 740)]
    found = incidents(calls, lost)
    assert sum(one.cost_us for one in found) <= 500_000 + 2_000


def test_a_loss_that_lies_in_calls_of_other_incidents_is_none_itself() -> None:
    calls = [flag("compute", 1, 0, 300), flag("pack", 1, 500, 800)]
    found = incidents(calls, shared(loss(1, 0, 1000, 500)))
    assert [one.is_loss for one in found] == [False, False]
