"""The process of one stream, as the fork server makes it, run for a benchmark and measured."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
from generate import HARD, Shape
from measuring import cpu_seconds, in_child

from chimbuko.ad.analysis.detection import Detection
from chimbuko.ad.analysis.streamanalysis import StreamAnalysis
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.calls.windows import Windows
from chimbuko.ad.handoff.flightrecorder import FlightRecorder
from chimbuko.ad.handoff.notifiers import AgentNotifier
from chimbuko.ad.handoff.processspecs import StreamProcessSpec
from chimbuko.ad.handoff.spool import SpoolReader
from chimbuko.ad.streams.process import StreamProcess
from chimbuko.capture.trace.discovery import Transport
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.core.calls.record import call_id
from chimbuko.core.config import AnalysisConfig
from chimbuko.runtime.protocol.messages import RecordBatch

STAGES: dict[str, tuple[Any, str]] = {
    "read": (StreamReader, "next_step"),
    "recorder": (FlightRecorder, "append"),
    "stacks": (CallStacks, "build"),
    "detect": (Detection, "step"),
    "records": (Windows, "step"),
    "commit": (StreamProcess, "_try_commit"),
}
"""Learning is part of ``detect``, and the spool of the commit."""


@dataclass
class Analysed:
    """What came of one run of a stream's process."""

    cpu_s: float
    stages_s: dict[str, float] = field(default_factory=dict)
    """CPU time of the main thread by stage, if it was asked for."""
    latencies_ms: list[float] = field(default_factory=list)
    """Per step, from its newest event to its labels, if it was asked for."""


def be_fork_server() -> None:
    """Keep what is loaded out of the way, as the fork server does."""
    gc.collect()
    gc.freeze()


def spec_of(
    trace: Path, transport: Transport, folder: Path, config: AnalysisConfig | None = None
) -> StreamProcessSpec:
    """Order for the process of a stream of rank 0, with all its files in ``folder``."""
    return StreamProcessSpec(
        key="0:0",
        path=str(trace),
        transport=transport,
        program=0,
        rank=0,
        node="node",
        box=str(folder / "box"),
        spool=str(folder / "spool"),
        names=str(folder / "names"),
        open_calls=str(folder / "open-calls"),
        recorder=str(folder / "recorder"),
        looks=str(folder / "looks"),
        config=config or AnalysisConfig(),
    )


def analyse(spec: StreamProcessSpec, *, with_stages: bool = False, with_latencies: bool = False) -> Analysed:
    """Run the process of one stream to its end."""

    def work() -> Analysed:
        result = Analysed(0.0)
        with ExitStack() as patches:
            if with_stages:
                patches.enter_context(_stages_clocked(result))
            if with_latencies:
                patches.enter_context(_labels_clocked(result))
            result.cpu_s = cpu_seconds(lambda: StreamProcess(spec, AgentNotifier()).run())
        return result

    return in_child(work)


@contextmanager
def _stages_clocked(result: Analysed) -> Iterator[None]:
    spent: Counter[str] = Counter()

    def clocked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            began = time.thread_time()
            try:
                return function(*arguments, **options)
            finally:
                spent[name] += time.thread_time() - began

        return call

    began = time.thread_time()
    with ExitStack() as patches:
        for name, (owner, attribute) in STAGES.items():
            patches.enter_context(patch.object(owner, attribute, clocked(name, getattr(owner, attribute))))
        yield
    spent["other"] = time.thread_time() - began - spent.total()
    result.stages_s = dict(spent)


@contextmanager
def _labels_clocked(result: Analysed) -> Iterator[None]:
    analysed, judged = StreamAnalysis.analyse, Detection.step
    labelled_us = 0.0

    def judge(*arguments: Any) -> Any:
        nonlocal labelled_us
        answer = judged(*arguments)
        labelled_us = time.time_ns() / 1e3
        return answer

    def analyse_step(analysis: StreamAnalysis, step: Any, names: Any) -> Any:
        answer = analysed(analysis, step, names)
        interval_us = step.interval_us()
        if interval_us is not None:
            result.latencies_ms.append((labelled_us - interval_us[1]) / 1e3)
        return answer

    with patch.object(Detection, "step", judge), patch.object(StreamAnalysis, "analyse", analyse_step):
        yield


def flagged_calls(folder: Path) -> set[str]:
    """Ids of the abnormal calls in the spool of a process."""
    decoder = msgspec.msgpack.Decoder(RecordBatch)
    found = set()
    for _, frame in SpoolReader(folder / "spool").read(1 << 62):
        heads = decoder.decode(frame).records.head_rows()
        heads = heads[heads.is_anomaly != 0]
        found |= {
            call_id(0, 0, step, row)
            for step, row in zip(heads.begin_step.tolist(), heads.begin_row.tolist(), strict=True)
        }
    return found


@contextmanager
def live_writer(path: Path, rows_per_step: int, steps: int, shape: Shape, outliers: float) -> Iterator[None]:
    """A process that writes a made-up trace over SST as fast as its reader takes it."""
    command = [sys.executable, Path(__file__).with_name("generate.py"), path, "--engine", "SST"]
    command += ["--rows", rows_per_step * steps, "--rows-per-step", rows_per_step, "--outliers", outliers]
    command += ["--hard"] if shape == HARD else []
    writer = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        if writer.wait(60) != 0:
            sys.exit(f"the writer of {path} ended with code {writer.returncode}")
