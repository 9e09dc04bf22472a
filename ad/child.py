"""The process of one stream: reads it, analyses it, spools what it found. Nothing else.

It never compiles, connects or waits for anything but its stream, and in lockstep for the others.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from chimbuko.ad.analysis import StepResult, StreamAnalysis
from chimbuko.ad.detectors import make_detector
from chimbuko.ad.exchange import Cell, ExchangeBox, Phase
from chimbuko.ad.flightrecorder import FlightRecorder
from chimbuko.ad.identity import StreamIdentity
from chimbuko.ad.opencalls import OpenCallsFile
from chimbuko.ad.orders import ChildSpec
from chimbuko.ad.spool import SpoolWriter
from chimbuko.ad.stacks import MAIN_THREAD
from chimbuko.errors import TraceFormatError
from chimbuko.messages import ALL_EPOCHS, NO_EPOCH
from chimbuko.processes import log
from chimbuko.records import Metadata, StepCount, StreamHealth
from chimbuko.trace.reader import WAIT, StreamReader, Waiting
from chimbuko.trace.schema import ROOT_TIMER_NAME, EventType, StreamNames, TraceStep

NAMES = "names"
"""File of a stream's folder with its names."""
RECORDED_SILENCE_S = 1.0
"""A recorded stream that gives no step for so long has no end: its writer died."""
LOCKSTEP_POLL_S = 0.001
LOST_STATISTICS = "steps whose statistics died with their reader"
EXCHANGE_PERIOD_S = 0.05
"""The agent takes what was learned once a second: an exchange, 0.2 ms, after each of many small steps
buys nothing."""
EXCHANGE_SHARE = 0.02
"""Part of the time that exchanges may take: of 5,000 functions one takes 12 ms."""


class NamesFile:
    """The stream's names, for the agent, and for a successor: SST repeats none to a late reader."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sizes: tuple[int, ...] = ()

    def load_into(self, names: StreamNames) -> None:
        """Fill in what an earlier process of this stream knew."""
        if self._path.exists():
            known = read_names(self._path)
            names.timers |= known.timers
            names.counters |= known.counters
            names.event_types |= known.event_types
            names.metadata |= known.metadata
            names.program = known.program

    def save(self, names: StreamNames) -> bool:
        """Write atomically; False if nothing is new."""
        sizes = (len(names.timers), len(names.counters), len(names.event_types), len(names.metadata))
        if sizes == self._sizes:
            return False
        self._sizes = sizes
        temporary = self._path.with_suffix(".tmp")
        temporary.write_bytes(msgspec.msgpack.encode(names))
        os.replace(temporary, self._path)
        return True


def read_names(path: Path) -> StreamNames:
    """The names that a stream's process saved."""
    return msgspec.msgpack.decode(path.read_bytes(), type=StreamNames)


def totals_of(spool: SpoolWriter, learned_steps: int) -> StreamHealth | None:
    """Of the processes that have read a stream, and what was lost with them; None where there were none."""
    if spool.health is None:
        return None
    lost = spool.health.steps - learned_steps
    losses = spool.health.losses | ({LOST_STATISTICS: lost} if lost > 0 else {})
    return msgspec.structs.replace(spool.health, losses=losses)


