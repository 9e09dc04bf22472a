"""Calls of the agent's kernels: a small made-up stream is analysed."""

from __future__ import annotations

import mmap
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.ad.detectors import make_detector
from chimbuko.ad.handoff.flightrecorder import FlightRecorder, read_recording
from chimbuko.ad.handoff.looksfile import LooksFile
from chimbuko.ad.handoff.opencalls import OpenCallsFile
from chimbuko.ad.handoff.outbox import PathOutbox
from chimbuko.core.calls.pathtable import PathTable
from chimbuko.core.config import DETECTORS, AnalysisConfig
from chimbuko.core.traceschema import LEFT_OUT_AT_TIMES, EventType, Operation, StreamNames, TraceStep

GPU_THREAD = 1
MESSAGES = 40
"""Number of messages, on as many channels: more than their table has room for at first."""


def call_kernels() -> None:
    """Call all kernels of the agent."""
    analysis = StreamAnalysis(StreamIdentity(0, 0, ""), AnalysisConfig())
    names = StreamNames(
        timers={0: "main", 1: "MPI_Send"},
        counters={0: "TIME", 1: "CPU_TIME", 2: "Correlation ID"},
        metadata={(0, GPU_THREAD, "CUDA Stream"): "1", (0, 0, f"{LEFT_OUT_AT_TIMES}0"): "1"},
    )
    paths, merged = PathOutbox(mmap.mmap(-1, PathOutbox.SIZE_BYTES), 0), PathTable()
    with TemporaryDirectory() as folder:
        open_calls = OpenCallsFile(Path(folder) / "open-calls")
        looks = LooksFile(Path(folder) / "looks")
        recorder = FlightRecorder(Path(folder) / "recorder", 1 << 16, rank=0)
        for number in range(2):
            step = _small_step(number)
            recorder.append(step, open_calls.entries(EventType.ENTRY))
            result = analysis.analyse(step, names)
            looks.put(2_000_000, 20_000, 0, is_asleep=True)
            analysis.read_looks(looks.take(result.count.end_us))
            open_calls.publish(analysis.stacks, result.count)
            found = analysis.hand_out(number)
            analysis.take_model(found.learned.table, number, number)
            paths.put(paths, found.paths)
            merged.add(paths.look())
        read_recording(Path(folder) / "recorder").between(2_000_001, 3_000_000, names)
    analysis.finish()
    for name, entry in DETECTORS.items():
        detector = make_detector(AnalysisConfig(detector=name))
        detector.limits(detector.schema.empty(1), np.array([entry.default_threshold]))


def _small_step(number: int) -> TraceStep:
    """Return a step of 100 calls of two µs, the last of which takes a thousand times as long, with metrics,
    messages and GPU calls.
    """
    start = 1_000_000 * (number + 1)
    events, counters = [[0, 0, 0, 0, 0, start]], [[0, 0, 0, 0, 5, start + 12]]
    for call in range(100):
        entry = start + 10 * call
        events.append([0, 0, 0, 0, 1, entry])
        exit_ = entry + (2000 if call == 99 else 2)
        events.append([0, 0, 0, 1, 1, exit_])
        counters.append([0, 0, 0, 1, exit_ - start, exit_])
        counters.append([0, 0, 0, 2, call, exit_])
    for call in range(100):
        entry = start + 10 * call
        events.append([0, 0, GPU_THREAD, 0, 1, entry])
        events.append([0, 0, GPU_THREAD, 1, 1, entry + 2])
        counters.append([0, 0, GPU_THREAD, 2, call, entry + 2])
    counters.sort(key=lambda row: row[5])
    return TraceStep(
        number,
        np.array(events, np.uint64),
        np.array([[0, 0, 0, EventType.SEND, tag, 1, 8, start + 11] for tag in range(MESSAGES)], np.uint64),
        np.array(counters, np.uint64),
        operations=np.array([[0, 0, 0, Operation.COLLECTIVE, 1, 0, number, 8, 0, start + 11]], np.uint64),
    )
