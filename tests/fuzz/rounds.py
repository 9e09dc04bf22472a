"""Takes a stream through all that its process does with a step, and checks what comes of it."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.ad.handoff.flightrecorder import FlightRecorder
from chimbuko.ad.handoff.opencalls import OpenCallsFile
from chimbuko.core.calls.recordarrays import unpack
from chimbuko.core.config import DETECTORS, METRICS, AnalysisConfig
from chimbuko.core.traceschema import EventType, TraceStep
from tests.fuzz.streams import SPOILS, Stream, made_stream, random_stream, real_stream
from tests.reference.accounting import Accounting


def analyse(stream: Stream, config: AnalysisConfig, folder: Path) -> None:
    """Analyse it; no row may be unaccounted for, and no record impossible.

    Parameters
    ----------
    folder
        For the files that the process keeps.
    """
    analysis = StreamAnalysis(StreamIdentity(0, 0, "node"), config)
    accounting = Accounting(analysis.stacks)
    open_calls = OpenCallsFile(folder / "open")
    recorder = FlightRecorder(folder / "recorder", 1 << 16, 0)
    rows = calls = anomalies = 0
    for number, arrays, names in zip(stream.numbers, stream.steps, stream.names, strict=True):
        step = TraceStep(number, *arrays)
        recorder.append(step, open_calls.entries(names.event_type_id(EventType.ENTRY)))
        result = analysis.analyse(step, names)
        open_calls.publish(analysis.stacks, result.count)
        assert accounting.unaccounted(step) == 0
        rows += step.rows
        calls += result.count.calls
        anomalies += result.count.anomalies
        for record in unpack(result.records, analysis.health("reading"), config.detector):
            assert record.exit_us == 0 or record.exit_us >= record.entry_us
            assert record.inclusive_us >= record.exclusive_us >= 0
            assert record.call_stack[0].id == record.id
        analysis.hand_out(number)
    health = analysis.health("ended")
    assert (health.rows, health.calls, health.anomalies) == (rows, calls, anomalies)
    assert calls <= rows and anomalies <= calls
    unpack(analysis.finish(), health, config.detector)
    analysis.counter_statistics()


def config_for(chance: np.random.Generator) -> AnalysisConfig:
    """Any settings."""
    return AnalysisConfig(
        detector=str(chance.choice(list(DETECTORS))),
        metric=str(chance.choice(METRICS)),
        window_calls=int(chance.choice((0, 1, 5, 50))),
        min_anomaly_us=int(chance.choice((0, 1000))),
        fast_side=bool(chance.integers(2)),
        final_after_steps=int(chance.choice((1, 10))),
    )


def one_round(seed: int, folder: Path) -> None:
    """All that follows from one seed."""
    chance = np.random.default_rng(seed)
    kind = int(chance.integers(3))
    stream = (copy.deepcopy(real_stream()), made_stream(chance), random_stream(chance))[kind]
    for at in chance.integers(len(SPOILS), size=int(chance.integers(0, 8))):
        SPOILS[at](stream, chance)
    analyse(stream, config_for(chance), folder)
