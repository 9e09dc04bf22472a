"""A stream's analysis goes on in another process as if nothing had been."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.generate import HARD, Shape, SyntheticTrace
from chimbuko.ad.streams.streamcheckpoint import CheckpointFiles
from chimbuko.core.config import DETECTORS, AnalysisConfig
from chimbuko.core.traceschema import StreamNames
from tests.ad.calls.test_metrics import names_with_metrics, with_metrics
from tests.ad.handed_on import Seen, analyse_stream, plain_steps, read_steps
from tests.capture.trace.whole_streams import Step, random_stream
from tests.reference import gpu
from tests.reference.gpu import gpu_tasks, gpu_trace
from tests.reference.traces import RANK, MadeTrace, damaged_traces, traces
from tests.thorough import first

EXAMPLES = settings(max_examples=40, deadline=None)
MOST_CHECKPOINT_BYTES = 256 << 10
"""Of a rank of heat4: 126 kB were measured, with the recommended settings."""
MOST_LARGE_CHECKPOINT_BYTES = 32 << 20
"""Of 5,000 functions in 60 levels on 32 threads: 15 MB were measured."""


def compare(
    folder: Path, steps: list[Step], config: AnalysisConfig, rank: int, handed_on: set[int] | None = None
) -> Seen:
    """One process for all steps, one that saves its state and goes on itself, and another one after each of
    ``handed_on``, or after every step."""
    for name in ("one", "saving", "many"):
        (folder / name).mkdir()

    def is_saved(number: int) -> bool:
        return handed_on is None or number in handed_on

    one = analyse_stream(steps, config, rank, folder / "one")
    saving = analyse_stream(steps, config, rank, folder / "saving", is_saved, is_handed_on=False)
    many = analyse_stream(steps, config, rank, folder / "many", is_saved)
    for other in (saving, many):
        assert [what for what, _ in other.parts] == [what for what, _ in one.parts]
        for place, ((what, ours), (_, theirs)) in enumerate(zip(other.parts, one.parts, strict=True)):
            assert ours == theirs, (place, what)
    return many


@pytest.mark.parametrize("metric", ["exclusive", "inclusive"])
@pytest.mark.parametrize("detector", DETECTORS)
def test_a_real_stream_is_analysed_as_by_one_process(
    tmp_path: Path, real_traces: Path, detector: str, metric: str
) -> None:
    steps = read_steps(real_traces / "heat4" / "tau-metrics-heat2d-1.bp")
    config = AnalysisConfig(detector=detector, metric=metric, min_anomaly_us=0, period_us=200_000)
    seen = compare(tmp_path, steps, config, 1)
    assert seen.records > 0


@pytest.mark.thorough
@pytest.mark.parametrize("detector", first(1, DETECTORS))
def test_many_threads_deep_calls_and_many_records(tmp_path: Path, detector: str) -> None:
    shape = Shape(functions=60, depth=12, threads=6, recursion=0.2)
    trace = SyntheticTrace(600, outlier_share=0.02, shape=shape)
    steps = plain_steps((trace.next_step() for _ in range(120)), trace.names)
    for number in range(65, 120):
        steps[number].number += 7  # a gap
    config = AnalysisConfig(detector=detector, min_anomaly_us=0, window_calls=8, final_after_steps=4)
    seen = compare(tmp_path, steps, config, 0)
    assert seen.records > 100


@EXAMPLES
@given(traces() | damaged_traces(), st.lists(st.integers(0, 9), min_size=3, max_size=3), st.data())
def test_any_stream_handed_on_at_any_step(
    tmp_path_factory: pytest.TempPathFactory, trace: MadeTrace, rises: list[int], data: st.DataObject
) -> None:
    """Threads, ties, messages, metrics, calls that stay open, rows that are damaged and gaps."""
    trace = with_metrics(trace, rises)
    steps = plain_steps(trace.steps(), names_with_metrics())
    handed_on = data.draw(st.sets(st.integers(0, max(len(steps) - 1, 0))))
    config = AnalysisConfig(
        detector=data.draw(st.sampled_from(list(DETECTORS))),
        min_anomaly_us=0,
        watched_counters=("monitoring:",),
        window_calls=3,
        period_us=10,
    )
    compare(tmp_path_factory.mktemp("stream"), steps, config, RANK, handed_on)


@EXAMPLES
@given(gpu_tasks(), st.sampled_from(list(DETECTORS)))
def test_launches_are_found_over_all_processes(
    tmp_path_factory: pytest.TempPathFactory, made: list[gpu.Task], detector: str
) -> None:
    steps = plain_steps(gpu_trace(made).steps, gpu.names())
    config = AnalysisConfig(detector=detector, min_anomaly_us=0)
    compare(tmp_path_factory.mktemp("stream"), steps, config, gpu.RANK)


@pytest.mark.parametrize("seed", range(4))
def test_rows_without_any_sense_do_no_harm(tmp_path: Path, seed: int) -> None:
    """Names come with each step; nearly all rows are lost."""
    chance = np.random.default_rng(seed)
    sizes = [tuple(chance.integers(0, 60, 3).tolist()) for _ in range(12)]
    compare(tmp_path, random_stream(seed, sizes), AnalysisConfig(min_anomaly_us=0), 0)


def test_a_checkpoint_of_a_real_stream_is_small(tmp_path: Path, real_traces: Path) -> None:
    steps = read_steps(real_traces / "heat4" / "tau-metrics-heat2d-1.bp")
    seen = analyse_stream(steps, AnalysisConfig(), 1, tmp_path, lambda number: True)
    assert max(seen.sizes_bytes) < MOST_CHECKPOINT_BYTES, seen.sizes_bytes


@pytest.mark.thorough
def test_a_checkpoint_does_not_grow_with_the_steps(tmp_path: Path) -> None:
    trace = SyntheticTrace(400, outlier_share=0.02)
    steps = plain_steps((trace.next_step() for _ in range(400)), trace.names)
    seen = analyse_stream(steps, AnalysisConfig(), 0, tmp_path, lambda number: True)
    early, late = max(seen.sizes_bytes[50:150]), max(seen.sizes_bytes[300:])
    assert late < 1.1 * early + 4096, (early, late)


def test_a_checkpoint_of_many_functions_is_bounded(tmp_path: Path) -> None:
    trace = SyntheticTrace(50_000, outlier_share=0.001, shape=HARD)
    steps = plain_steps((trace.next_step() for _ in range(4)), trace.names)
    seen = analyse_stream(steps, AnalysisConfig(), 0, tmp_path, lambda number: True)
    assert max(seen.sizes_bytes) < MOST_LARGE_CHECKPOINT_BYTES, seen.sizes_bytes


def test_without_a_file_there_is_no_checkpoint(tmp_path: Path) -> None:
    assert CheckpointFiles(tmp_path).load(0, StreamNames()) is None
