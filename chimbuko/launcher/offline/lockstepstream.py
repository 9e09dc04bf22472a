"""One recorded stream, read and analysed from epoch to epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from chimbuko.ad.analysis.streamanalysis import Findings, StreamAnalysis, StreamIdentity
from chimbuko.ad.handoff.opencalls import OpenCalls
from chimbuko.ad.handoff.spool import SpoolFrame
from chimbuko.ad.streams.commits import Told, Uncommitted
from chimbuko.ad.streams.sources import RecordedSource, epoch_of, has_ended
from chimbuko.capture.trace.source import Waiting
from chimbuko.core.arrays import Float64Array
from chimbuko.core.calls.record import READING, StepCount
from chimbuko.core.calls.recordarrays import PackedRecords
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.traceschema import StreamNames, TraceStep
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.protocol.messages import ALL_EPOCHS, NO_EPOCH

LEAST_ROWS = 100_000
"""Fewest rows whose findings are handed over for the store: with those of each epoch of 10,000 rows the whole
run takes a twentieth longer.
"""

Put = Callable[[str, SpoolFrame], None]
"""Function that takes what a stream has found for the store, with the stream's key."""


class StreamModel(msgspec.Struct, frozen=True):
    """Global model for one stream."""

    table: Float64Array
    """Rows by the stream's own timer ids, float64[timers, width]."""
    version: int


class EpochClosed(msgspec.Struct, frozen=True):
    """Statistics that a stream brings when it closes an epoch; at its end it closes all of them."""

    key: str
    """Key of the stream, ``program:rank``."""
    epoch: int
    findings: Sequence[Findings]
    steps: Sequence[StepCount]
    """Steps in which the findings were learned."""
    names: StreamNames | None
    """Names of the stream, where there are new ones."""
    opened: OpenCalls | None = None
    """Calls that were open at its end; None before that."""
    is_broken: bool = False
    """Whether the stream stopped without an end."""


class RecordedFile(msgspec.Struct, frozen=True):
    """Place of a recorded stream."""

    path: Path
    first_rank: int
    """Rank in the run of what the stream's rows call rank 0."""


class LockstepStream:
    """Analysis of one recorded stream, which stops at the end of each epoch.

    Parameters
    ----------
    put
        Takes its findings.
    should_stop
        Says whether the stream is to be left after the step that it is at.
    """

    def __init__(
        self,
        identity: StreamIdentity,
        file: RecordedFile,
        config: AnalysisConfig,
        put: Put,
        should_stop: Callable[[], bool],
    ) -> None:
        self.key = f"{identity.program}:{identity.rank}"
        self._file = file
        self._rank = identity.rank
        self._period_us = config.period_us
        self._put = put
        self._should_stop = should_stop
        self._names = StreamNames()
        self._analysis = StreamAnalysis(identity, config)
        self._told = Told()
        self._uncommitted = Uncommitted()
        self._uncommitted_rows = 0
        self._epochs = self._read()
        self._given = _Given()

    def advance(self, model: StreamModel | None) -> EpochClosed:
        """Read on until another epoch is closed, judging by a newer model, if there is one."""
        if model is not None:
            self._analysis.take_model(model.table, self._given.generation - 1, model.version)
        return next(self._epochs)

    def _read(self) -> Iterator[EpochClosed]:
        """Yield each epoch that is closed; the last one closes all."""
        state, count = "broken", None
        try:
            source = RecordedSource(self._file.path, self._rank, self._file.first_rank, 0, self._names)
            epoch, last = NO_EPOCH, None
            while not (is_left := self._should_stop()) and isinstance(
                got := source.next_step(None), TraceStep
            ):
                ends_in = epoch_of(got, self._period_us)
                if ends_in > epoch:
                    self._hand_out()
                    if self._uncommitted_rows >= LEAST_ROWS:
                        self._commit()
                    yield self._closed(ends_in - 1)
                    epoch = ends_in
                result = self._analysis.analyse(got, self._names)
                self._uncommitted.add(result)
                self._uncommitted_rows += got.rows
                self._given.steps.append(result.count)
                # A step without events leaves the arrays of the one before as they are.
                last = got if len(got.events) else last
                count = result.count
                if self._uncommitted.is_too_much(is_blocked=False):
                    self._commit()
            if is_left:
                state = "lost"
            elif got is Waiting.END and has_ended(self._analysis, self._names, last):
                state = "ended"
            source.close()
        except TraceFormatError as error:
            log(str(error))
        opened = (
            OpenCalls.of(self._analysis.stacks, self._analysis.steps, count) if count else OpenCalls.none()
        )
        last_records = PackedRecords() if state == "lost" else self._analysis.finish()
        self._hand_out()
        self._commit(last_records, state)
        yield replace(self._closed(ALL_EPOCHS), opened=opened, is_broken=state == "broken")

    def _hand_out(self) -> None:
        """Hand out what was learned since the last time."""
        given = self._given
        given.findings.append(self._analysis.hand_out(given.generation))

    def _commit(self, last: PackedRecords | None = None, state: str = READING) -> None:
        """Put what the steps since the last commit have found, and the records ``last`` after that."""
        frame = self._told.frame(self._analysis, self._names, self._uncommitted, last, state)
        self._told = self._told.after(frame, self._analysis.end_us, self._period_us)
        self._put(self.key, frame)
        self._uncommitted.clear()
        self._uncommitted_rows = 0

    def _closed(self, epoch: int) -> EpochClosed:
        given = self._given
        sizes = len(self._names.timers), len(self._names.metadata)
        names = self._names if sizes != given.sizes or epoch == ALL_EPOCHS else None
        self._given = _Given(given.generation + 1, sizes=sizes)
        return EpochClosed(self.key, epoch, given.findings, given.steps, names)


class _Given(msgspec.Struct):
    """Results that a stream has handed out since it closed its last epoch."""

    generation: int = 0
    """Number of epochs that it has closed."""
    findings: list[Findings] = msgspec.field(default_factory=list)
    steps: list[StepCount] = msgspec.field(default_factory=list)
    sizes: tuple[int, int] = (0, 0)
    """Numbers of timers and of metadata that are named."""
