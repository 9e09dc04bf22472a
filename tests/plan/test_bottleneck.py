"""What is full first, and what helps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chimbuko.plan.bottleneck import ELSE, ROOM, bottleneck, full_at
from chimbuko.plan.loads import KEEPER, LEAF, READERS, Pipeline, loads
from chimbuko.plan.simulation import simulate
from tests.plan.costs import COSTS


def test_a_small_run_needs_nothing() -> None:
    found = bottleneck(Pipeline(1_000), COSTS)
    assert found.share < ROOM and found.remedy == ""


def test_the_server_is_full_at_what_its_costs_say_and_parts_help() -> None:
    found = bottleneck(Pipeline(60_000, findings_per_s=0.01), COSTS)
    assert found.part == "server"
    assert found.full_at_ranks == pytest.approx(0.98 / (20e-6 + 40e-6 / 40), abs=40)
    assert found.remedy == "--server-parts 2"


def test_what_helps_all_parts_is_found_where_one_change_is_not_enough() -> None:
    # With more findings the writer would be full whatever the period.
    found = bottleneck(Pipeline(100_000, findings_per_s=0.01, period_s=0.2), COSTS)
    assert found.part == "server"
    assert found.remedy == "--server-parts 2 --period 2"


def test_a_writer_that_is_full_of_findings_gets_others_beside_it() -> None:
    found = bottleneck(Pipeline(10_000, findings_per_s=10.0), COSTS)
    assert found.part == "writer"
    assert found.remedy == "--store-writers 2 --store postgresql://…"


def test_abnormal_calls_are_given_up_where_no_number_of_writers_is_enough() -> None:
    found = bottleneck(Pipeline(100_000, findings_per_s=100.0), COSTS)
    assert "of each node's abnormal calls (--threshold, --min-anomaly)" in found.remedy


def test_what_is_full_behind_the_fullest_is_helped_too() -> None:
    run = Pipeline(100_000, findings_per_s=10.0)
    assert {one.part for one in loads(run, COSTS) if one.share > ROOM} >= {"writer", "server"}
    found = bottleneck(run, COSTS)
    assert found.part == "writer"
    assert found.remedy == "--server-parts 2 --store-writers 8 --store postgresql://… --period 2"
    changed = replace(run, server_parts=2, store_writers=8, store="postgresql", period_s=2.0)
    assert all(one.share <= ROOM for one in loads(changed, COSTS))


def test_writers_of_sqlite_take_turns_and_those_of_postgresql_do_not() -> None:
    run = Pipeline(72_000, per_node=8, store_writers=8)
    shares = {
        store: next(one.share for one in loads(replace(run, store=store), COSTS) if one.part == "writer")
        for store in ("sqlite", "postgresql")
    }
    assert shares["postgresql"] < 0.5 < 1.0 < shares["sqlite"]
    assert simulate(replace(run, store="postgresql"), COSTS, 5.0).part(KEEPER).load.share < 0.6


def test_leaf_servers_take_the_messages_of_agents_off_the_server_and_a_cluster_off_its_broker() -> None:
    alone = Pipeline(72_000, per_node=8)
    leaves = replace(alone, leaf_servers=36)
    cluster = replace(leaves, broker_nodes=4)
    share = {
        run: {one.part: one.share for one in loads(run, COSTS)}
        for run in (alone, leaves, cluster, replace(alone, broker_nodes=4))
    }
    assert share[leaves]["server"] < share[alone]["server"] - 9_000 * 20e-6
    assert share[leaves][LEAF] < 0.2
    assert share[leaves]["broker"] > share[alone]["broker"] > 2 * share[cluster]["broker"]
    # Without leaf servers all keys of a run are on one node.
    assert share[replace(alone, broker_nodes=4)] == share[alone]
    assert simulate(replace(cluster, period_s=5.0, server_parts=2), COSTS, 5.0).model_lag_s > 0.1


def test_leaf_servers_are_found_where_parts_of_the_server_are_not_enough() -> None:
    found = bottleneck(Pipeline(20_000, per_node=1, findings_per_s=0.0, broker_nodes=8), COSTS)
    assert found.part == "broker"
    assert found.remedy == "--leaf-servers 80"


def test_what_nothing_helps_that_can_be_computed_gets_words() -> None:
    found = bottleneck(Pipeline(10_000_000, findings_per_s=0.0), COSTS)
    assert ELSE["server"] in found.remedy


def test_readers_need_cores_whatever_the_number_of_nodes() -> None:
    found = bottleneck(Pipeline(4_000, rows_per_s=500_000), COSTS)
    assert (found.part, found.full_at_ranks) == (READERS, None)
    assert found.remedy == "4 cores for each agent (--cores)"


def test_with_so_many_ranks_a_part_is_just_not_full() -> None:
    at = full_at("broker", Pipeline(1), COSTS)
    assert at is not None
    for ranks, is_full in ((at, False), (at + 40, True)):
        (share,) = (one.share for one in loads(Pipeline(ranks), COSTS) if one.part == "broker")
        assert (share > 1.0) is is_full
