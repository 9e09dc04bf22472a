"""The parameter server, or one part of it, between the broker, its state, and the file that the state is
saved in.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, assert_never, cast

import msgspec
import redis

from chimbuko.pserver.metrics import MetricsPort
from chimbuko.pserver.schedule import (
    READ_COUNT,
    BrokerFailed,
    Event,
    Hastened,
    Instruction,
    Life,
    MakeReport,
    Merged,
    ModelPublished,
    Pause,
    Publish,
    Read,
    ReportMade,
    ReportSought,
    RoundBegun,
    Save,
    Saved,
    Schedule,
    SeekReport,
    SendFrame,
    SendReport,
    StopAsked,
    WriteStory,
)
from chimbuko.pserver.state.modelversions import Published
from chimbuko.pserver.state.savedstate import SavedState, write_state
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.process.storyfile import write_story
from chimbuko.runtime.protocol.membership import decoded_silent, is_to_end
from chimbuko.runtime.protocol.messages import (
    PAYLOAD,
    Acknowledgement,
    Delta,
    ForeignMessage,
    Frame,
    RunStatistics,
)
from chimbuko.runtime.protocol.runbroker import PatientReader, RunBroker


class StoreReport:
    """Last report to the store, which may have to be sent again."""

    def __init__(self, broker: RunBroker) -> None:
        self._broker = broker
        self._payload = b""
        self._entry = b"0"
        """Id of the report in its Redis stream."""

    def make(self, statistics: RunStatistics) -> None:
        """Make it a new report."""
        self._payload = self._broker.seal.encode(statistics)

    def send(self) -> None:
        """Send it, if need be again."""
        entry = self._broker.client.xadd(self._broker.keys.statistics, {PAYLOAD: self._payload})
        self._entry = cast(bytes, entry)

    def is_taken(self) -> bool:
        """Return whether the store has taken it."""
        return not self._broker.client.xrange(self._broker.keys.statistics, self._entry, self._entry)


KEPT_BYTES = 32 << 20
"""Size of the frames that are kept; a reader that lags further asks for a snapshot."""
KEPT_FRAMES = 600
"""Number of the frames that are kept, of ten minutes: those of a small run took the broker 1.5 MB an hour."""


class FrameStream:
    """Stream of the frames of one server, the oldest of which are removed when all are too large or many."""

    def __init__(self, broker: RunBroker) -> None:
        self._broker = broker
        self._kept: deque[tuple[bytes, int]] = deque()
        """Ids and sizes in bytes of the frames that are kept."""
        self._size_bytes = 0
        """Size of all of them."""

    def send(self, frame: Frame) -> None:
        """Send a frame to all who read them."""
        payload = self._broker.seal.encode(frame)
        entry = self._broker.client.xadd(self._broker.keys.frames, {PAYLOAD: payload})
        self._kept.append((cast(bytes, entry), len(payload)))
        self._size_bytes += len(payload)
        self._trim()

    def _trim(self) -> None:
        oldest = self._kept[0]
        while len(self._kept) > 1 and (self._size_bytes > KEPT_BYTES or len(self._kept) > KEPT_FRAMES):
            self._size_bytes -= self._kept.popleft()[1]
        if self._kept[0] is not oldest:
            self._broker.client.xtrim(self._broker.keys.frames, minid=self._kept[0][0], approximate=False)


KEPT_UPDATES = 200
"""Number of model updates kept for agents that lag; one that lags further fetches all rows that it needs."""
MOST_ACKNOWLEDGED = 64
"""Maximum number of agents whose acknowledgements go into one live update, since each agent reads them.

Others get theirs a moment later.
"""

_deltas = msgspec.msgpack.Decoder(Delta)
_encoder = msgspec.msgpack.Encoder()


def _encoded(acknowledgements: dict[str, Acknowledgement]) -> dict[Any, Any]:
    return {name: _encoder.encode(place) for name, place in acknowledgements.items()}


class StateFile(msgspec.Struct, frozen=True):
    """Files in which the server's state is saved."""

    path: Path | None = None
    """File on local storage; without one, what is merged counts as saved."""
    copy: Path | None = None
    """Copy on storage that other nodes share, from which a server on another node goes on; it is older than
    the file.
    """


