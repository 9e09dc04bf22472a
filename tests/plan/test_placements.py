"""What a step takes with the analysis in each place, against equations 4 and 5 and a simulation."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from chimbuko.plan.normalform import PerformanceModel, parse_form
from chimbuko.plan.placingadvice import NodeLoad, Placement, Where, outcome, outcomes
from chimbuko.plan.placingcosts import Slowdown, usual
from chimbuko.plan.prediction import predict
from chimbuko.plan.workflow import Group, Phases, Task, Workflow
from chimbuko.plan.workflow import Placement as Groups

EQUATIONS = Slowdown()
"""As they are, whatever was measured."""
LOADS = st.builds(
    NodeLoad,
    cores=st.integers(1, 128),
    application_cores=st.integers(1, 128),
    step_s=st.floats(0.01, 10),
    streams=st.integers(1, 128),
    analysis_s=st.floats(0, 5),
).filter(lambda load: load.application_cores <= load.cores)


@given(LOADS)
def test_a_full_node_is_the_synchronous_equation(load: NodeLoad) -> None:
    full = NodeLoad(load.cores, load.cores, load.step_s, load.streams, load.analysis_s)
    work_s = full.step_s * full.cores
    workflow = Workflow(
        1000,
        Phases(PerformanceModel(parse_form(f"{work_s!r} / cores"))),
        (Task("analysis", Phases(PerformanceModel(parse_form(f"{full.analysis_s!r} / cores"))), 1),),
        "cores",
        full.cores,
    )
    predicted = predict(workflow, Groups()).step_s
    assert outcome(full, Placement(Where.SHARED, full.cores), EQUATIONS).step_s == pytest.approx(predicted)
    if full.cores > 1:
        # Equation 5 takes the slower side; here that shows as a share above 1.
        own = outcome(full, Placement(Where.OWN, 1), EQUATIONS)
        groups = Groups((Group(("analysis",), 1),))
        assert max(own.step_s, own.busy_share * own.step_s) == pytest.approx(predict(workflow, groups).step_s)


@given(LOADS)
def test_the_best_is_first_and_nothing_is_faster_than_without(load: NodeLoad) -> None:
    found = outcomes(load, EQUATIONS)
    assert {one.placement for one in found} >= {Placement(Where.SHARED, load.cores)}
    keeping = [one for one in found if one.keeps_up]
    if keeping:
        assert found[0].step_s == pytest.approx(min(one.step_s for one in keeping), rel=1e-5)
    # What a share of a core is enough for, a core is.
    assert not found[0].placement.is_fraction
    assert all(one.added_share >= 0 for one in found)
    assert all(one.application_cores >= 1 for one in found)


@given(LOADS)
def test_more_to_analyse_is_never_faster(load: NodeLoad) -> None:
    more = NodeLoad(load.cores, load.application_cores, load.step_s, load.streams, 2 * load.analysis_s)
    for one in outcomes(load, EQUATIONS):
        assert outcome(more, one.placement, EQUATIONS).step_s >= one.step_s - 1e-12


@given(LOADS, st.sampled_from(list(Where)), st.floats(0.01, 0.99))
@example(NodeLoad(2, 2, 1.0, 2, 5.0), Where.SHARED, 0.99)
@example(NodeLoad(1, 1, 1.0, 1, 200.0), Where.SHARED, 0.99)
def test_a_quota_that_is_enough_changes_nothing_and_another_bounds_what_is_added(
    load: NodeLoad, where: Where, quota: float
) -> None:
    assume(load.cores > 1 or where is Where.SHARED)
    whole = outcome(load, Placement(where, load.cores if where is Where.SHARED else 1), EQUATIONS)
    limited = outcome(load, Placement(where, quota), EQUATIONS)
    if load.analysis_s <= quota * whole.step_s:
        assert limited.step_s == pytest.approx(whole.step_s)
        assert limited.busy_share <= 1 + 1e-9
    else:
        assert limited.busy_share > 1 - 1e-9
        # At most the quota's share of a core is lost to the application, by the equations.
        bare_s = load.step_s * load.application_cores / limited.application_cores
        assert limited.step_s <= min(whole.step_s, bare_s / (1 - quota)) * (1 + 1e-6)


def test_shares_of_a_core_come_after_whole_cores_that_add_as_much() -> None:
    load = NodeLoad(cores=16, application_cores=12, step_s=1.0, streams=12, analysis_s=0.4)
    order = [str(one.placement) for one in outcomes(load, EQUATIONS)]
    assert order.index("own=1") == 0 and order.index("own=0.5") > order.index("inside=1")
    # A quarter of a core is too little for four tenths of one.
    assert {str(one.placement) for one in outcomes(load, EQUATIONS) if not one.keeps_up} == {
        "shared=0.25",
        "inside=0.25",
        "own=0.25",
    }


def test_idle_cores_cost_nothing_and_bound_ranks_wait() -> None:
    load = NodeLoad(cores=16, application_cores=12, step_s=1.0, streams=12, analysis_s=0.4)
    best = outcomes(load, EQUATIONS)[0]
    assert best.placement == Placement(Where.OWN, 1)
    assert (best.added_share, best.busy_share) == (0.0, 0.4)
    assert outcome(load, Placement(Where.SHARED, 16), EQUATIONS).added_share == 0.0
    assert outcome(load, Placement(Where.INSIDE, 1), EQUATIONS).added_share == pytest.approx(0.4)


@pytest.mark.parametrize("slowdown", [EQUATIONS, Slowdown(1.3, 1.1, 0.1), usual().slowdown])
def test_idle_cores_are_the_analysis_own_whatever_caches_are_slower_by(slowdown: Slowdown) -> None:
    load = NodeLoad(cores=2, application_cores=1, step_s=0.5, streams=1, analysis_s=0.02)
    found = {one.placement.where: one for one in outcomes(load, slowdown)}
    assert outcomes(load, slowdown)[0].placement == Placement(Where.OWN, 1)
    assert found[Where.SHARED].step_s == pytest.approx(found[Where.OWN].step_s)
    assert found[Where.INSIDE].step_s > found[Where.OWN].step_s


def test_a_full_node_gives_cores_only_to_an_analysis_that_keeps_up_on_them() -> None:
    cheap = NodeLoad(cores=4, application_cores=4, step_s=1.0, streams=4, analysis_s=0.1)
    assert outcomes(cheap, EQUATIONS)[0].placement.where is Where.SHARED
    # Of 64 cores one is a 64th; a second and a half of analysis divided among all is more than that.
    costly = NodeLoad(cores=64, application_cores=64, step_s=1.0, streams=64, analysis_s=1.5)
    shared, own = (
        outcome(costly, Placement(Where.SHARED, 64), EQUATIONS),
        outcome(costly, Placement(Where.OWN, 1), EQUATIONS),
    )
    assert own.added_share < shared.added_share and not own.keeps_up
    assert outcomes(costly, EQUATIONS)[0].placement.where is Where.SHARED
