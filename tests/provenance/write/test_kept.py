"""Calls and incidents that are kept until the end of a run: the newest of each, and none of too many."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from chimbuko.causes.evidence.flag import flag_of
from chimbuko.causes.incident import Incident
from chimbuko.causes.incidents.tracker import Changes, IncidentTracker
from chimbuko.provenance.write import kept as module
from chimbuko.provenance.write.events import CallsStored
from chimbuko.provenance.write.kept import Kept
from tests.causes.stories import ORIGIN, chain
from tests.sample_records import make_batches


def test_the_newest_revision_of_each_call_is_kept_and_none_of_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", len(chain()))
    kept = Kept()
    (origin,) = (one for one in chain() if one.id == ORIGIN)
    later = replace(origin, revision=origin.revision + 1, severity_us=7.0)
    for some in (chain(), [later], [origin]):
        kept.take(CallsStored(0.0, make_batches(some)))
    assert kept.records.keys() == {one.id for one in chain()}
    assert kept.records[ORIGIN].severity_us == 7.0
    kept.take(CallsStored(0.0, make_batches([replace(origin, id="0:3:99:1")])))
    assert not kept.records
    kept.take(CallsStored(0.0, make_batches(chain())))
    assert not kept.records


def test_incidents_are_kept_as_they_are_now_and_go_to_the_store_where_they_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 2)
    kept = Kept()
    assert kept.hold(Changes([told(1), told(2)], {}, [], {"a": 1, "b": 2})) is None
    assert kept.hold(Changes([replace(told(1), cost_us=7.0)], {2: 1}, [], {"b": 1})) is None
    assert kept.hold(Changes([told(3)], {}, [], {"c": 3})) is None
    assert kept.hold(Changes([], {}, [3], {"c": 0})) is None
    assert kept.incidents == {1: replace(told(1), cost_us=7.0)}
    assert kept.left().incident_of == {"a": 1, "b": 1, "c": 0}
    everything = kept.hold(Changes([told(4), told(5)], {}, [], {"d": 4}))
    assert everything is not None and [one.number for one in everything.incidents] == [1, 4, 5]
    assert everything.incident_of == {"a": 1, "b": 1, "c": 0, "d": 4}
    assert kept.incidents is None and kept.left() == Changes([], {}, [], {})
    later = Changes([told(6)], {}, [], {"e": 6})
    assert kept.hold(later) is later


def told(number: int) -> Incident:
    """Return one of the chain's incident under a number."""
    tracker = IncidentTracker(number)
    tracker.put(map(flag_of, chain()))
    (one,) = tracker.update().incidents
    return one
