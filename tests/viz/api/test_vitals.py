"""Whether the findings can be trusted."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.write.writer import Writer
from tests.viz.api.conftest import Api
from tests.viz.made_run import LOST_STEPS, MadeRun, make_run, store


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
    census = body["census"]
    assert (census["verdict"], census["differences"]) == (
        "incomplete",
        {"in steps that were never read": 640},
    )
    assert (census["analysed"], census["seen"]) == (sums["calls"], sums["calls"] + 640)
    assert census["ranks"][0] == {
        **{"stream": "0:2", "source": "the recorder", "unended": 0},
        **{"seen": streams[2].calls + 640, "analysed": streams[2].calls},
        "differences": {"in steps that were never read": 640},
    }


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
    expected = [
        msgspec.structs.asdict(stream) | {"source": stream.source and msgspec.structs.asdict(stream.source)}
        for stream in finished.health()
    ]
    assert api.ask("streams?sort=rank").json["streams"] == expected


@pytest.mark.parametrize("sort", ["rows", "largest_step_bytes"])
def test_streams_in_other_orders(api: Api, sort: str) -> None:
    values = [stream[sort] for stream in api.ask(f"streams?sort={sort}").json["streams"]]
    assert values == sorted(values, reverse=True)


def test_streams_of_one_state(api: Api) -> None:
    assert api.ask("streams?state=ended").json["total"] == 5
    assert api.ask("streams?state=broken").json == {"ok": True, "streams": [], "next": None, "total": 0}


def test_gaps_are_the_steps_that_are_not_there(api: Api, finished: MadeRun) -> None:
    body = api.ask("gaps").json
    assert body["last_step"] == max(step.step for step in finished.steps)
    assert body["lossy_ranks"] == len(LOST_STEPS)
    (lost,) = LOST_STEPS.items()
    rank, steps = lost
    assert body["ranks"] == [
        {"rank": f"0:{rank}", "gap_steps": len(steps), "gaps": [[steps[0], steps[-1]]], "gaps_total": 1}
    ]


def test_gaps_of_several_ranks_and_before_the_first_step(tmp_path: Path) -> None:
    made = make_run(tmp_path / "gaps", stored_steps=0)
    engine = open_for_writing(made.directory.read_info().store_url)
    writer = Writer(engine, made.directory.read_info().id)
    kept = {0: {3, 4, 9}, 1: set(range(10)), 2: {0, 2, 3}}
    made.steps[:] = [step for step in made.steps if step.step in kept.get(step.rank, set())]
    made.records.clear()
    store(writer, made, 0, 10)
    engine.dispose()
    with open_run(made.directory) as provenance:
        assert provenance.steps.gaps([(0, 0), (0, 1), (0, 2)]) == {
            (0, 0): [(0, 2), (5, 8)],
            (0, 1): [],
            (0, 2): [(1, 1)],
        }
