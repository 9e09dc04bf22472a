"""Incidents of calls, waits and losses that nobody thought of: whatever comes, in whatever order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from chimbuko.causes.evidence.flag import flag_of, may_matter
from chimbuko.causes.incident import Incident
from chimbuko.causes.incidents import tracker
from chimbuko.causes.incidents.grouping import root_of
from chimbuko.causes.incidents.interruptions import Interruptions
from chimbuko.causes.incidents.sentence import sentence
from chimbuko.causes.incidents.tracker import IncidentTracker
from chimbuko.core.calls.record import CallRecord
from chimbuko.monitor.sampling.nodebatch import NodeBatch
from chimbuko.provenance.write.inquiries import Inquiries
from tests.causes.flagged import at, flag, record
from tests.causes.losses import loss, shared

RANKS = 4
FUNCTIONS = (
    "compute",
    "relax",
    "MPI_Recv()",
    "MPI_Send()",
    "MPI_Wait()",
    "MPI_Allreduce()",
    "cudaLaunchKernel",
)
ranks = st.integers(0, RANKS - 1)
begins = st.sampled_from([0.0, 0.0, 10.0, 50.0, 200.0])
lengths = st.sampled_from([2.0, 50.0, 100.0, 101.0])
Thing = CallRecord | NodeBatch


@st.composite
def calls(draw: Any) -> CallRecord:
    """A call with messages, operations, children and callers that may fit those of others, or not."""
    begin_ms, rank = draw(begins), draw(ranks)
    end_ms = begin_ms + draw(lengths)
    children = [("inner", begin_ms + 1, end_ms - 1)] if draw(st.booleans()) else []
    around = draw(st.one_of(st.none(), begins))
    return record(
        draw(st.sampled_from(FUNCTIONS)),
        rank,
        begin_ms,
        end_ms,
        usual_ms=draw(st.sampled_from([1.0, 40.0])),
        received_from=draw(st.lists(ranks, max_size=2)),
        sent_to=draw(st.lists(ranks, max_size=1)),
        children=children,
        inside=[] if around is None else [(f"0:{rank}:1:{int(around * 10) + 1}", "around")],
        is_inclusive=draw(st.booleans()),
        number=draw(st.integers(0, 3)),
        enters=draw(st.lists(st.tuples(st.integers(1, 2), st.just(begin_ms)), max_size=1)),
    )


@st.composite
def losses(draw: Any) -> NodeBatch:
    """Ranks that their node kept from running."""
    found = []
    for rank in draw(st.sets(ranks, min_size=1, max_size=3)):
        begin_ms, length_ms = draw(begins), draw(lengths)
        found.append(loss(rank, begin_ms, begin_ms + length_ms, length_ms * 0.8, draw(st.booleans())))
    return shared(*found, by=draw(st.sampled_from(["spinner", ""])))


things: st.SearchStrategy[list[list[Thing]]] = st.lists(
    st.lists(st.one_of(calls(), calls(), losses()), min_size=1, max_size=5), min_size=1, max_size=4
)


def put(found: IncidentTracker, some: Sequence[Thing]) -> None:
    for one in some:
        if isinstance(one, NodeBatch):
            found.put_samples(one)
            continue
        found.put_communication(one)
        made = flag_of(one)
        if may_matter(made):
            found.put([made])
        else:
            found.evidence.put_ordinary(made)


@given(things, st.booleans())
def test_whatever_comes_makes_incidents_that_can_be_told(batches: list[list[Thing]], forgets: bool) -> None:
    found = IncidentTracker()
    short, inquiries = Interruptions(), Inquiries(found.evidence)
    known: dict[int, Incident] = {}
    for number, some in enumerate(batches):
        put(found, some)
        changes = found.update()
        assert changes.failed == []
        short.take(changes)
        inquiries.take(changes, float(number))
        inquiries.due(float(number), is_urgent=True)
        for gone in (*changes.merged, *changes.gone):
            known.pop(gone, None)
        known |= {one.number: one for one in changes.incidents}
        if forgets:
            found.forget_before(at(50.0 * number))
    for one in known.values():
        assert sentence(one)
        assert one.call_id or one.waited or one.losses
        assert one.call_id or one.waited or one.is_loss, "a loss alone is the origin"
    told = Counter(call_id for one in known.values() for call_id in members(one))
    # A call that comes again after its incident was let go of is a new one.
    assert forgets or not [call_id for call_id, times in told.items() if times > 1]


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("abcdef"), min_size=6),
    st.lists(st.booleans(), min_size=6, max_size=6),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_calls_that_lead_to_each_other_in_a_circle_have_one_root(
    leads: dict[str, str], are_flagged: list[bool], are_waits: list[bool]
) -> None:
    flags = {
        name: replace(
            flag("MPI_Recv()" if is_wait else "compute", 0, n, n + 100), id=name, is_flagged=is_flagged
        )
        for n, (name, is_flagged, is_wait) in enumerate(zip("abcdef", are_flagged, are_waits, strict=True))
    }
    roots = {name: root_of(name, leads, flags) for name in flags}
    assert all(root_of(root, leads, flags) == root for root in roots.values())


def test_incident_that_cannot_be_told_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(incident: Incident) -> str:
        if incident.function == "relax":
            raise ValueError("no words for this")
        return sentence(incident)

    monkeypatch.setattr(tracker, "sentence", refusing)
    found = IncidentTracker()
    found.put([flag("compute", 0, 0, 100), flag("relax", 1, 500, 600), flag("pack", 2, 900, 999)])
    changes = found.update()
    assert [one.function for one in changes.incidents] == ["compute", "pack"]
    assert changes.failed == ["0:1:1:5001: ValueError: no words for this"]
    monkeypatch.undo()
    found.put([flag("relax", 1, 500, 601)])
    changes = found.update()
    assert [(one.function, one.number > 0) for one in changes.incidents] == [("relax", True)]
    assert changes.failed == []


def test_call_that_was_alone_gets_a_number_with_the_incident_that_it_joins() -> None:
    found = IncidentTracker()
    found.put([replace(flag("compute", 3, 0, 100), is_flagged=False), flag("MPI_Recv()", 2, 5, 101)])
    (one,) = found.update().incidents
    # It turns out to be ordinary, and then to be none of that again.
    waited = flag("MPI_Recv()", 2, 5, 101)
    found.evidence.remove(waited.id)
    found.put([replace(waited, is_flagged=False)])
    assert found.update().gone == [one.number]
    found.put([flag("compute", 3, 0, 100)])
    (again,) = found.update().incidents
    assert again.number > 0


def members(one: Incident) -> list[str]:
    """Calls and losses of an incident."""
    own = [one.call_id] if one.call_id else []
    return [*own, *(call.call_id for call in one.waited), *(lost.id for lost in one.losses)]
