"""The process of one stream: reads it, analyses it, spools what it found. Nothing else.

It never compiles, connects or waits for anything but its stream, and in lockstep for the others.

What steps have brought is *committed* together: statistics go to the agent, findings to the spool, and the
state of the analysis into a checkpoint. Killed at any moment, the process leaves the last commit, and its
successor goes on from there: over files as if nothing had been, since steps are given back only after their
commit; over SST behind a gap.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import msgspec

from chimbuko.ad import exchange
from chimbuko.ad.analysis import StepResult, StreamAnalysis
from chimbuko.ad.checkpoint import Checkpoint, CheckpointFiles
from chimbuko.ad.detectors import make_detector
from chimbuko.ad.exchange import Cell, ExchangeBox, Phase
from chimbuko.ad.flightrecorder import FlightRecorder
from chimbuko.ad.identity import StreamIdentity
from chimbuko.ad.opencalls import OpenCallsFile
from chimbuko.ad.orders import ChildSpec
from chimbuko.ad.sources import Source, open_source
from chimbuko.ad.spool import SpoolFrame, SpoolWriter
from chimbuko.ad.stacks import MAIN_THREAD
from chimbuko.errors import TraceFormatError
from chimbuko.follow.presence import Role, announce
from chimbuko.messages import ALL_EPOCHS, NO_EPOCH
from chimbuko.packed import PackedRecords, joined
from chimbuko.processes import log
from chimbuko.records import Metadata
from chimbuko.trace.discovery import Transport
from chimbuko.trace.reader import Waiting
from chimbuko.trace.schema import ROOT_TIMER_NAME, EventType, StreamNames, TraceStep

NAMES = "names"
"""File of a stream's folder with its names."""
READER = "reader"
"""File of a stream's folder with the id of the process that reads it."""
READING = "reading"
"""State of a stream that goes on."""
LOCKSTEP_POLL_S = 0.001
COMMIT_TRIES = 20
MOST_TRIES = 1000
COMMIT_PERIOD_S = 0.05
"""What steps have brought is committed so often at most: after each of many small steps it buys nothing."""
COMMIT_SHARE = 0.02
"""Part of the time that commits may take: of 5,000 functions one takes some 20 ms."""


class NamesFile:
    """The stream's names, for the agent, and for a successor."""

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


