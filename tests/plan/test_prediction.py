"""Predictions against the paper's use cases, against numbers by hand, and against a simulation of events."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.core.errors import ConfigError
from chimbuko.plan.normalform import PerformanceModel, parse_form
from chimbuko.plan.prediction import interval, predict
from chimbuko.plan.workflow import Group, Phases, Placement, Task, Workflow, parse_placement
from tests.plan.discreteevent import Stream, Worker, play

IMAGE = "3.8060 + 8.2481 / sqrt(ranks)"


def model(text: str) -> PerformanceModel:
    return PerformanceModel(parse_form(text))


def phases(step: str, init: str = "0", final: str = "0") -> Phases:
    return Phases(model(step), model(init), model(final))


NEK5000 = Workflow(
    steps=1000,
    application=phases("6.4e-3 + 2.7110e3 / ranks"),
    tasks=(Task("compressed", phases(IMAGE), 2), Task("original", phases(IMAGE), 4)),
    parameter="ranks",
    total=1728,
)
SMALL = Workflow(
    steps=10,
    application=phases("8 / ranks", "3", "1"),
    tasks=(Task("one", phases("4 / ranks", "0.5", "0.25"), 2, model("0.125")), Task("two", phases("1"), 5)),
    parameter="ranks",
    total=8,
)


@pytest.mark.parametrize(
    ("placement", "step_s"),
    [
        ("all=sync", 4.5786),
        ("original=48 compressed=sync", 3.6237),
        ("compressed=48", 2.6219),
        ("compressed=48 original=48", 2.4983),
        ("compressed=2x48 original=48", 1.7179),
        ("compressed+original=3x48", 1.7179),
    ],
)
def test_use_case_b_takes_what_the_published_models_say(placement: str, step_s: float) -> None:
    found = predict(NEK5000, parse_placement(placement, NEK5000))
    assert found.step_s == pytest.approx(step_s, abs=5e-5)
    assert found.bare_step_s == pytest.approx(1.5753, abs=5e-5)


def test_who_is_waited_for_is_said() -> None:
    assert predict(NEK5000, parse_placement("compressed=48 original=48", NEK5000)).bound_by == "compressed=48"
    assert predict(NEK5000, parse_placement("compressed=2x48 original=48", NEK5000)).bound_by == "application"


def test_synchronous_is_equation_4() -> None:
    """(3 + 0.5) + 10·(1 + 0.5/2 + 1/5) + (1 + 0.25) on all 8."""
    found = predict(SMALL, Placement())
    assert found.total_s == pytest.approx(3.5 + 10 * (1 + 0.5 / 2 + 1 / 5) + 1.25)
    assert (found.approach, found.transfer_s) == ("synchronous", 0.0)


def test_hybrid_is_equation_7() -> None:
    """``one`` on 4 of 8, every 2 steps; ``two`` inside."""
    found = predict(SMALL, parse_placement("one=4", SMALL))
    step_s = 8 / 4 + 1 / 5
    begin_s = max(3 + 2 * step_s, 0.5)
    assert found.total_s == pytest.approx(
        begin_s + (10 - 2) * max(step_s, 1 / 2) + max(1, 1 + 0.25) + 10 / 2 * 0.125
    )
    assert found.approach == "hybrid"


def test_asynchronous_is_equation_5() -> None:
    alone = Workflow(10, SMALL.application, SMALL.tasks[:1], "ranks", 8)
    found = predict(alone, parse_placement("one=1", alone))
    assert found.total_s == pytest.approx(
        max(3 + 2 * 8 / 7, 0.5) + 8 * max(8 / 7, 4 / 2) + max(1, 4 + 0.25) + 5 * 0.125
    )
    assert found.approach == "asynchronous"


def test_use_case_a_is_faster_with_compression_on_idle_cores() -> None:
    """QE on 4 GPUs with 12 ranks of 4 cores; 24 of the node's 72 cores have nothing to do."""
    qe = Workflow(
        steps=100,
        application=phases(
            "30.705 + 1.3981 * log2(gpus)^0.5 * log2(ranks) * log2(threads)^0.5"
            " - 2.8021 * log2(ranks) * log2(threads)^0.5 - 13.7530 * log2(gpus)^0.5"
        ),
        tasks=(Task("compression", phases("-11.605 + 205.01318 * ranks^-0.8"), 10),),
        parameter="ranks",
        total=24,
        application_constants={"gpus": 4, "ranks": 12, "threads": 4},
    )
    inside, beside = (predict(qe, parse_placement(text, qe)) for text in ("all=sync", "compression=8"))
    assert inside.application.step_s > beside.application.step_s == pytest.approx(7.073, abs=5e-4)
    assert beside.total_s < inside.total_s
    assert beside.bound_by == "application"
    assert all(side.efficiency > 0.8 for side in beside.groups)


