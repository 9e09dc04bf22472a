"""The tree of call paths."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.runtime.protocol.messages import PathStatistics
from chimbuko.viz.api.endpoints.functions import PathTree
from tests.viz.api.conftest import Api
from tests.viz.made_run import FUNCTIONS, MAIN, MadeRun

PATHS = st.dictionaries(
    st.tuples(st.integers(0, 1), st.lists(st.sampled_from("abc"), min_size=1, max_size=5).map(tuple)),
    st.integers(1, 100),
)


@given(PATHS)
def test_each_path_stands_once_below_its_caller(calls: dict[tuple[int, tuple[str, ...]], int]) -> None:
    tree = PathTree()
    for (program, functions), count in calls.items():
        tree.add_statistics(
            PathStatistics(program, list(functions), count, 1.0, 0.5, 0.1, 2.0, 3.0, 1.5, 0.3, 4.0)
        )
    found: list[tuple[int, tuple[str, ...]]] = []
    for place, node in enumerate(tree.nodes):
        above = () if node.parent is None else found[node.parent][1]
        assert node.parent is None or node.parent < place
        found.append((node.program, (*above, node.function)))
    assert len(set(found)) == len(found)
    reported = {path: node for path, node in zip(found, tree.nodes, strict=True) if node.calls}
    assert {path: node.calls for path, node in reported.items()} == calls
    assert all(node.inclusive is not None and node.inclusive.maximum_us == 4.0 for node in reported.values())
    # A path that is not reported is the caller of one that is.
    callers = {(program, functions[:n]) for program, functions in calls for n in range(1, len(functions))}
    assert set(found) - set(reported) <= callers


def test_abnormal_calls_stand_with_their_paths(api: Api, finished: MadeRun) -> None:
    nodes = api.ask("paths").json["paths"]
    assert sum(node["anomalies"] for node in nodes) == len(finished.anomalies)
    abnormal = [node for node in nodes if node["anomalies"]]
    assert {node["function"] for node in abnormal} == {call.function for call in finished.anomalies}
    for node in abnormal:
        caller = nodes[node["parent"]]
        assert caller["function"].startswith("time_step")
        assert nodes[caller["parent"]]["function"].startswith("main")
        assert nodes[caller["parent"]]["parent"] is None
        assert api.ask(f"calls?path={node['path']}").json["total"] == node["anomalies"]


def test_of_one_rank_is_known_what_its_calls_took_and_the_abnormal_ones_lost(
    api: Api, finished: MadeRun
) -> None:
    for rank in ("0:1", "0:2"):
        of_rank = [call for call in finished.anomalies if rank == f"{call.program}:{call.rank}"]
        nodes = api.ask(f"paths?rank={rank}").json["paths"]
        assert sum(node["anomalies"] for node in nodes) == len(of_rank) > 0
        assert sum(node["severity_us"] for node in nodes) == pytest.approx(
            sum(call.severity_us for call in of_rank)
        )
        assert {
            (node["function"], node["parent"]): (node["calls"], node["exclusive_us"])
            for node in nodes
            if node["calls"]
        } == {(MAIN, None): (1, 5e6), (FUNCTIONS[1], 0): (40, 40 * (8_500.0 + int(rank[2:])))}


def test_paths_of_one_function_come_with_their_callers_only(api: Api) -> None:
    nodes = api.ask("paths").json["paths"]
    name = next(node["function"] for node in nodes if node["anomalies"])
    found = api.ask(f"paths?function={quote(name)}&program=0").json["paths"]
    assert [node["function"] for node in found if node["anomalies"]] == [name]
    assert sum(node["anomalies"] for node in found) == api.ask(f"calls?function={quote(name)}").json["total"]
    assert {node["function"].split(" ")[0] for node in found if not node["anomalies"]} == {
        "main",
        "time_step",
    }
    assert api.ask(f"paths?function={quote(name)}&program=1").json["paths"] == []
    assert api.ask("paths?function=nothing").json["paths"] == []
