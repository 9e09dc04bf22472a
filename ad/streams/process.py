"""Process of one stream: reads it, analyses it, spools the findings. Nothing else.

It never compiles, connects or waits for anything but its stream, and in lockstep for the others.

What steps have brought is *committed* together: statistics go to the agent, findings to the spool, and the
state of the analysis into a checkpoint. Killed at any moment, the process leaves the last commit, and its
successor continues from there: over files as if nothing had been, since steps are given back only after their
commit; over SST after a gap.
"""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from pathlib import Path

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.ad.detectors import make_detector
from chimbuko.ad.handoff.exchange import Cell, ExchangeBox, Phase
from chimbuko.ad.handoff.flightrecorder import FlightRecorder
from chimbuko.ad.handoff.looksfile import LooksFile
from chimbuko.ad.handoff.namesfile import NamesFile
from chimbuko.ad.handoff.notifiers import AgentNotifier
from chimbuko.ad.handoff.opencalls import OpenCallsFile
from chimbuko.ad.handoff.processspecs import NO_MEMORY, StreamProcessSpec, claim
from chimbuko.ad.handoff.shortage import ShortageReporter, StreamPart
from chimbuko.ad.handoff.sparsefile import is_out_of_memory
from chimbuko.ad.handoff.spool import SpoolFrame, SpoolWriter
from chimbuko.ad.streams.commits import CommitSchedule, Told, Uncommitted
from chimbuko.ad.streams.sources import epoch_of, has_ended, open_source
from chimbuko.ad.streams.streamcheckpoint import Checkpoint, CheckpointFiles
from chimbuko.capture.follow.presence import Role, announce
from chimbuko.capture.trace.discovery import Transport
from chimbuko.capture.trace.source import TraceSource, Waiting
from chimbuko.core.calls.record import (
    NO_ROOM_OPEN_CALLS,
    NO_ROOM_RECORDERS,
    NO_ROOM_RECORDS,
    NO_ROOM_STEPS,
    READING,
)
from chimbuko.core.calls.recordarrays import PackedRecords
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.sourcecensus import census_beside
from chimbuko.core.traceschema import EventType, StreamNames, TraceStep
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.process.signals import END
from chimbuko.runtime.protocol.messages import ALL_EPOCHS, NO_EPOCH

EPOCH_WAIT_S = 0.1
"""Time in seconds between two checks whether to go on waiting for the other streams; a model wakes the
process at once.
"""
BUSY_POLL_S = 0.001
"""Time in seconds between two attempts to commit while the agent is at the same file."""
COMMIT_TRIES = 20
MOST_TRIES = 1000
ROOM_POLL_S = 0.05
LAST_ROOM_S = 3.0
"""Time in seconds for which room is waited for where nobody writes the stream any more."""


