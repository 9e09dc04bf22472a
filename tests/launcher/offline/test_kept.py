"""Calls that are kept to be explained again: the newest revision of each, and none of too many."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from chimbuko.launcher.offline import kept as module
from chimbuko.launcher.offline.kept import KeptCalls
from chimbuko.provenance.write.events import CallsStored
from tests.causes.stories import ORIGIN, chain
from tests.sample_records import make_batches


def test_the_newest_revision_of_each_call_is_kept_and_none_of_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", len(chain()))
    kept = KeptCalls()
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