class Server:
    """The parameter server of one run, or one part of it, as a loop over the broker.

    The schedule decides what is done when; the loop tells it what happened, and does what it says. Nothing
    that the broker holds needs to outlast it: agents send again what is not saved, and the server publishes
    everything again after an error. Likewise the server reads again, from the beginning, all deltas that were
    not trimmed, and drops those that it has merged.

    Parameters
    ----------
    metrics
        Port at which Prometheus may ask.
    is_urgent
        Whether the server may be killed soon, and its node be gone.
    """

    def __init__(
        self,
        broker: RunBroker,
        state: ServerState,
        place: StateFile,
        metrics: MetricsPort | None = None,
        is_urgent: Callable[[], bool] = lambda: False,
    ) -> None:
        self._broker = broker
        self._part = broker.keys.part(state.part)
        self._state = state
        self._place = place
        self._metrics = metrics
        if metrics is not None:
            self._report_metrics(state.snapshot())
        self._is_urgent = is_urgent
        self._schedule = Schedule(state.is_lockstep, None not in (place.path, place.copy))
        self._reader = PatientReader(broker)
        self._read_to = b"0"
        self._frames = FrameStream(broker)
        self._report = StoreReport(broker)
        self._notified: set[str] = set()
        """Kinds of problems that the user has heard of."""

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Serve until asked to stop and nothing is left to merge."""
        try:
            while self._schedule.life is not Life.ENDED:
                self.serve_once(should_stop)
        finally:
            write_story(self._schedule.story)

    def serve_once(self, should_stop: Callable[[], bool]) -> None:
        """Serve for one round: merge new deltas, and do what is due then."""
        try:
            self._heed(should_stop)
            self._tell(RoundBegun(time.monotonic()))
        except redis.RedisError as error:
            log(f"broker does not answer ({error}); trying again")
            self._read_to = b"0"
            self._reader.read_again()
            self._heed(should_stop)
            self._tell(BrokerFailed(time.monotonic()))

    def _heed(self, should_stop: Callable[[], bool]) -> None:
        if should_stop():
            self._tell(StopAsked(time.monotonic()))

    def _tell(self, event: Event) -> None:
        """Tell the schedule what happened, and do what it says."""
        for instruction in self._schedule.handle(event):
            self._do(instruction)

    def _do(self, instruction: Instruction) -> None:
        match instruction:
            case Read():
                self._read(instruction)
            case Publish(is_whole=True):
                self._publish_whole()
            case Publish():
                self._publish_changes()
                self._acknowledge()
            case SendFrame():
                self._send_frame(instruction.is_last)
            case SeekReport():
                self._tell(ReportSought(time.monotonic(), self._report.is_taken()))
            case MakeReport():
                self._make_report(instruction.is_last)
            case SendReport():
                self._report.send()
            case Save():
                self._save(instruction)
            case WriteStory():
                write_story(self._schedule.story)
            case Pause():
                time.sleep(instruction.pause_s)
            case _:
                assert_never(instruction)

    def _read(self, read: Read) -> None:
        after = {self._part.deltas: self._read_to}
        (entries,), is_awaited = self._reader.read(after, READ_COUNT, read.wait_s)
        for entry, payload in entries:
            self._merge(entry, payload)
            if read.publishes_each:
                self._publish_changes()
        if self._is_urgent():
            self._tell(Hastened(time.monotonic()))
        self._tell(Merged(time.monotonic(), len(entries), is_awaited))

    def _name_programs(self, programs: Mapping[bytes, bytes]) -> None:
        self._state.name_programs({int(number): name.decode() for name, number in programs.items()})

    def _merge(self, entry: bytes, payload: bytes) -> None:
        self._read_to = entry
        try:
            delta = self._broker.seal.decode(payload, _deltas)
            if not self._state.knows_programs(delta):
                # The programs have their numbers before their first delta is sent.
                self._name_programs(
                    cast(dict[bytes, bytes], self._broker.client.hgetall(self._broker.keys.programs))
                )
            self._state.apply(delta)
        except ForeignMessage as error:
            self._notify_once("foreign", f"statistics of an agent are ignored: {error}")
        except (ValueError, msgspec.MsgspecError) as error:
            log(f"delta {entry.decode()} is left out: {error}")

    def _publish_whole(self) -> None:
        """Publish all that is known, in place of what the broker has."""
        # Acknowledgements of a server that knew more would make agents forget what this one needs.
        self._broker.client.delete(self._part.acks)
        self._publish(self._state.whole(), is_whole=True)

    def _publish_changes(self) -> None:
        """Publish what is due, together with what is merged: agents count on finding it there."""
        now_s = time.monotonic()
        published = self._state.publish(now_s)
        if published is not None:
            self._tell(ModelPublished(now_s))
            self._publish(published, is_whole=False)

    def _publish(self, published: Published, is_whole: bool) -> None:
        acknowledgements = self._state.acknowledgements()
        update = published.update
        if self._state.is_lockstep:
            update = msgspec.structs.replace(update, acknowledgements=self._state.all_acknowledgements())
        elif len(acknowledgements) <= MOST_ACKNOWLEDGED:
            update = msgspec.structs.replace(update, acknowledgements=acknowledgements)
        rows = {str(number): _encoder.encode(row) for number, row in published.rows}
        names = [_encoder.encode(name) for name in published.names]
        with self._broker.client.pipeline(transaction=True) as pipeline:
            if is_whole:
                pipeline.delete(self._part.model)
                pipeline.delete(self._part.functions)
            if acknowledgements:
                pipeline.hset(self._part.acks, mapping=_encoded(acknowledgements))
            if rows:
                pipeline.hset(self._part.model, mapping=cast(dict[Any, Any], rows))
            if names:
                pipeline.rpush(self._part.functions, *names)
            payload = self._broker.seal.encode(update)
            pipeline.xadd(self._part.model_updates, {PAYLOAD: payload}, maxlen=KEPT_UPDATES, approximate=True)
            pipeline.execute()

    def _acknowledge(self) -> None:
        acknowledgements = self._state.acknowledgements()
        if acknowledgements:
            self._broker.client.hset(self._part.acks, mapping=_encoded(acknowledgements))

    def _send_frame(self, is_last: bool) -> None:
        """Send changes to dashboards, a snapshot to readers that came late, and runtimes by rank to whoever
        has asked for them.
        """
        # All at once: there are four frames a second, and an answer of the broker takes 0.15 ms.
        with self._broker.client.pipeline(transaction=False) as pipeline:
            pipeline.hgetall(self._broker.keys.programs)
            pipeline.get(self._broker.keys.silent)
            pipeline.getdel(self._part.snapshot_wanted)
            pipeline.getdel(self._part.timers_wanted)
            programs, silent, snapshot_wanted, timers_wanted = pipeline.execute()
        if not is_last:
            # Agents whose functions are in the base get a model before their first delta.
            self._name_programs(programs)
            self._state.note_silent(decoded_silent(silent))
            if self._state.is_lockstep:
                self._state.is_ending = is_to_end(self._broker)
        frame = self._state.frame(is_last)
        if frame is not None:
            self._frames.send(frame)
            self._report_metrics(frame)
        if snapshot_wanted is not None:
            self._broker.client.set(self._part.snapshot, self._broker.seal.encode(self._state.snapshot()))
        # At the end all that ever asked get them.
        if timers_wanted is not None or (is_last and self._broker.client.exists(self._part.timers)):
            self._broker.client.set(self._part.timers, self._broker.seal.encode(self._state.timers()))

    def _report_metrics(self, frame: Frame) -> None:
        if self._metrics is not None:
            self._metrics.report(frame, self._state.programs, self._state.lost_deltas)

    def _make_report(self, is_last: bool) -> None:
        statistics = self._state.statistics(is_last)
        if statistics is not None:
            self._report.make(statistics)
            self._tell(ReportMade(time.monotonic()))

    def _save(self, save: Save) -> None:
        """Save the state, and only then trim the saved deltas and let agents forget them."""
        began_s, copy_took_s, is_settled = time.monotonic(), None, False
        if self._place.path is not None:
            state = self._state.save()
            try:
                write_state(self._place.path, state)
            except OSError as error:
                # Agents would keep what they have sent for ever: they learn here that it is saved.
                self._report_unsaved(self._place.path, error)
            if save.copies and self._place.copy is not None:
                copy_took_s = self._copy(self._place.copy, state)
        if save.trims:
            is_settled = self._state.is_saved()
            self._broker.client.xtrim(self._part.deltas, minid=self._read_to.decode(), approximate=False)
            self._acknowledge()
        now_s = time.monotonic()
        self._tell(Saved(now_s, now_s - began_s, copy_took_s, is_settled))

    def _copy(self, path: Path, state: SavedState) -> float:
        """Copy the state onto shared storage, which may be slow and is not ours alone; return the seconds
        that it took.
        """
        began_s = time.monotonic()
        # Where there is no room for the new copy, the one before stays: agents cannot keep all that they have
        # sent.
        with suppress(OSError):
            write_state(path, state)
        return time.monotonic() - began_s

    def _report_unsaved(self, path: Path, error: OSError) -> None:
        line = (
            f"no room in $TMPDIR ({path.parents[1].resolve()}) for what the parameter server has learned "
            f"({error.strerror}); it goes on in memory, and if it is killed that is lost"
        )
        if "unsaved" not in self._notified:
            log(line)
        self._notify_once("unsaved", line)

    def _notify_once(self, kind: str, line: str) -> None:
        """Tell the user the first problem of a kind."""
        if kind not in self._notified:
            self._broker.notify_user(line)
            self._notified.add(kind)
