"""Agents, cores, period and transport, from what a run has shown."""

from __future__ import annotations

import msgspec
import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.plan.placingadvice import Measured, Where, advise, points
from chimbuko.plan.placingcosts import Slowdown, UnitCosts
from chimbuko.runtime.protocol.telemetry import AgentLoad

EQUATIONS = Slowdown()
"""As they are, whatever was measured."""
COSTS = UnitCosts(0.008, 0.0035, 3e-7)


def loads(
    streams: int, rows_per_s: float, period_s: float = 1.0, factor: float = 1.0
) -> tuple[AgentLoad, ...]:
    """Of three intervals of ten seconds."""
    steps, rows = round(10 * streams / period_s), round(10 * rows_per_s)
    cpu_s = factor * COSTS.cpu_s(10, steps, rows)
    return (AgentLoad(10.0, streams, steps, rows, 50 * rows, cpu_s, 0.05),) * 3


def measured(
    agent: tuple[AgentLoad, ...], cores: int, busy: float = 0.0, bound: frozenset[int] = frozenset()
) -> Measured:
    return Measured("node1", (agent,), tuple(range(cores)), busy, "files", bound)


def test_idle_cores_that_no_rank_is_bound_to_are_taken() -> None:
    found = advise(measured(loads(6, 100_000), cores=8, busy=5.6, bound=frozenset(range(2, 8))), EQUATIONS)
    assert found.best.placement.where is Where.OWN
    assert (found.cores, found.agents, found.transport) == ("1", 1, "files")
    # How long it is follows from what steps cost.
    assert 1.0 <= found.period_s <= 10.0
    assert found.rows_per_s == pytest.approx(100_000)
    assert found.wait_s == pytest.approx(0.05)
    assert "a CPU quota of 0.25 of a core is enough for it there" in found.why
    assert found.load.step_s == pytest.approx(1.0)


def test_a_full_node_shares_all_cores_and_the_time_without_is_less_than_what_was_measured() -> None:
    found = advise(measured(loads(4, 400_000), cores=4), EQUATIONS)
    assert found.best.placement.where is Where.SHARED and found.cores == ""
    assert found.load.step_s + found.load.analysis_s / 4 == pytest.approx(1.0)
    assert found.best.step_s == pytest.approx(1.0)


def test_large_steps_are_made_shorter() -> None:
    found = advise(measured(loads(1, 200_000), cores=4), EQUATIONS)
    assert found.period_s == 0.5


def test_what_cannot_be_kept_up_with_goes_over_sst() -> None:
    found = advise(measured(loads(2, 100_000, factor=600), cores=2), EQUATIONS)
    assert not found.best.keeps_up and found.transport == "sst"
    assert not any("quota" in sentence for sentence in found.why)


def test_agents_of_a_node_are_added_up() -> None:
    both = Measured("node1", (loads(3, 50_000), loads(3, 50_000)), tuple(range(8)), 6.0, "files")
    one = advise(measured(loads(6, 100_000), cores=8, busy=6.0), EQUATIONS)
    found = advise(both, EQUATIONS)
    assert found.load.streams == 6
    assert found.rows_per_s == pytest.approx(one.rows_per_s)
    assert found.load.step_s == pytest.approx(one.load.step_s)
    # Each agent takes what an agent takes.
    assert found.load.analysis_s == pytest.approx(one.load.analysis_s, rel=0.4)


def test_intervals_are_set_beside_what_the_others_predict() -> None:
    found = points(loads(4, 10_000))
    assert len(found) == 3
    assert all(one.predicted_s == pytest.approx(one.measured_s, rel=0.1) for one in found)


def test_intervals_that_differ_widely_give_no_advice_but_ask_for_another_run() -> None:
    steady = advise(measured(loads(4, 100_000), cores=8, busy=4.0), EQUATIONS)
    low_s, high_s = steady.interval_s or (0.0, 0.0)
    assert low_s <= steady.load.analysis_s <= high_s < 1.2 * low_s
    steady.check_certain()
    busy = [loads(4, 100_000, factor=factor)[0] for factor in (1.0, 4.0, 0.9, 5.0)]
    found = advise(measured(tuple(busy), cores=8, busy=4.0), EQUATIONS)
    with pytest.raises(ConfigError, match="node1: no advice, since its intervals differ"):
        found.check_certain()


def test_one_interval_says_nothing_of_how_certain_it_is() -> None:
    found = advise(measured(loads(4, 100_000)[:1], cores=8, busy=4.0), EQUATIONS)
    assert found.interval_s is None and found.is_certain


def test_what_was_recorded_had_no_analysis_beside_it() -> None:
    live = measured(loads(4, 400_000), cores=4)
    found = advise(msgspec.structs.replace(live, is_bare=True), EQUATIONS)
    assert found.load.step_s == pytest.approx(1.0)
    assert advise(live, EQUATIONS).load.step_s < 0.99


def test_a_run_that_showed_nothing_gets_a_clear_line() -> None:
    with pytest.raises(ConfigError, match="node1: no agent has said"):
        advise(measured((), cores=2), EQUATIONS)
