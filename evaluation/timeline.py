"""Labelled runs written down call by call, for scenarios in which ranks, threads and programs interact."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from chimbuko.capture.trace.madeup import PERIOD_US, START_US, StreamTimeline
from evaluation.labelled import LabelledRun, LabelledStream, Truth, numbered


class _TrueCall(NamedTuple):
    """One call of the truth; ``entry`` is the number of the row, as it was written down."""

    entry: int
    function: tuple[int, str]
    runtime_us: float
    factor: float
    median_us: float
    quantile_us: float
    exit_us: int
    launched_by: int
    """Number of the call, of the same rank, that launched it; -1 for none."""


class RankTimeline(StreamTimeline):
    """What one rank of a program does, and the truth of its calls."""

    def __init__(
        self, program: int, rank: int, executable: str, late_steps: Mapping[int, int] = MappingProxyType({})
    ) -> None:
        super().__init__(rank, executable, late_steps)
        self.program = program
        self.truth: list[_TrueCall] = []

    def call(
        self,
        thread: int,
        function: str,
        start_us: float,
        end_us: float,
        median_us: float,
        quantile_us: float,
        is_delayed: bool = False,
        launched_by: int = -1,
    ) -> int:
        """A call without children, and its truth; returns its number."""
        entry = self.enter(thread, function, start_us)
        self.leave(thread, function, end_us)
        start, end = round(start_us), round(end_us)
        self.truth.append(
            _TrueCall(
                entry=entry,
                function=(self.program, function),
                runtime_us=end - start,
                factor=(end - start) / median_us if is_delayed else 0.0,
                median_us=median_us,
                quantile_us=quantile_us,
                exit_us=START_US + end,
                launched_by=launched_by,
            )
        )
        return len(self.truth) - 1

    def stream(self) -> tuple[LabelledStream, list[int]]:
        """All steps, and where each row that was written down stands in them."""
        steps, place = self.steps()
        return LabelledStream(self.program, self.rank, self.names, steps), place


def labelled_run(timelines: list[RankTimeline]) -> LabelledRun:
    """Ranks of all programs as one run."""
    streams = []
    rows: list[tuple[int, int, int, _TrueCall]] = []
    for number, timeline in enumerate(timelines):
        stream, place = timeline.stream()
        streams.append(stream)
        first = len(rows)
        for call in timeline.truth:
            launched_by = first + call.launched_by if call.launched_by >= 0 else -1
            rows.append((number, place[call.entry], launched_by, call))
    functions: dict[tuple[int, str], int] = defaultdict(lambda: len(functions))
    calls = [row[-1] for row in rows]
    function = np.array([functions[call.function] for call in calls])
    truth = Truth(
        stream=np.array([row[0] for row in rows]),
        entry=np.array([row[1] for row in rows]),
        function=function,
        runtime_us=np.array([call.runtime_us for call in calls]),
        factor=np.array([call.factor for call in calls]),
        median_us=np.array([call.median_us for call in calls]),
        quantile_us=np.array([call.quantile_us for call in calls]),
        number=numbered(function, np.array([call.exit_us for call in calls])),
        launched_by=np.array([row[2] for row in rows]),
    )
    return LabelledRun(streams, truth, PERIOD_US)