class StreamProcess:
    """Reader that drains one stream to its end, or until it is asked to leave that to a successor
    (``END``).
    """

    def __init__(self, spec: StreamProcessSpec, notifier: AgentNotifier) -> None:
        self._spec = spec
        self._notifier = notifier
        schema = make_detector(spec.config).schema
        self._claim = claim(Path(spec.box).parent)
        self._box = ExchangeBox(Path(spec.box), schema, spec.program, spec.rank)
        self._box[Cell.PHASE] = Phase.OPENING
        self._shortage = ShortageReporter(self._box.shortage)
        self._spool = SpoolWriter(Path(spec.spool), spec.key, spec.config.spool_limit_bytes)
        self._names = StreamNames()
        self._names_file = NamesFile(Path(spec.names))
        self._names_file.load_into(self._names)
        self._open_calls = OpenCallsFile(Path(spec.open_calls))
        self._looks = LooksFile(Path(spec.looks))
        self._recorder = FlightRecorder(Path(spec.recorder), spec.config.recorder_bytes, spec.rank)
        self._recorded_to = self._recorder.last_step
        self._source: TraceSource | None = None
        self._uncommitted = Uncommitted()
        self._schedule = CommitSchedule(spec.config, can_wait=spec.transport is Transport.FILES)
        self._is_asked_to_go = False
        self._checkpoints = CheckpointFiles(Path(spec.box).parent)
        self._begin(self._checkpoints.load(self._box[Cell.ACTIVE], self._names))
        if not self._recorder.has_room:
            self._go_without(StreamPart.RECORDER, NO_ROOM_RECORDERS)
        if not self._open_calls.has_room:
            self._go_without(StreamPart.OPEN_CALLS, NO_ROOM_OPEN_CALLS)

    def _go_without(self, part: StreamPart, kind: str) -> None:
        self._shortage.note(part)
        if not self._analysis.has_lost(kind):
            self._analysis.lose(kind)

    def _begin(self, kept: Checkpoint | None) -> None:
        """Continue where a predecessor was, or begin."""
        spec = self._spec
        if kept is None:
            identity = StreamIdentity(spec.program, spec.rank, spec.node)
            self._analysis = StreamAnalysis(identity, spec.config)
            # Where there was no room for a checkpoint, only the totals are known.
            self._analysis.follow(self._box.next_step, self._spool.health)
            self._epoch = NO_EPOCH
            self._told = Told()
            self._open_calls.forget()
            return
        self._analysis, self._epoch, self._told = kept.analysis, kept.epoch, kept.told
        self._open_calls.go_on(self._analysis.stacks, kept.reports_seen)
        self._box.take_model(self._analysis)
        if kept.frame is not None and self._spool.next_sequence == kept.sequence:
            self._spool.append(kept.frame)

    def run(self) -> None:
        """Read to the end, or until asked to stop."""
        signal.signal(END, self._ask_to_go)
        # The agent sends it when it has written to the exchange: it ends a wait for the next step.
        signal.signal(signal.SIGCONT, lambda *_: None)
        # Before it asks to be let in: stopped from then on it holds up its writer.
        self._announce(Role.JOINING if self._spec.transport is Transport.SST else Role.READING)
        try:
            self._source = open_source(self._spec, self._analysis.stacks.last_step + 1, self._names)
            phase = self._drain(self._source)
        except TraceFormatError as error:
            log(str(error))
            phase = Phase.BROKEN
        except MemoryError:
            if self._source is not None:
                # Over SST the writer must not wait for a reader that is gone.
                self._source.close()
            raise
        is_over = phase is not Phase.IDLE
        if is_over and self._source is not None:
            self._analysis.end(self._source.written_steps)
        if is_over:
            self._analysis.note_source(census_beside(Path(self._spec.path)))
        records = self._analysis.finish() if is_over else None
        state = {Phase.ENDED: "ended", Phase.BROKEN: "broken"}.get(phase, READING)
        is_committed = self._commit_surely(records, state)
        is_last = is_over or self._spec.transport is Transport.SST
        if self._shortage.is_blocking and is_last:
            # In files the steps would be there for a successor.
            self._lose_results()
            is_committed = True
        if self._source is not None:
            self._source.close()
        self._leave_findings(state)
        # This comes last: for a stream that is over nobody does anything any more.
        if is_over and is_committed:
            self._box[Cell.CLOSED_EPOCH] = ALL_EPOCHS
            self._box[Cell.PHASE] = phase
        self._notifier.notify()

    def _ask_to_go(self, signum: int, frame: object) -> None:
        """Note the request to stop: a reader that dies in a bad moment takes an SST writer with it."""
        self._is_asked_to_go = True

    def _drain(self, source: TraceSource) -> Phase:
        last = None
        while not self._is_asked_to_go:
            self._box[Cell.PHASE] = Phase.OPENING if source.is_joining else Phase.IDLE
            got = source.next_step(self._commit_in_s)
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
                is_complete = got is Waiting.END and has_ended(self._analysis, self._names, last)
                return Phase.ENDED if is_complete else Phase.BROKEN
            elif self._box[Cell.IS_ALL_WRITTEN]:
                source.end()
            is_too_much = self._uncommitted.is_too_much(self._shortage.is_blocking)
            if is_too_much and not self._commit_surely() and self._shortage.is_blocking:
                self._lose_results()
            if self._commit_in_s == 0.0:
                self._commit()
        return Phase.IDLE

    @property
    def _commit_in_s(self) -> float | None:
        """Return the time until the next commit is due, in seconds; None if nothing waits for one."""
        if not self._uncommitted or self._spec.config.lockstep:
            return None
        return max(self._schedule.due_s() - time.monotonic(), 0.0)

    def _lose_results(self) -> None:
        """Give up the findings of the waiting steps, for which there is no room; their statistics are still
        kept.
        """
        self._uncommitted.give_up(self._spool)
        self._count_lost()
        self._shortage.report(self._analysis.health(READING))

    def _leave_findings(self, state: str) -> None:
        """Wait, before the end, a moment for room for the last findings; those that find none are lost."""
        latest_s = time.monotonic() + LAST_ROOM_S
        while not self._spool.has_room and time.monotonic() < latest_s and not self._is_asked_to_go:
            time.sleep(ROOM_POLL_S)
            self._append(SpoolFrame(PackedRecords(), [], [], self._analysis.health(state)))
        if not self._spool.has_room:
            self._spool.give_up_held()
            self._count_lost()
        self._shortage.report(self._analysis.health(state))

    def _append(self, frame: SpoolFrame) -> None:
        self._spool.append(frame)
        self._count_lost()
        if not self._spool.has_room:
            self._shortage.note(StreamPart.FINDINGS)

    def _count_lost(self) -> None:
        spool = self._spool
        for kind, lost in ((NO_ROOM_RECORDS, spool.lost_records), (NO_ROOM_STEPS, spool.lost_steps)):
            if lost:
                self._analysis.lose(kind, lost)
        spool.lost_records = spool.lost_steps = 0

    def _announce(self, role: Role) -> None:
        """Tell the guard which role this process has for the stream's writer."""
        self._role = role
        if self._spec.guarded:
            # Where there is no room for the registration, the guard does not know of it.
            with suppress(OSError):
                announce(self._spec.guarded, f"reader-{self._spec.key}", role)

    def _step(self, step: TraceStep) -> None:
        self._save_names()
        if self._spec.config.lockstep and not self._enter_epoch(step):
            return
        # Before the analysis: the recorder shall also hold the step that kills this process.
        if step.step > self._recorded_to:
            entry = self._names.event_type_id(EventType.ENTRY)
            self._recorder.append(step, self._open_calls.entries(entry))
        self._analysis.expect(self._open_calls.new_reports())
        limit = self._analysis.flood_limit
        limit.least_us = self._box[Cell.LEAST_US]
        result = self._analysis.analyse(step, self._names)
        self._box.offered[:] = limit.offered
        self._analysis.read_looks(self._looks.take(result.count.end_us))
        self._uncommitted.add(result)
        self._schedule.note(result, step.size_bytes, self._analysis.steps)
        self._open_calls.publish(self._analysis.stacks, result.count)

    def _save_names(self) -> bool:
        """Save the names; return False where there is no room for them, since nobody can use a commit
        without.
        """
        try:
            if self._names_file.save(self._names):
                self._box[Cell.NAMES_VERSION] += 1
        except OSError:
            self._shortage.block(StreamPart.NAMES)
            return False
        return True

    def _enter_epoch(self, step: TraceStep) -> bool:
        """Close the epochs before the step's, and wait until all streams have; return False if asked to
        stop.
        """
        epoch = epoch_of(step, self._spec.config.period_us)
        if epoch <= self._epoch:
            return True
        self._commit_surely()
        self._box[Cell.CLOSED_EPOCH] = epoch - 1
        self._box[Cell.PHASE] = Phase.WAITING
        self._notifier.notify()
        while not self._box.wait_for_epoch(epoch - 1, EPOCH_WAIT_S):
            if self._is_asked_to_go:
                return False
        # A successor takes it, too: there is no newer one before all streams have closed the next epoch.
        self._box.take_model(self._analysis)
        self._epoch = epoch
        self._box[Cell.PHASE] = Phase.READING
        return not self._is_asked_to_go

    def _commit(self) -> None:
        """Commit what the steps since the last commit have brought, if the agent does not hold the lock."""
        for _ in range(COMMIT_TRIES):
            began_s = time.thread_time()
            if self._try_commit() or self._shortage.is_blocking:
                break
            time.sleep(BUSY_POLL_S)
        # To wait for the agent, or for a core, is no work.
        self._schedule.tried(time.monotonic(), time.thread_time() - began_s)

    def _commit_surely(self, records: PackedRecords | None = None, state: str = READING) -> bool:
        """Commit, even while the agent is busy; return False where it stays so after this process is asked to
        stop, and where there is no room and no time to wait for it.
        """
        tries = 0
        while not self._try_commit(records, state):
            tries += self._is_asked_to_go
            if tries > MOST_TRIES or (self._shortage.is_blocking and not self._can_wait):
                return False
            if self._shortage.is_blocking:
                # The process is not stuck, and must not be replaced.
                self._box[Cell.LOOKS] += 1
            time.sleep(ROOM_POLL_S if self._shortage.is_blocking else BUSY_POLL_S)
        return True

    @property
    def _can_wait(self) -> bool:
        """Return whether steps may wait for room. In files they do as long as they are written; over SST that
        would hold up the program.
        """
        if self._spec.transport is Transport.SST or self._is_asked_to_go:
            return False
        is_written = self._spec.transport is Transport.FILES and not self._box[Cell.IS_ALL_WRITTEN]
        return is_written or self._shortage.blocked_s < LAST_ROOM_S

    def _try_commit(self, records: PackedRecords | None = None, state: str = READING) -> bool:
        if not self._save_names():
            self._shortage.report(self._analysis.health(state))
            return False
        frame = self._told.frame(self._analysis, self._names, self._uncommitted, records, state)
        kept = Checkpoint(
            analysis=self._analysis,
            epoch=self._epoch,
            reports_seen=self._open_calls.reports_seen,
            told=self._told,
            frame=frame if frame.steps or records is not None else None,
            sequence=self._spool.next_sequence,
        )
        if kept.frame is not None:
            # At the turn of an epoch, in lockstep, there is no step, and nothing of this goes out.
            kept.told = self._told.after(frame, self._analysis.end_us, self._spec.config.period_us)
        try:
            is_exchanged = self._box.exchange(
                self._analysis, frame.steps, lambda slot: self._checkpoints.save(slot, kept)
            )
        except OSError:
            self._shortage.block(StreamPart.STATISTICS)
            self._shortage.report(frame.health)
            return False
        self._shortage.unblock()
        if not is_exchanged:
            return False
        if self._checkpoints.is_failing:
            self._shortage.note(StreamPart.CHECKPOINT)
        if kept.frame is not None:
            self._append(kept.frame)
        self._shortage.report(frame.health)
        self._told = kept.told
        self._uncommitted.clear()
        if not (self._spec.config.lockstep or self._schedule.is_quiet):
            self._notifier.notify()
        self._schedule.done(time.monotonic())
        if self._source is not None:
            self._source.give_back(self._analysis.stacks.last_step + 1)
        return True


def run_child(spec: StreamProcessSpec, notifier: AgentNotifier) -> int:
    """Run a stream's process; return its exit code, ``NO_MEMORY`` where memory ran out."""
    try:
        StreamProcess(spec, notifier).run()
    except (MemoryError, OSError) as error:
        if not is_out_of_memory(error):
            raise
        log(f"{spec.path}: no memory left to read it; raise the limit on it (ulimit -v)")
        return NO_MEMORY
    return 0
