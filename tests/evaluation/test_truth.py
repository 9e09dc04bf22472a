"""The labelled runs of the detection suite: what they say of each call is what their streams hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.kernels.stack import NONE
from evaluation.injections import INJECTIONS
from evaluation.labelled import EPOCHS, LabelledRun, numbered
from evaluation.laws import TAIL, RuntimeLaw, gamma, log_normal, two_modes
from evaluation.oracle import best_limits, scores
from evaluation.requirements import least, most
from evaluation.scenarios import CLEAN, FACTORS, SCENARIOS, make_run
from evaluation.score import Score, f1_of_sets, score
from evaluation.tables import ResultTable, number

SHARE = 0.03
INJECTED = {
    "func_multimodal": 24,
    "mpi_comm_outlier": 20,
    "multigrid": 40,
    "multiinstance_nompi": 50,
    "simple_workflow": 20,
    "openmp_cpu": 9,
    "c_from_python": 1,
    "python_hello": 2,
    "cupti kernels": 10,
    "cupti multi-stream": 17,
    "zmq_worker_client": 6,
}
"""Delayed calls; in mpi_comm_outlier the messages, each of which delays several."""


def small_run(scenario: str, variant: str, seed: int = 1) -> LabelledRun:
    return make_run(SCENARIOS[scenario].scaled(SHARE), variant, seed)


def assert_streams_hold_the_truth(run: LabelledRun) -> None:
    """Each call of the truth stands where it says, with the runtime it says; and all calls are in it."""
    truth = run.truth
    seen = 0
    for at_stream, stream in enumerate(run.streams):
        own = np.flatnonzero(truth.stream == at_stream)
        call_of_event = dict(zip(truth.entry[own].tolist(), own.tolist(), strict=True))
        functions: dict[str, int] = {}
        stacks = CallStacks(stream.rank)
        for step in stream.steps:
            stacks.build(step, stream.names)
            calls = stacks.calls[: stacks.count]
            complete = calls[calls["exit"] > 0]
            events = stream.event_number(
                complete["step"].astype(np.int64), complete["row"].astype(np.int64)
            ).tolist()
            for call, event in zip(complete, events, strict=True):
                if event not in call_of_event:
                    continue
                at = call_of_event.pop(event)
                assert call["exit"] - call["entry"] - call["child_us"] == truth.runtime_us[at]
                name = stream.names.timers[int(call["function"])]
                assert functions.setdefault(name, truth.function[at]) == truth.function[at]
                seen += 1
        assert not call_of_event
        assert stacks.lost() == {}
        assert (stacks.threads["top"][: stacks.thread_count] == NONE).all()
    assert seen == len(truth.entry)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_streams_of_statistical_scenarios_hold_the_truth(scenario: str) -> None:
    assert_streams_hold_the_truth(small_run(scenario, "5-20x"))


@pytest.mark.parametrize("name", INJECTIONS)
def test_streams_of_injections_hold_the_truth(name: str) -> None:
    run = INJECTIONS[name](1)
    assert_streams_hold_the_truth(run)
    delayed = run.truth.factor > 0
    if name == "mpi_threaded_comm_outlier":
        assert 0.04 < delayed.mean() < 0.06
    elif name == "mpi_comm_outlier":
        assert 2 * INJECTED[name] <= delayed.sum() <= 4 * INJECTED[name]
    else:
        assert delayed.sum() == INJECTED[name]
    assert (run.truth.runtime_us[delayed] > run.truth.quantile_us[delayed]).all()
    assert (run.truth.runtime_us[~delayed] <= 1.2 * run.truth.quantile_us[~delayed]).all()


def test_the_same_seed_makes_the_same_run() -> None:
    one, same, other = (small_run("gamma", "2-6x", seed) for seed in (1, 1, 2))
    assert np.array_equal(one.truth.runtime_us, same.truth.runtime_us)
    assert all(
        np.array_equal(a.events, b.events)
        for a, b in zip(one.streams[0].steps, same.streams[0].steps, strict=True)
    )
    assert not np.array_equal(one.truth.runtime_us, other.truth.runtime_us)


def test_calls_are_dealt_out_evenly_over_ranks_and_epochs() -> None:
    run = small_run("log-normal 0.3", CLEAN)
    assert np.ptp(np.bincount(run.truth.stream)) <= 1
    assert all(EPOCHS - 5 <= len(stream.steps) <= EPOCHS + 1 for stream in run.streams)
    assert not (run.truth.factor > 0).any()


@pytest.mark.parametrize("variant", FACTORS)
def test_delays_are_as_large_and_as_rare_as_said(variant: str) -> None:
    truth = small_run("two modes 95/5", variant).truth
    delayed = truth.factor > 0
    low, high = FACTORS[variant]
    assert 0.0005 < delayed.mean() < 0.002
    assert (truth.factor[delayed] >= low).all() and (truth.factor[delayed] <= high).all()
    np.testing.assert_allclose(
        truth.runtime_us[delayed], truth.factor[delayed] * truth.median_us[delayed], atol=1.0
    )
    assert len(np.unique(truth.median_us[truth.function == 0])) == 2


def test_repeated_outliers_are_alike() -> None:
    truth = small_run("repeats", "5-20x").truth
    for function, count in enumerate((2, 5, 10)):
        delayed = (truth.function == function) & (truth.factor > 0)
        assert delayed.sum() == count
        assert len(np.unique(truth.runtime_us[delayed])) == 1


def test_drift_doubles_runtimes() -> None:
    truth = small_run("drift", CLEAN).truth
    for function in range(3):
        own = truth.function == function
        early, late = own & (truth.number <= 500), own & (truth.number > 9500)
        assert np.median(truth.runtime_us[late]) / np.median(truth.runtime_us[early]) == pytest.approx(
            2.0, rel=0.1
        )
        assert truth.quantile_us[late].mean() / truth.quantile_us[early].mean() == pytest.approx(2.0, rel=0.1)


def test_young_functions_are_called_seldom_and_in_phases() -> None:
    truth = small_run("young", CLEAN).truth
    counts = np.bincount(truth.function)
    assert len(counts) == 30
    assert counts.min() >= 20 and counts.max() <= 100


@pytest.mark.parametrize(
    "law",
    [
        gamma(np.random.default_rng(1)),
        log_normal(np.random.default_rng(1), sigma=0.6),
        two_modes(np.random.default_rng(1), second_weight=0.5),
        two_modes(np.random.default_rng(1), second_weight=0.05),
    ],
)
def test_laws_know_their_quantiles(law: RuntimeLaw) -> None:
    assert law.exceeded_by(law.upper_quantile_us(TAIL)) == pytest.approx(TAIL, rel=1e-6)
    runtimes_us, medians_us = law.sample(np.random.default_rng(2), 100_000)
    # 1,000 of them, give or take three standard deviations.
    assert abs((runtimes_us > law.upper_quantile_us(0.01)).sum() - 1000) < 95
    for mode in law.modes:
        of_mode = runtimes_us[medians_us == mode.law.median()]
        assert abs(len(of_mode) - mode.weight * 100_000) < 500
        assert np.median(of_mode) == pytest.approx(mode.law.median(), rel=0.02)


def test_numbers_count_the_calls_of_a_function_in_order_of_their_ends() -> None:
    function = np.array([1, 0, 1, 1, 0])
    assert numbered(function, np.array([30, 5, 10, 20, 1])).tolist() == [3, 2, 1, 2, 1]


def test_scores_of_perfect_absent_and_indiscriminate_flags() -> None:
    run = small_run("gamma", "5-20x")
    delayed = run.truth.factor > 0
    perfect, absent, all_flagged = (score(run, flags) for flags in (delayed, delayed & False, delayed | True))
    assert (perfect.precision, perfect.recall, perfect.f1, perfect.f1_of_all) == (1.0, 1.0, 1.0, 1.0)
    assert perfect.clear == perfect.clear_found > 0
    assert perfect.false_flags == 0
    assert (absent.recall, absent.f1, absent.flags) == (0.0, 0.0, 0)
    assert np.isnan(absent.precision)
    assert all_flagged.recall == 1.0
    assert all_flagged.precision == pytest.approx(delayed.mean(), rel=0.05)
    assert all_flagged.early_found == all_flagged.early_delays
    assert perfect + absent + Score() == Score(
        **{name: getattr(perfect, name) + getattr(absent, name) for name in perfect.__dataclass_fields__}
    )


def test_f1_of_sets() -> None:
    assert f1_of_sets(2, 4, 4) == 0.5
    assert f1_of_sets(0, 0, 3) == 0.0
    assert f1_of_sets(0, 0, 0) == 1.0


def test_no_limit_does_better_than_the_best_one() -> None:
    factors = FACTORS["2-6x"]
    best = best_limits(factors)
    best_f1 = scores(best, factors)[2]
    assert best_f1 < 0.9
    for scale in (0.97, 0.99, 1.01, 1.03):
        assert scores(scale * best, factors)[2] < best_f1
    shapes = np.linspace(4, 20, len(best))
    assert best[0] == pytest.approx(4.2, abs=0.3)
    assert stats.gamma.sf(best * stats.gamma.median(shapes), shapes).max() < 1e-3


def test_an_undefined_figure_meets_no_requirement() -> None:
    assert least("recall", 0.99, 0.99).is_met and not least("recall", 0.98, 0.99).is_met
    assert most("flags", 37, 37).is_met and not most("flags", 38, 37).is_met
    assert not least("precision", float("nan"), 0.95).is_met
    assert not most("false flags", float("nan"), 1.0).is_met


def test_tables_are_aligned_text_or_markdown() -> None:
    table = ResultTable("Title", ("name", "figure"), [("one", "1.0"), ("two", number(float("nan")))])
    assert table.text() == "Title\nname  figure\none      1.0\ntwo        -"
    assert table.markdown() == "**Title**\n\n| name | figure |\n| --- | ---: |\n| one | 1.0 |\n| two | - |"