STEPS = 3000
EVERY = st.sampled_from([1, 2, 5, 10])


@settings(max_examples=40, deadline=None)
@given(
    step_s=st.floats(0.1, 2.0),
    inside_s=st.floats(0.0, 3.0),
    beside=st.lists(st.tuples(EVERY, st.floats(0.05, 30.0), st.integers(1, 3)), max_size=2),
)
def test_it_agrees_with_a_simulation_of_events(
    step_s: float, inside_s: float, beside: list[tuple[int, float, int]]
) -> None:
    """Within 1 %, with one piece of data waiting for each group at most."""
    tasks = [Task("inside", phases(repr(inside_s)), 1)]
    groups, streams = [], []
    for at, (every, execution_s, count) in enumerate(beside):
        tasks.append(Task(f"beside{at}", phases(repr(execution_s)), every))
        groups.append(Group((f"beside{at}",), 1, count))
        streams.append(Stream(every, [Worker(execution_s) for _ in range(count)]))
    workflow = Workflow(STEPS, phases(repr(step_s)), tuple(tasks), "ranks", 16)
    found = predict(workflow, Placement(tuple(groups)))
    assert found.total_s == pytest.approx(play(STEPS, step_s + inside_s, streams), rel=0.01)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.1, 2.0), EVERY, st.floats(0.05, 30.0), st.floats(0.0, 3.0))
def test_transfers_hold_up_both_sides(
    step_s: float, every: int, execution_s: float, transfer_s: float
) -> None:
    """As simulated where a group receives only when it has nothing else to do."""
    task = Task("beside", phases(repr(execution_s)), every, model(repr(transfer_s)))
    workflow = Workflow(STEPS, phases(repr(step_s)), (task,), "ranks", 16)
    found = predict(workflow, parse_placement("beside=1", workflow))
    played_s = play(STEPS, step_s, [Stream(every, [Worker(execution_s)], transfer_s)])
    assert found.total_s == pytest.approx(played_s, rel=0.01)


def test_a_prediction_is_clamped_and_says_where() -> None:
    fitted = Phases(PerformanceModel(parse_form("8 / ranks"), {"ranks": (2.0, 4.0)}))
    found = predict(Workflow(10, fitted, (), "ranks", 8), Placement())
    assert found.step_s == 2.0
    assert found.clamps == ("application: ranks = 8 is taken as 4, the end of what was measured",)


def test_published_coefficients_have_no_interval_and_replicates_have() -> None:
    assert interval(NEK5000, Placement()) is None
    forms = tuple(parse_form(f"{coefficient} / ranks") for coefficient in (7.0, 8.0, 9.0))
    fitted = Phases(PerformanceModel(parse_form("8 / ranks"), {}, forms))
    low, high = interval(Workflow(10, fitted, (), "ranks", 8), Placement()) or (0.0, 0.0)
    assert 8.75 <= low < 10.0 < high <= 11.25


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("three=2", "no task 'three'; tasks are one, two"),
        ("one=2 one=sync", "'one' is placed twice"),
        ("one=8", "takes 8 of 8 ranks; there is room for 7"),
        ("one=0", "a group has 1"),
        ("one", "not a placement"),
        ("one=-2", "not a placement"),
        ("all=sync one=2", "no task 'all'"),
    ],
)
def test_a_placement_that_is_none_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_placement(text, SMALL)


@pytest.mark.parametrize("text", ["all=sync", "one=2", "one=2x3 two=1", "one+two=3"])
def test_a_placement_is_written_as_it_is_read(text: str) -> None:
    placement = parse_placement(text, SMALL)
    assert parse_placement(str(placement), SMALL) == placement


def test_a_parameter_without_a_value_is_named() -> None:
    with pytest.raises(ConfigError, match="no value of 'gpus'"):
        predict(Workflow(1, phases("1 / gpus"), (), "ranks", 4), Placement())
