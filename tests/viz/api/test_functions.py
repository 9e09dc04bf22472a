"""Functions, and how their runtimes are distributed."""

from __future__ import annotations

import json
from urllib.parse import quote

import numpy as np
import pytest

from chimbuko.ad.detectors.offline import FinalJudge
from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import EDGES_US
from chimbuko.core.config import DETECTORS, AnalysisConfig
from chimbuko.core.statistics.model import Model
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import schema_of, stored_schema_of
from chimbuko.provenance.query.filters import as_object
from chimbuko.provenance.query.run import Provenance
from chimbuko.runtime.protocol.messages import FunctionModel
from chimbuko.viz.api.distribution import Span, distribution
from tests.viz.api.conftest import Api
from tests.viz.made_run import EXPECTED_US, FUNCTIONS, RANKS, MadeRun


def test_one_function(api: Api, provenance: Provenance) -> None:
    expected = {row.name: row for row in provenance.function_statistics()}
    for number, name in enumerate(FUNCTIONS):
        body = api.ask(f"function?name={quote(name)}").json
        assert body["statistics"] == as_object(expected[name])
        found = body["distribution"]
        assert found["function"] == name and found["exclusive"]["calls"] == 101
        assert found["exclusive"]["minimum_us"] == pytest.approx(EXPECTED_US[number] / 2)
        assert sum(bucket["calls"] for bucket in found["buckets"]) == 101
        assert found["buckets"][0]["lower_us"] <= EXPECTED_US[number] / 2 < found["buckets"][0]["upper_us"]


def test_a_function_that_is_not_there(api: Api) -> None:
    for name in ("nothing", "MPI_*"):
        answer = api.ask(f"function?name={name}")
        assert answer.status_code == 404 and "not one of this run" in answer.json["error"]
    answer = api.ask(f"function?name={quote(FUNCTIONS[0])}&program=1")
    assert answer.status_code == 404 and "not one of program 1 in this run" in answer.json["error"]
    assert api.ask(f"function?name={quote(FUNCTIONS[0])}&program=0").status_code == 200
    assert api.ask("function").status_code == 400


def test_a_function_on_each_rank(api: Api) -> None:
    body = api.ask(f"function-by-rank?name={quote(FUNCTIONS[1])}").json
    assert (body["program"], body["ended"], body["ranks"]) == (0, RANKS, list(range(RANKS)))
    assert body["calls"] == [40] * RANKS
    assert body["exclusive_us"] == [40 * (EXPECTED_US[1] + rank) for rank in range(RANKS)]
    never = api.ask(f"function-by-rank?name={quote(FUNCTIONS[0])}").json
    assert (never["ended"], never["ranks"], never["calls"]) == (RANKS, [], [])
    assert api.ask("function-by-rank?name=nothing").status_code == 404


def test_all_models_come_in_lines(api: Api, provenance: Provenance) -> None:
    found = [json.loads(line) for line in api.ask("models.ndjson").text.splitlines()]
    assert found == as_object([distribution(model, AnalysisConfig()) for model in provenance.models.newest()])
    assert [model["function"] for model in found] == sorted(FUNCTIONS)


@pytest.mark.parametrize("detector", DETECTORS)
def test_what_a_model_says(detector: str) -> None:
    schema = schema_of(detector)
    row = schema.empty(1)[0]
    runtimes = Moments.of([10.0, 20.0, 60.0])
    row[schema.slices["exclusive_us"]] = runtimes.row()
    config = AnalysisConfig(detector=detector)
    found = distribution(FunctionModel(7, 2, "solve", np.asarray(row).tobytes()), config)
    assert (found.program, found.function, found.version) == (2, "solve", 7)
    assert found.exclusive.calls == 3
    assert found.exclusive.mean_us == 30.0 and found.exclusive.maximum_us == 60.0
    assert found.exclusive.stddev_us == pytest.approx(np.std([10.0, 20.0, 60.0], ddof=1))
    # Of the other runtime nothing is known: what is sent is finite all the same.
    assert (found.inclusive.calls, found.inclusive.minimum_us, found.inclusive.maximum_us) == (0, 0.0, 0.0)
    assert found.buckets == ([] if "buckets" in schema.slices else None)


