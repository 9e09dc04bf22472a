"""Paths on which calls of a function are clearly shorter than on others: what is abnormal there."""

from __future__ import annotations

import pytest

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.calls.recordarrays import unpack
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import AnalysisConfig
from evaluation.injections import multigrid

HEALTH = StreamHealth(0, 0, "node1", "reading", 0, 0, 0, 0, 0, 0, {})
DELAYS_A_RANK = 10


@pytest.mark.compiled
@pytest.mark.parametrize(("config", "found"), [(AnalysisConfig(), 1), (AnalysisConfig(detector="sstd"), 0)])
def test_delay_on_lower_level_of_recursion_is_found(config: AnalysisConfig, found: int) -> None:
    run = multigrid(1)
    stream = run.streams[0]
    analysis = StreamAnalysis(StreamIdentity(0, 0, "node1"), config)
    flagged = set()
    for step in stream.steps:
        for record in unpack(analysis.analyse(step, stream.names).records, HEALTH, config.detector):
            if record.label is Label.ANOMALY:
                flagged.add((record.function, record.exclusive_us))
    delayed = run.truth.runtime_us[(run.truth.factor > 0.0) & (run.truth.stream == 0)]
    assert len(delayed) == DELAYS_A_RANK
    # The first few come before enough is known of the levels.
    late = [("smooth", int(runtime_us)) for runtime_us in delayed[2:]]
    assert len(flagged.intersection(late)) == found * len(late)
    assert flagged <= {("smooth", int(runtime_us)) for runtime_us in delayed}