class StreamChild:
    """Drains one stream to its end, or until it is asked to leave that to a successor (SIGTERM)."""

    def __init__(self, spec: ChildSpec) -> None:
        self._spec = spec
        schema = make_detector(spec.config).schema
        self._claim = _claim(Path(spec.box).parent)
        self._box = ExchangeBox(Path(spec.box), schema, spec.program, spec.rank)
        self._box[Cell.PHASE] = Phase.OPENING
        self._spool = SpoolWriter(Path(spec.spool), spec.key, spec.config.spool_limit_bytes)
        self._names = StreamNames()
        self._names_file = NamesFile(Path(spec.names))
        self._names_file.load_into(self._names)
        self._open_calls = OpenCallsFile(Path(spec.open_calls))
        # The rows of a recorded stream are in its file.
        recorder_bytes = 0 if spec.transport is Transport.RECORDED else spec.config.recorder_bytes
        self._recorder = FlightRecorder(Path(spec.recorder), recorder_bytes, spec.rank)
        self._recorded_to = self._recorder.last_step
        self._source: Source | None = None
        self._results: list[StepResult] = []
        """Since the last commit."""
        self._commit_at_s = 0.0
        self._commit_took_s = 0.0
        self._is_asked_to_go = False
        self._checkpoints = CheckpointFiles(Path(spec.box).parent)
        self._begin(self._checkpoints.load(self._box[Cell.ACTIVE], self._names))

    def _begin(self, kept: Checkpoint | None) -> None:
        """Go on where a predecessor was, or begin."""
        spec = self._spec
        if kept is None:
            identity = StreamIdentity(spec.program, spec.rank, spec.node)
            self._analysis = StreamAnalysis(identity, spec.config)
            # Where there was no room for a checkpoint, that is all that is known.
            self._analysis.follow(self._box.next_step, self._spool.health)
            self._epoch = NO_EPOCH
            self._counters_due_us = 0
            self._known_metadata: set[tuple[int, int, str]] = set()
            self._open_calls.forget()
            return
        self._analysis, self._epoch = kept.analysis, kept.epoch
        self._counters_due_us, self._known_metadata = kept.counters_due_us, kept.known_metadata
        self._open_calls.go_on(self._analysis.stacks, kept.reports_seen)
        self._box.take_model(self._analysis)
        if kept.frame is not None and self._spool.next_sequence == kept.sequence:
            self._spool.append(kept.frame)

    def run(self) -> None:
        """Read to the end, or until asked to go."""
        signal.signal(signal.SIGTERM, self._ask_to_go)
        # Before it asks to be let in: stopped from then on it holds up its writer.
        self._announce(Role.JOINING if self._spec.transport is Transport.SST else Role.READING)
        try:
            self._source = open_source(self._spec, self._analysis.stacks.last_step + 1, self._names)
            phase = self._drain(self._source)
        except TraceFormatError as error:
            log(str(error))
            phase = Phase.BROKEN
        is_over = phase is not Phase.IDLE
        if is_over and self._source is not None:
            self._analysis.end(self._source.written_steps)
        records = self._analysis.finish() if is_over else None
        state = {Phase.ENDED: "ended", Phase.BROKEN: "broken"}.get(phase, READING)
        is_committed = self._commit_surely(records, state)
        if self._source is not None:
            self._source.close()
        # Last of all: for a stream that is over nobody does anything any more.
        if is_over and is_committed:
            self._box[Cell.CLOSED_EPOCH] = ALL_EPOCHS
            self._box[Cell.PHASE] = phase

    def _ask_to_go(self, signum: int, frame: object) -> None:
        """A reader that dies in a bad moment takes an SST writer with it: so this only leaves word."""
        self._is_asked_to_go = True

    def _drain(self, source: Source) -> Phase:
        last = None
        while not self._is_asked_to_go:
            self._box[Cell.PHASE] = Phase.OPENING if source.is_joining else Phase.IDLE
            # What could not be committed is tried again soon, and not only with the next step.
            got = source.next_step(COMMIT_PERIOD_S if self._results else None)
            self._box[Cell.LOOKS] += 1
            self._box[Cell.HEARTBEAT] += got is not Waiting.NOT_READY
            self._box[Cell.PHASE] = Phase.READING
            if self._role is Role.JOINING:
                self._announce(Role.READING)
            if self._is_asked_to_go:
                # This step is the successor's, or lost: whoever gave this process up speaks for it by now.
                break
            if isinstance(got, TraceStep):
                self._step(got)
                # A step without events leaves the arrays of the one before as they are.
                last = got if len(got.events) else last
            elif got is not Waiting.NOT_READY:
                is_complete = got is Waiting.END and self._has_ended(last)
                return Phase.ENDED if is_complete else Phase.BROKEN
            elif self._box[Cell.IS_ALL_WRITTEN]:
                source.end()
            if len(self._results) > exchange.MOST_STEPS // 4:
                # More than the outbox holds could never be committed: then better wait.
                self._commit_surely()
            if self._results and not self._spec.config.lockstep and time.monotonic() >= self._commit_at_s:
                self._commit()
        return Phase.IDLE

    def _announce(self, role: Role) -> None:
        """Tell the guard what this process is to the stream's writer."""
        self._role = role
        if self._spec.guarded:
            # Without room for a word, the guard does not know of it.
            with suppress(OSError):
                announce(self._spec.guarded, f"reader-{self._spec.key}", role)

    def _has_ended(self, last: TraceStep | None) -> bool:
        """Whether the program was seen to end. A last step that was never written, or thrown away because
        the reader was too slow, leaves no gap behind it."""
        timers = self._names.timers
        analysis = self._analysis
        if ROOT_TIMER_NAME not in timers.values():
            return not analysis.stacks.is_main_open
        if last is None:
            # A predecessor has analysed the last step, or there was no call in any.
            return analysis.health(READING).calls > 0 and not analysis.stacks.is_main_open
        timer = last.last_timer(MAIN_THREAD)
        return timer is not None and timers.get(timer) == ROOT_TIMER_NAME

    def _step(self, step: TraceStep) -> None:
        if self._names_file.save(self._names):
            self._box[Cell.NAMES_VERSION] += 1
        if self._spec.config.lockstep and not self._enter_epoch(step):
            return
        # Before the analysis: the recorder shall also hold the step that kills this process.
        if step.step > self._recorded_to:
            entry = self._names.event_type_id(EventType.ENTRY)
            self._recorder.append(step, self._open_calls.entries(entry))
        self._analysis.expect(self._open_calls.new_reports())
        result = self._analysis.analyse(step, self._names)
        self._results.append(result)
        self._open_calls.tell(self._analysis.stacks, result.count)

    def _enter_epoch(self, step: TraceStep) -> bool:
        """Close the epochs before the step's, and wait until all streams have; False if asked to go."""
        interval_us = step.interval_us()
        epoch = NO_EPOCH if interval_us is None else interval_us[1] // self._spec.config.period_us
        if epoch <= self._epoch:
            return True
        self._commit_surely()
        self._box[Cell.CLOSED_EPOCH] = epoch - 1
        self._box[Cell.PHASE] = Phase.WAITING
        while self._box[Cell.MODEL_EPOCH] < epoch - 1:
            if self._is_asked_to_go:
                return False
            time.sleep(LOCKSTEP_POLL_S)
        # From here on a successor judges by the model that has just come.
        self._epoch = epoch
        self._commit_surely()
        self._box[Cell.PHASE] = Phase.READING
        return not self._is_asked_to_go

    def _commit(self) -> None:
        """Commit what the steps since the last commit have brought, if the agent lets."""
        for _ in range(COMMIT_TRIES):
            began_s = time.thread_time()
            if self._try_commit():
                break
            time.sleep(LOCKSTEP_POLL_S)
        # To wait for the agent, or for a core, is no work; and the first one, in cold memory, does not tell
        # what the next ones take.
        before_s, self._commit_took_s = self._commit_took_s, time.thread_time() - began_s
        usual_s = min(before_s, self._commit_took_s)
        self._commit_at_s = time.monotonic() + max(COMMIT_PERIOD_S, usual_s / COMMIT_SHARE)

    def _commit_surely(self, records: PackedRecords | None = None, state: str = READING) -> bool:
        """Commit, also while the agent is busy; false where it stays so after this process is asked to go."""
        tries = 0
        while not self._try_commit(records, state):
            tries += self._is_asked_to_go
            if tries > MOST_TRIES:
                return False
            time.sleep(LOCKSTEP_POLL_S)
        return True

    def _try_commit(self, records: PackedRecords | None = None, state: str = READING) -> bool:
        frame = self._frame(records, state)
        kept = Checkpoint(
            analysis=self._analysis,
            epoch=self._epoch,
            reports_seen=self._open_calls.reports_seen,
            known_metadata=self._known_metadata | {(m.rank, m.thread, m.key) for m in frame.metadata},
            counters_due_us=self._counters_due_us,
            frame=frame if frame.steps or records is not None else None,
            sequence=self._spool.next_sequence,
        )
        if frame.counter_statistics:
            kept.counters_due_us = self._analysis.end_us + self._spec.config.period_us
        if not self._box.exchange(
            self._analysis, frame.steps, lambda slot: self._checkpoints.save(slot, kept)
        ):
            return False
        if kept.frame is not None:
            self._spool.append(kept.frame)
        self._known_metadata, self._counters_due_us = kept.known_metadata, kept.counters_due_us
        self._results.clear()
        if self._source is not None:
            self._source.give_back(self._analysis.stacks.last_step + 1)
        return True

    def _frame(self, records: PackedRecords | None, state: str) -> SpoolFrame:
        """What the steps since the last commit have brought, and ``records`` behind it."""
        results, analysis = self._results, self._analysis
        left_out: Counter[str] = Counter()
        for result in results:
            left_out.update(result.left_out)
        made = [result.records for result in results] + ([] if records is None else [records])
        are_counters_due = records is not None or analysis.end_us >= self._counters_due_us
        return SpoolFrame(
            records=joined([part for part in made if part.heads] or [PackedRecords()]),
            steps=[result.count for result in results],
            metadata=self._new_metadata(),
            health=analysis.health(state),
            counter_statistics=analysis.counter_statistics() if are_counters_due else [],
            left_out=dict(left_out),
        )

    def _new_metadata(self) -> list[Metadata]:
        metadata = self._names.metadata
        new = metadata.keys() - self._known_metadata if len(metadata) > len(self._known_metadata) else ()
        return [
            Metadata(self._spec.program, rank, thread, key, metadata[rank, thread, key])
            for rank, thread, key in sorted(new)
        ]


def _claim(folder: Path) -> int:
    """Wait until no other process reads the stream, and keep others from it; the file says which one does.

    A predecessor that cannot end at once holds it until it has left its stream in order.
    """
    file = os.open(folder / READER, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.lockf(file, fcntl.LOCK_EX)
    os.ftruncate(file, 0)
    os.pwrite(file, str(os.getpid()).encode(), 0)
    return file


def run_child(spec: ChildSpec) -> None:
    """Body of a stream's process."""
    StreamChild(spec).run()
