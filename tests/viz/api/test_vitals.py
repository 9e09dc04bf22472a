"""Whether the findings can be trusted."""

from __future__ import annotations

import msgspec
import pytest

from chimbuko.provenance.queries import Provenance
from tests.viz.api.conftest import Api
from tests.viz.made_run import MadeRun


def test_the_whole_is_the_sum_of_its_streams(api: Api, finished: MadeRun, provenance: Provenance) -> None:
    body = api.ask("vitals").json
    streams = provenance.health()
    sums = body["sums"]
    assert sums["streams"] == len(streams) and sums["states"] == {"ended": len(streams)}
    for name in ("steps", "rows", "size_bytes", "calls", "gap_steps"):
        assert sums[name] == sum(getattr(stream, name) for stream in streams), name
    assert sums["losses"] == {"rows": 3} and sums["lossy_ranks"] == 1
    assert body["storage"]["trace_bytes"] == sums["size_bytes"]
    assert body["storage"]["stored_bytes"] >= finished.directory.store_path.stat().st_size > 0
    assert body["status"]["state"] == "ended"


def test_what_was_not_recorded_is_summed_by_function(api: Api, provenance: Provenance) -> None:
    body = api.ask("vitals").json
    assert body["unrecorded"] == [{"function": "MPI_Waitall()", "anomalies": 2}]
    assert body["unrecorded_total"] == sum(one.anomalies for one in provenance.dropped()) == 2
    assert (body["pruned"], body["pruned_total"]) == ([], 0)


def test_a_run_without_agents_says_so(api: Api) -> None:
    body = api.ask("vitals").json
    assert (body["agents"], body["agent_sums"], body["agents_total"], body["history"]) == ([], None, 0, [])


def test_streams_that_lost_most_come_first_in_pages(api: Api, finished: MadeRun) -> None:
    first = api.ask("streams?limit=2").json
    assert [stream["rank"] for stream in first["streams"]] == [2, 0]
    assert first["streams"][0]["gap_steps"] == 4 and first["total"] == 5
    second = api.ask(f"streams?limit=2&cursor={first['next']}").json
    assert [stream["rank"] for stream in second["streams"]] == [1, 3]
    expected = [msgspec.structs.asdict(stream) for stream in finished.health()]
    assert api.ask("streams?sort=rank").json["streams"] == expected


@pytest.mark.parametrize("sort", ["rows", "largest_step_bytes"])
def test_streams_in_other_orders(api: Api, sort: str) -> None:
    values = [stream[sort] for stream in api.ask(f"streams?sort={sort}").json["streams"]]
    assert values == sorted(values, reverse=True)


def test_streams_of_one_state(api: Api) -> None:
    assert api.ask("streams?state=ended").json["total"] == 5
    assert api.ask("streams?state=broken").json == {"ok": True, "streams": [], "next": None, "total": 0}
