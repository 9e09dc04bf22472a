"""Calls judged by a model that stays as it is: as a stream judges them that knows it."""

from __future__ import annotations

import numpy as np
import pytest

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.ad.detectors.offline import FinalJudge
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.calls.recordarrays import unpack
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import DETECTORS, AnalysisConfig
from chimbuko.core.statistics.model import Model
from chimbuko.core.statistics.schema import schema_of
from chimbuko.core.traceschema import StreamNames, TraceStep
from tests.ad.tables import table_of

NAMES = {1: "solve", 2: "MPI_Send()", 3: "young", 4: "ignored"}
RANDOM = np.random.default_rng(1)
KNOWN = {
    "solve": RANDOM.gamma(8.0, 500.0, 5000),
    "MPI_Send()": RANDOM.gamma(8.0, 100.0, 5000),
    "young": [100.0],
    "ignored": RANDOM.gamma(8.0, 100.0, 5000),
}
RUNTIMES_US = [50, 800, 2500, 6000, 12_000, 40_000, 3_000_000]


def model_of(detector: str) -> Model:
    width = schema_of(detector).width
    return Model(
        detector, "exclusive", [("heat", name) for name in KNOWN], table_of(*KNOWN.values())[:, :width]
    )


def config_of(detector: str) -> AnalysisConfig:
    return AnalysisConfig(
        detector=detector,
        ignore=("ignored",),
        thresholds=(("MPI_*", 1.3 if detector in ("hbos", "copod") else 9.0),),
        is_frozen=True,
    )


def judged_by_a_stream(detector: str) -> dict[tuple[str, int], CallRecord]:
    """All calls that a stream records, by function and runtime; it has the model before its second step."""
    analysis = StreamAnalysis(StreamIdentity(0, 0, "node"), config_of(detector))
    names = StreamNames(timers=dict(NAMES))
    schema = schema_of(detector)
    found = {}
    for number, runtimes_us in enumerate(([1], RUNTIMES_US)):
        rows, time = [], 10_000_000 * (number + 1)
        for timer in NAMES:
            for runtime_us in runtimes_us:
                rows += [[0, 0, 0, 0, timer, time], [0, 0, 0, 1, timer, time + runtime_us]]
                time += runtime_us + 1
        events = np.array(rows, np.uint64)
        step = TraceStep(number, events, np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64))
        records = analysis.analyse(step, names).records
        for record in unpack(records, analysis.health("reading"), detector):
            found[record.function, record.exclusive_us] = record
        model = schema.empty(5)
        model[1:] = model_of(detector).table
        analysis.take_model(model, number, 1)
    return found


@pytest.mark.parametrize("detector", DETECTORS)
def test_flags_and_scores_are_those_of_a_stream(detector: str) -> None:
    recorded = judged_by_a_stream(detector)
    judge = FinalJudge(model_of(detector), config_of(detector))
    for name in NAMES.values():
        runtimes_us = np.array(RUNTIMES_US, np.float64)
        said = judge.judge("heat", name, runtimes_us, runtimes_us + 7.0)
        if name == "young":
            assert said is None
            continue
        assert said is not None
        for at, runtime_us in enumerate(RUNTIMES_US):
            record = recorded.get((name, runtime_us))
            assert bool(said.is_anomaly[at]) == (record is not None and record.label is Label.ANOMALY)
            if record is not None:
                assert said.score[at] == pytest.approx(record.score)
                assert said.lost_us[at] == pytest.approx(record.severity_us)
        assert said.is_anomaly.any() == (name != "ignored")


def test_the_runtime_of_the_metric_is_judged() -> None:
    config = AnalysisConfig(metric="inclusive")
    table = table_of(KNOWN["solve"], metric="inclusive")
    judge = FinalJudge(Model("robust", "inclusive", [("heat", "solve")], table), config)
    said = judge.judge("heat", "solve", np.array([4000.0, 4000.0]), np.array([4000.0, 90_000.0]))
    assert said is not None and said.is_anomaly.tolist() == [False, True]


def test_what_the_model_does_not_hold_is_not_judged() -> None:
    judge = FinalJudge(model_of("robust"), AnalysisConfig())
    some = np.array([1e6])
    assert judge.judge("viz", "solve", some, some) is None
    assert judge.judge("heat", "other", some, some) is None
    empty = FinalJudge(Model("robust", "exclusive", [], schema_of("robust").empty(0)), AnalysisConfig())
    assert empty.judge("heat", "solve", some, some) is None
