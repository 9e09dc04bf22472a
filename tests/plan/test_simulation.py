"""The simulated pipeline: what queues must do, whatever the costs."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.plan.loads import READERS, SERVICES, Pipeline, Units, loads, measured
from chimbuko.plan.simulation import simulate
from tests.plan.costs import COSTS


def test_a_run_with_room_loses_nothing_and_is_not_behind() -> None:
    found = simulate(Pipeline(10_000), COSTS)
    assert [one.load.part for one in found.parts] == [READERS, *SERVICES]
    assert found.part("server").load.cores == pytest.approx(0.02 + 250 * 40e-6 + 10_000 * 20e-6)
    assert found.part(READERS).load.cores == pytest.approx(0.005 + 40 * 2e-3 + 40 * 5_000 * 1e-7)
    assert all(one.lost_share == 0.0 and one.behind_s < 0.1 for one in found.parts)
    assert found.put_off_share == 0.0
    # What it waits although it has time is in it, and what is before it in the queue hardly.
    assert 0.005 < found.part("server").lag_p50_s < 0.05
    assert 0.5 < found.store_lag_s < 0.6
    assert found.wire_bytes_per_s == pytest.approx(250 * 7e3 + 10_000 * 170)


def test_a_server_that_is_full_falls_behind_by_what_is_too_much() -> None:
    full, longer = Pipeline(80_000), Pipeline(80_000, period_s=5.0)
    found = simulate(full, COSTS, seconds=100)
    asked = found.part("server").load.cores
    assert asked == pytest.approx(1.7)
    assert found.put_off_share > 0.5
    # Steps wait: only messages are merged with one another.
    assert found.part("server").behind_s == pytest.approx(
        100 * (asked - 1.0 - 0.08 * found.put_off_share), rel=0.05
    )
    assert simulate(longer, COSTS).part("server").behind_s < 0.1


def test_readers_that_are_too_slow_lose_what_does_not_fit_into_files() -> None:
    run = Pipeline(40, rows_per_s=1e6)
    found = simulate(run, COSTS, seconds=3_600).part(READERS)
    assert found.load.share == pytest.approx(4.085)
    assert found.lost_share == pytest.approx(1.0 - 1.0 / 4.085, abs=0.01)
    # What waits is bounded, and is in the node's memory.
    assert found.memory_bytes - found.load.memory_bytes == pytest.approx(40 * 64e6, rel=0.2)
    enough = simulate(replace(run, agent_cores=6.0), COSTS, seconds=600).part(READERS)
    assert enough.lost_share == 0.0


def test_services_that_share_one_core_hold_one_another_up() -> None:
    run = Pipeline(10_000, findings_per_s=2.5)
    assert sum(one.cores for one in loads(run, COSTS)[1:]) > 1.0
    alone, shared = (simulate(replace(run, service_cores=cores), COSTS) for cores in (8.0, 1.0))
    assert shared.store_lag_s > alone.store_lag_s + 1.0
    # Those that ask for little get it at once all the same.
    assert shared.part("broker").behind_s < 0.1


@pytest.mark.parametrize(
    ("ranks", "service_cores"), [(1_000, 8.0), (40_000, 8.0), (200_000, 8.0), (2_000, 1.0)]
)
def test_steps_cost_more_where_a_core_idles_otherwise(ranks: int, service_cores: float) -> None:
    cold_s = 10e-6
    server = msgspec.structs.replace(
        COSTS.parts["server"], cpu_s=Units(second=0.02, message=40e-6, step=20e-6, cold_step=cold_s)
    )
    costs = msgspec.structs.replace(COSTS, parts=COSTS.parts | {"server": server})
    run = Pipeline(ranks, findings_per_s=0.0, service_cores=service_cores)
    warm, found = ({one.part: one.cores for one in loads(run, one)} for one in (COSTS, costs))
    asked = sum(found[part] for part in SERVICES) / service_cores
    busy = min(max(found["server"], asked), 1.0)
    assert found["server"] == pytest.approx(warm["server"] + cold_s * ranks * (1.0 - busy), rel=1e-4)
    # What a core has no time for is none that idles.
    assert (found["server"] == pytest.approx(warm["server"])) is (busy == 1.0)


def test_a_server_in_parts_has_a_share_of_the_ranks_and_all_messages() -> None:
    whole, parts = (
        {one.part: one.cores for one in loads(Pipeline(10_000, server_parts=count), COSTS)}
        for count in (1, 4)
    )
    assert parts["server"] == pytest.approx(0.02 + 250 * 40e-6 + 2_500 * 20e-6)
    assert parts["broker"] == pytest.approx(whole["broker"] + 3 * 250 * 100e-6)
    assert parts["writer"] == whole["writer"]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"period_s": 0.0}, "period_s: 0 is given; it is a positive number"),
        ({"rows_per_s": float("nan")}, "rows_per_s: nan is given"),
        ({"findings_per_s": -1.0}, "findings_per_s: -1 is given; it is 0 or more"),
        ({"agent_cores": float("inf")}, "agent_cores: inf is given"),
    ],
)
def test_a_run_that_cannot_be_gets_a_clear_line(wrong: dict[str, float], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Pipeline(10, **wrong)  # type: ignore[arg-type]


def test_the_costs_that_come_with_the_package_are_of_all_parts() -> None:
    costs = measured()
    assert set(costs.parts) == {READERS, *SERVICES}
    found = simulate(Pipeline(1_000), costs)
    assert all(0.0 < one.load.share < 1.0 and one.memory_bytes > 0.0 for one in found.parts)
