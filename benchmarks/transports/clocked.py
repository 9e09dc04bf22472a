"""The fork server of an agent with a clock: its children note when the calls of each step are labelled."""

from __future__ import annotations

import struct
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

from chimbuko.ad.analysis.detection import Detection
from chimbuko.ad.handoff.processspecs import StreamProcessSpec
from chimbuko.ad.streams import process
from chimbuko.ad.streams.forkserver import ForkServer
from chimbuko.ad.streams.process import StreamProcess
from chimbuko.capture.trace import reader
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.capture.trace.source import Waiting
from chimbuko.core.traceschema import StreamNames, TraceStep

LABELS = "labels"
"""File of a stream's folder: step, time of its newest event, and when its calls had labels, in µs."""
LABEL = struct.Struct("qdd")
LONGEST_WAIT_S = 0.5

_labelled_us = 0.0


class Polled:
    """A followed stream whose next step ADIOS2 waits for; nothing is given back."""

    is_joining = False

    def __init__(self, spec: StreamProcessSpec, first_step: int, names: StreamNames) -> None:
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


def clocked_fork_server(poll_s: float | None) -> ForkServer:
    """A fork server whose children note when they have labels.

    With ``poll_s`` they follow files as ADIOS2 does by itself, which looks for the next step every so many
    seconds.
    """
    with ExitStack() as patches:
        patches.enter_context(patch.object(Detection, "step", _judging))
        patches.enter_context(patch.object(StreamProcess, "_step", _stepping))
        if poll_s is not None:
            frequency = {"BeginStepPollingFrequencySecs": str(poll_s)}
            patches.enter_context(patch.dict(reader.HARMLESS_SST_PARAMETERS, frequency))
            patches.enter_context(patch.object(process, "open_source", Polled))
        return ForkServer()


_judged, _stepped = Detection.step, StreamProcess._step


def _judging(*arguments: Any) -> Any:
    global _labelled_us
    answer = _judged(*arguments)
    _labelled_us = time.time_ns() / 1e3
    return answer


def _stepping(self: StreamProcess, step: TraceStep) -> None:
    interval_us = step.interval_us()
    _stepped(self, step)
    if interval_us is not None:
        with (Path(self._spec.box).parent / LABELS).open("ab", buffering=0) as file:
            file.write(LABEL.pack(step.step, interval_us[1], _labelled_us))