class StreamChild:
    """Drains one stream to its end."""

    def __init__(self, spec: ChildSpec) -> None:
        self._spec = spec
        schema = make_detector(spec.config).schema
        self._box = ExchangeBox(Path(spec.box), schema, spec.program, spec.rank)
        self._box[Cell.PHASE] = Phase.OPENING
        self._spool = SpoolWriter(Path(spec.spool), spec.key, spec.config.spool_limit_bytes)
        self._names_file = NamesFile(Path(spec.names))
        self._open_calls = OpenCallsFile(Path(spec.open_calls))
        self._open_calls.forget()
        # The rows of a recorded stream are in its file.
        recorder_bytes = spec.config.recorder_bytes if spec.engine == "SST" else 0
        self._recorder = FlightRecorder(Path(spec.recorder), recorder_bytes, spec.rank)
        self._analysis = StreamAnalysis(
            StreamIdentity(spec.program, spec.rank, spec.node),
            spec.config,
            totals_of(self._spool, self._box.learned_steps),
            self._spool.last_step,
            self._spool.counter_statistics,
        )
        self._known_metadata: set[tuple[int, int, str]] = set()
        self._counters_due_us = 0
        self._epoch = NO_EPOCH
        self._exchange_at_s = 0.0
        self._steps: list[StepCount] = []
        """Since the last exchange."""

    def run(self) -> None:
        """Read to the end."""
        spec = self._spec
        try:
            with _undisturbed():
                reader = StreamReader(
                    Path(spec.path), spec.engine, rank=spec.rank, first_rank=spec.first_rank
                )
                if signal.SIGTERM in signal.sigpending():
                    # Just let in, its death still took the writer with it in 4 of 30 cases; closing in none.
                    reader.close()
            self._names_file.load_into(reader.names)
            phase = self._drain(reader)
            reader.close()
        except TraceFormatError as error:
            log(str(error))
            phase = Phase.BROKEN
        self._end(phase)

    def _drain(self, reader: StreamReader) -> Phase:
        timeout_s = WAIT if self._spec.engine == "SST" else RECORDED_SILENCE_S
        last = None
        while True:
            self._box[Cell.PHASE] = Phase.IDLE
            got = reader.next_step(timeout_s)
            self._box[Cell.HEARTBEAT] += 1
            self._box[Cell.PHASE] = Phase.READING
            if not isinstance(got, TraceStep):
                is_complete = got is Waiting.END and self._has_ended(last, reader.names)
                return Phase.ENDED if is_complete else Phase.BROKEN
            self._step(got, reader.names)
            # A step without events leaves the arrays of the one before as they are.
            last = got if len(got.events) else last

    def _has_ended(self, last: TraceStep | None, names: StreamNames) -> bool:
        """Whether the program was seen to end. A last step that was never written, or thrown away because
        the reader was too slow, leaves no gap behind it."""
        if ROOT_TIMER_NAME not in names.timers.values():
            return not self._analysis.stacks.is_main_open
        timer = None if last is None else last.last_timer(MAIN_THREAD)
        return timer is not None and names.timers.get(timer) == ROOT_TIMER_NAME

    def _step(self, step: TraceStep, names: StreamNames) -> None:
        if self._names_file.save(names):
            self._box[Cell.NAMES_VERSION] += 1
        if self._spec.config.lockstep:
            self._enter_epoch(step)
        # Before the analysis: the recorder shall also hold the step that kills this process.
        self._recorder.append(step, self._open_calls.entries(names.event_type_id(EventType.ENTRY)))
        self._analysis.expect(self._open_calls.new_reports())
        result = self._analysis.analyse(step, names)
        self._append(result, names)
        self._steps.append(result.count)
        self._open_calls.tell(self._analysis.stacks, result.count)
        began_s = time.monotonic()
        if not self._spec.config.lockstep and began_s >= self._exchange_at_s:
            self._exchange()
            took_s = time.monotonic() - began_s
            self._exchange_at_s = began_s + max(EXCHANGE_PERIOD_S, took_s / EXCHANGE_SHARE)

    def _exchange(self) -> bool:
        # What is half written when the agent dies would be thrown away, with all that was held back.
        with _undisturbed():
            is_done = self._box.exchange(self._analysis, self._steps)
        if is_done:
            self._steps.clear()
        return is_done

    def _enter_epoch(self, step: TraceStep) -> None:
        """Close the epochs before the step's, and wait until all streams have."""
        interval_us = step.interval_us()
        if interval_us is None:
            return
        epoch = interval_us[1] // self._spec.config.period_us
        if epoch <= self._epoch:
            return
        self._epoch = epoch
        while not self._exchange():
            time.sleep(LOCKSTEP_POLL_S)
        self._box[Cell.CLOSED_EPOCH] = epoch - 1
        self._box[Cell.PHASE] = Phase.WAITING
        while self._box[Cell.MODEL_EPOCH] < epoch - 1:
            time.sleep(LOCKSTEP_POLL_S)
        while not self._exchange():
            time.sleep(LOCKSTEP_POLL_S)
        self._box[Cell.PHASE] = Phase.READING

    def _end(self, phase: Phase) -> None:
        records = self._analysis.finish()
        state = "ended" if phase is Phase.ENDED else "broken"
        health, counters = self._analysis.health(state), self._analysis.counter_statistics()
        self._spool.append(records, [], [], health, counters)
        while not self._exchange():
            time.sleep(LOCKSTEP_POLL_S)
        self._box[Cell.CLOSED_EPOCH] = ALL_EPOCHS
        self._box[Cell.PHASE] = phase

    def _append(self, result: StepResult, names: StreamNames) -> None:
        counters = None
        if result.count.end_us >= self._counters_due_us:
            self._counters_due_us = result.count.end_us + self._spec.config.period_us
            counters = self._analysis.counter_statistics()
        health, metadata = self._analysis.health("reading"), self._new_metadata(names)
        self._spool.dropped.update(result.left_out)
        self._spool.append(result.records, [result.count], metadata, health, counters)

    def _new_metadata(self, names: StreamNames) -> list[Metadata]:
        if len(names.metadata) == len(self._known_metadata):
            return []
        new = names.metadata.keys() - self._known_metadata
        self._known_metadata |= new
        return [
            Metadata(self._spec.program, rank, thread, key, names.metadata[rank, thread, key])
            for rank, thread, key in sorted(new)
        ]


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Put off the end that the agent's death brings (SIGTERM): until the stream is open, above all.

    A reader that dies between asking to be let in and being let in, at the stream's next step, takes the
    writer with it: in ADIOS2 2.12 that crashes or waits for ever. From then on its death is harmless.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def run_child(spec: ChildSpec) -> None:
    """Body of a stream's process."""
    StreamChild(spec).run()