@pytest.mark.parametrize("detector", DETECTORS)
def test_the_limits_of_a_model_are_those_that_calls_are_judged_by(detector: str) -> None:
    runtimes = np.random.default_rng(3).lognormal(np.log(2_000.0), 0.2, 5_000)
    model = _model_of(detector, runtimes)
    config = AnalysisConfig(detector=detector, min_anomaly_us=100)
    found = distribution(model, config)
    assert found.threshold == DETECTORS[detector].default_threshold
    judge = FinalJudge(
        Model(detector, config.metric, [("app", "solve")], np.frombuffer(model.row)[None].copy()), config
    )
    tried = np.concatenate([np.geomspace(10.0, 1e6, 400), *(_ends(span) for span in found.ordinary)])
    judged = judge.judge("app", "solve", tried, tried)
    assert judged is not None and judged.is_anomaly.any() and not judged.is_anomaly.all()
    assert [not is_flagged for is_flagged in judged.is_anomaly] == [
        any(_holds(span, us) for span in found.ordinary) for us in tried
    ]


def test_thresholds_and_functions_to_ignore_are_those_of_the_run() -> None:
    model = _model_of("sstd", np.array([90.0, 110.0] * 50))
    usual, strict = (
        distribution(model, AnalysisConfig(detector="sstd", min_anomaly_us=0, thresholds=thresholds))
        for thresholds in ((), (("so*", 3.0),))
    )
    assert (usual.threshold, strict.threshold) == (6.0, 3.0)
    spread_us = usual.exclusive.stddev_us
    assert usual.ordinary[0].upper_us == pytest.approx(100 + 6 * spread_us)
    assert strict.ordinary[0].upper_us == pytest.approx(100 + 3 * spread_us)
    ignored = distribution(model, AnalysisConfig(detector="sstd", ignore=("solve",)))
    assert ignored.ordinary == [Span(None, None)]


def test_calls_are_counted_over_the_whole_run_where_the_store_has_them() -> None:
    row = stored_schema_of("robust").empty(1)[0]
    counts = np.histogram([50.0, 51.0, 9_000.0], EDGES_US)[0]
    row[stored_schema_of("robust").slices["counted"]] = counts
    found = distribution(FunctionModel(1, 0, "solve", row.tobytes()), AnalysisConfig())
    assert found.buckets == [] and found.counted is not None
    assert sum(bucket.calls for bucket in found.counted) == 3
    assert found.ordinary == [Span(None, None)]


def _model_of(detector: str, runtimes: Float64Array) -> FunctionModel:
    schema = schema_of(detector)
    row = schema.empty(1)[0]
    for metric in ("exclusive_us", "inclusive_us"):
        row[schema.slices[metric]] = Moments.of(runtimes).row()
    if "buckets" in schema.slices:
        row[schema.slices["buckets"]] = np.histogram(runtimes, EDGES_US)[0]
    return FunctionModel(1, 0, "solve", row.tobytes())


def _ends(span: Span) -> list[float]:
    return [
        us + shift for us in (span.lower_us, span.upper_us) if us is not None for shift in (-0.01, 0.0, 0.01)
    ]


def _holds(span: Span, us: float) -> bool:
    return (span.lower_us is None or span.lower_us <= us) and (span.upper_us is None or us < span.upper_us)


def test_functions_are_ranked_as_ranks_are(api: Api, finished: MadeRun) -> None:
    body = api.ask("function-ranking?statistic=maximum&n=2").json
    assert (body["statistic"], body["n"], body["functions"]) == ("maximum", 2, len(FUNCTIONS))
    most = {row.name: row.most_flagged for row in finished.function_statistics()}
    assert [row["maximum"] for row in body["top"]] == sorted(most.values(), reverse=True)[:2]
    assert all(row["maximum"] == most[row["name"]] for row in body["top"] + body["bottom"])
    assert {row["steps"] for row in body["top"]} == {len(finished.steps)}
    assert "statistic=" in api.ask("function-ranking?statistic=median").json["error"]
