"""Metadata and counters."""

from __future__ import annotations

from chimbuko.provenance.query.filters import as_object
from chimbuko.provenance.query.run import Provenance
from tests.viz.api.conftest import Api
from tests.viz.made_run import RANKS


def test_metadata_in_pages(api: Api, provenance: Provenance) -> None:
    found, cursor = [], ""
    while cursor is not None:
        body = api.ask(f"metadata?limit=2{cursor and '&cursor=' + cursor}").json
        assert body["total"] == RANKS
        found += body["metadata"]
        cursor = body["next"]
    assert found == as_object(provenance.metadata())
    assert api.ask("metadata?cursor=99").json["metadata"] == []


def test_metadata_of_one_rank(api: Api) -> None:
    (found,) = api.ask("metadata?rank=3").json["metadata"]
    assert found == {"program": 0, "rank": 3, "thread": 0, "key": "Hostname", "value": "node1"}
    assert api.ask("metadata?rank=3&program=1").json["metadata"] == []


def test_counters(api: Api) -> None:
    body = api.ask("counters").json
    assert body["total"] == RANKS and body["next"] is None
    (found,) = api.ask("counters?rank=2").json["counters"]
    assert found == {
        "program": 0,
        "rank": 2,
        "counter": "Message size sent to all nodes",
        "values": 60,
        "mean": 8_194.0,
        "stddev": 0.0,
        "minimum": 8_194.0,
        "maximum": 8_194.0,
    }
