"""The fork server of an agent with a clock: its children note when the calls of each step are labelled.

With ``CHIMBUKO_BENCHMARK_POLL_S`` in the environment they follow files as ADIOS2 does by itself, and look
for the next step every so many seconds.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import Any

from chimbuko.ad import child, forkserver, sources
from chimbuko.ad.child import StreamChild
from chimbuko.ad.detection import Detection
from chimbuko.ad.orders import ChildSpec
from chimbuko.trace import reader
from chimbuko.trace.reader import StreamReader, Waiting
from chimbuko.trace.schema import StreamNames, TraceStep

POLL = "CHIMBUKO_BENCHMARK_POLL_S"
LABELS = "labels"
"""File of a stream's folder: step, time of its newest event, and when its calls had labels, in µs."""
LABEL = struct.Struct("qdd")
LONGEST_WAIT_S = 0.5

_labelled_us = 0.0


class Polled:
    """A followed stream whose next step ADIOS2 waits for; nothing is given back."""

    is_joining = False

    def __init__(self, spec: ChildSpec, first_step: int, names: StreamNames) -> None:
        self._reader = StreamReader(
            Path(spec.path), "BPFile", rank=spec.rank, first_step=first_step, names=names
        )
        self.names = names

    def next_step(self, timeout_s: float | None) -> TraceStep | Waiting:
        return self._reader.next_step(LONGEST_WAIT_S if timeout_s is None else timeout_s)

    def give_back(self, first_step: int) -> None:
        """It stays as it is."""

    def end(self) -> None:
        """The stream says so itself."""

    def close(self) -> None:
        self._reader.close()


def clock_labels() -> None:
    """Let every child note when it has labels."""
    judged, stepped = Detection.step, StreamChild._step

    def judge(*arguments: Any) -> Any:
        global _labelled_us
        answer = judged(*arguments)
        _labelled_us = time.time_ns() / 1e3
        return answer

    def step(self: StreamChild, step: TraceStep) -> None:
        interval_us = step.interval_us()
        stepped(self, step)
        if interval_us is not None:
            with (Path(self._spec.box).parent / LABELS).open("ab", buffering=0) as file:
                file.write(LABEL.pack(step.step, interval_us[1], _labelled_us))

    Detection.step = judge  # type: ignore[method-assign]
    StreamChild._step = step  # type: ignore[method-assign]


def poll(seconds: str) -> None:
    """Let every child follow files as ADIOS2 does."""
    reader.HARMLESS_SST_PARAMETERS["BeginStepPollingFrequencySecs"] = seconds

    def open_source(spec: ChildSpec, first_step: int, names: StreamNames) -> sources.Source:
        return Polled(spec, first_step, names)

    child.open_source = open_source  # type: ignore[attr-defined]


if __name__ == "__main__":
    clock_labels()
    if POLL in os.environ:
        poll(os.environ[POLL])
    forkserver.serve()
