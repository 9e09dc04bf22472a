"""The parameter server, or one part of it, between the broker, its state, and the file that the state is
saved in.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
import redis

from chimbuko.pserver.metrics import MetricsPort
from chimbuko.pserver.state.modelversions import Published
from chimbuko.pserver.state.savedstate import SavedState, write_state
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.process.signals import StopSignal
from chimbuko.runtime.protocol.membership import is_to_end, silent_agents
from chimbuko.runtime.protocol.messages import PAYLOAD, Acknowledgement, Delta, ForeignMessage, Frame
from chimbuko.runtime.protocol.runbroker import PatientReader, RunBroker

PUBLISH_S = 0.05
"""Minimum time between two publications of the model, in seconds."""
TICK_S = 0.25
"""Minimum time between two frames, in seconds."""
STORE_S = 2.0
"""Minimum time between two reports to the store, in seconds: of what changes only the latest values count."""
IDLE_S = 1.0
"""Maximum time between two rounds of the server while nothing comes, in seconds."""
READ_COUNT = 1000
GATHER_S = 0.003
"""Pause between two readings of the broker, in seconds: deltas that come meanwhile are merged together, for
less.
"""
KEPT_UPDATES = 200
"""Number of model updates kept for agents that lag; one that lags further fetches all rows that it needs."""
KEPT_FRAMES_BYTES = 32 << 20
"""Size of the frames kept for dashboards and store; a reader that lags further asks for a snapshot."""
SAVE_PERIOD_S = 1.0
SAVE_SHARE = 0.05
"""Maximum share of the time spent on saving the state."""
COPY_PERIOD_S = 10.0
COPY_SHARE = 0.01
"""Maximum share of the time spent on copying the state onto shared storage."""
MOST_ACKNOWLEDGED = 64
"""Maximum number of agents whose acknowledgements go into one live update, since each agent reads them.

Others get theirs a moment later.
"""
RETRY_S = 0.2

_deltas = msgspec.msgpack.Decoder(Delta)
_encoder = msgspec.msgpack.Encoder()


def _encoded(acknowledgements: dict[str, Acknowledgement]) -> dict[Any, Any]:
    return {name: _encoder.encode(place) for name, place in acknowledgements.items()}


@dataclass(frozen=True)
class StateFile:
    """Files in which the server's state is saved."""

    path: Path | None = None
    """File on local storage; without one, what is merged counts as saved."""
    copy: Path | None = None
    """Copy on storage that other nodes share, from which a server on another node goes on; it is older than
    the file.
    """


class Server:
    """The parameter server of one run, or one part of it, as a loop over the broker.

    Nothing that the broker holds needs to outlast it: agents send again what is not saved, and the server
    publishes everything again after an error. Likewise the server reads again, from the beginning, all deltas
    that were not trimmed, and drops those that it has merged.

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
        self._client, self._keys, self._seal = broker.client, broker.keys, broker.seal
        self._part = broker.keys.part(state.part)
        self._state = state
        self._place = place
        self._metrics = metrics
        if metrics is not None:
            self._report_metrics(state.snapshot())
        self._read_to = b"0"
        self._must_publish_all = True
        self._has_news = False
        """Whether anything that is merged is not saved yet."""
        self._is_unpublished = False
        """Whether anything that is merged is not published to agents yet."""
        self._is_unshown = False
        """Whether anything that is merged is not sent to dashboards yet."""
        self._is_unstored = False
        """Whether anything that is merged is not sent to the store yet."""
        self._reader = PatientReader(broker)
        self._in_flight = b""
        """Last report to the store, encoded, as long as it may have to be sent again."""
        self._in_flight_entry = b"0"
        """Id of the last report to the store in its Redis stream."""
        self._is_unsaved_reported = self._is_foreign_reported = False
        self._ticked_at = self._published_at = self._stored_at = 0.0
        self._save_at = self._copy_at = 0.0
        self._is_urgent = is_urgent
        self._is_hastening = False
        self._frames: deque[tuple[bytes, int]] = deque()
        """Ids and sizes in bytes of the frames that are kept."""

    def run(self, should_stop: StopSignal) -> None:
        """Serve until asked to stop and nothing is left to merge."""
        while True:
            try:
                is_stopping = should_stop()
                is_idle = self._serve_once(is_stopping)
                if is_stopping and is_idle:
                    self._tick(is_last=True)
                    self._store(is_last=True)
                    self._save(is_last=True)
                    return
            except redis.RedisError as error:
                log(f"broker does not answer ({error}); trying again")
                self._read_to = b"0"
                self._reader.read_again()
                self._must_publish_all = True
                if should_stop():
                    return
                time.sleep(RETRY_S)

    def _serve_once(self, is_stopping: bool) -> bool:
        """Merge new deltas and publish the result; return whether there were none."""
        wait_s = 0.0 if is_stopping else max(self._due_s() - time.monotonic(), 0.0)
        (entries,), is_awaited = self._reader.read({self._part.deltas: self._read_to}, READ_COUNT, wait_s)
        if self._must_publish_all:
            whole = self._state.whole()
            # Acknowledgements of a server that knew more would make agents forget what this one needs.
            self._client.delete(self._part.acks)
            self._publish(whole, is_whole=True)
            if self._in_flight:
                self._send_statistics()
            self._must_publish_all = False
        for entry, payload in entries:
            self._merge(entry, payload)
            if self._state.is_lockstep:
                # An epoch is published before anything of the next one is merged, which may follow already
                # where another server was killed before it could.
                self._report()
        if entries:
            self._has_news = self._is_unpublished = self._is_unshown = self._is_unstored = True
        if len(entries) == READ_COUNT:
            return False
        now = time.monotonic()
        if self._state.is_lockstep or now - self._published_at >= PUBLISH_S:
            self._report()
            self._acknowledge()
            self._is_unpublished = False
        if is_awaited or now - self._ticked_at >= TICK_S:
            self._ticked_at, self._is_unshown = now, False
            # Agents whose functions are in the base get a model before their first delta.
            self._name_programs()
            self._state.note_silent(silent_agents(self._broker))
            if self._state.is_lockstep:
                self._state.is_ending = is_to_end(self._broker)
            self._tick(is_last=False)
        if self._is_unstored and now - self._stored_at >= STORE_S:
            self._store()
        if self._is_urgent() and not self._is_hastening:
            self._is_hastening = self._has_news = True
            self._save_at = self._copy_at = 0.0
        if self._has_news and now >= self._save_at:
            self._save()
        if entries and not self._state.is_lockstep:
            time.sleep(GATHER_S)
        return not entries

    def _due_s(self) -> float:
        """Return the time at which something will be due although no delta comes."""
        due_s = [time.monotonic() + IDLE_S]
        if self._must_publish_all:
            due_s.append(0.0)
        if self._is_unpublished:
            due_s.append(self._published_at + PUBLISH_S)
        if self._is_unshown:
            due_s.append(self._ticked_at + TICK_S)
        if self._is_unstored:
            due_s.append(self._stored_at + STORE_S)
        if self._has_news:
            due_s.append(self._save_at)
        return min(due_s)

    def _name_programs(self) -> None:
        programs = cast(dict[bytes, bytes], self._client.hgetall(self._keys.programs))
        self._state.name_programs({int(number): name.decode() for name, number in programs.items()})

    def _merge(self, entry: bytes, payload: bytes) -> None:
        self._read_to = entry
        try:
            delta = self._seal.decode(payload, _deltas)
            if not self._state.knows_programs(delta):
                # The programs have their numbers before their first delta is sent.
                self._name_programs()
            self._state.apply(delta)
        except ForeignMessage as error:
            self._report_foreign(error)
        except (ValueError, msgspec.MsgspecError) as error:
            log(f"delta {entry.decode()} is left out: {error}")

    def _report(self) -> None:
        """Publish what is due, together with what is merged: agents count on finding it there."""
        now = time.monotonic()
        published = self._state.publish(now)
        if published is not None:
            self._published_at = now
            self._publish(published)

    def _acknowledge(self) -> None:
        acknowledgements = self._state.acknowledgements()
        if acknowledgements:
            self._client.hset(self._part.acks, mapping=_encoded(acknowledgements))

    def _publish(self, published: Published, is_whole: bool = False) -> None:
        acknowledgements = self._state.acknowledgements()
        update = published.update
        if self._state.is_lockstep:
            update = msgspec.structs.replace(update, acknowledgements=self._state.all_acknowledgements())
        elif len(acknowledgements) <= MOST_ACKNOWLEDGED:
            update = msgspec.structs.replace(update, acknowledgements=acknowledgements)
        rows = {str(number): _encoder.encode(row) for number, row in published.rows}
        names = [_encoder.encode(name) for name in published.names]
        with self._client.pipeline(transaction=True) as pipeline:
            if is_whole:
                pipeline.delete(self._part.model)
                pipeline.delete(self._part.functions)
            if acknowledgements:
                pipeline.hset(self._part.acks, mapping=_encoded(acknowledgements))
            if rows:
                pipeline.hset(self._part.model, mapping=cast(dict[Any, Any], rows))
            if names:
                pipeline.rpush(self._part.functions, *names)
            payload = self._seal.encode(update)
            pipeline.xadd(self._part.model_updates, {PAYLOAD: payload}, maxlen=KEPT_UPDATES, approximate=True)
            pipeline.execute()

    def _tick(self, is_last: bool) -> None:
        """Publish changes to dashboards and store, and a snapshot to readers that came late."""
        frame = self._state.frame(is_last)
        if frame is not None:
            payload = self._seal.encode(frame)
            entry = cast(bytes, self._client.xadd(self._keys.frames, {PAYLOAD: payload}))
            self._frames.append((entry, len(payload)))
            self._trim_frames()
            self._report_metrics(frame)
        if self._client.getdel(self._part.snapshot_wanted) is not None:
            self._client.set(self._part.snapshot, self._seal.encode(self._state.snapshot()))
        self._answer_timers(is_last)

    def _answer_timers(self, is_last: bool) -> None:
        """Send runtimes by rank to those that have asked since; at the end to all that ever asked."""
        is_wanted = self._client.getdel(self._part.timers_wanted) is not None
        if is_wanted or (is_last and self._client.exists(self._part.timers)):
            self._client.set(self._part.timers, self._seal.encode(self._state.timers()))

    def _store(self, is_last: bool = False) -> None:
        """Send changes to the store, unless it has not taken the report before yet."""
        self._stored_at = time.monotonic()
        entry = self._in_flight_entry
        if self._in_flight and not is_last and self._client.xrange(self._keys.statistics, entry, entry):
            return
        self._in_flight, self._is_unstored = b"", False
        statistics = self._state.statistics(is_last)
        if statistics is not None:
            self._in_flight = self._seal.encode(statistics)
            self._send_statistics()

    def _send_statistics(self) -> None:
        entry = self._client.xadd(self._keys.statistics, {PAYLOAD: self._in_flight})
        self._in_flight_entry = cast(bytes, entry)

    def _report_metrics(self, frame: Frame) -> None:
        if self._metrics is not None:
            self._metrics.report(frame, self._state.programs, self._state.lost_deltas)

    def _trim_frames(self) -> None:
        size = sum(size for _, size in self._frames)
        if size <= KEPT_FRAMES_BYTES:
            return
        while size > KEPT_FRAMES_BYTES and len(self._frames) > 1:
            size -= self._frames.popleft()[1]
        self._client.xtrim(self._keys.frames, minid=self._frames[0][0], approximate=False)

    def _report_foreign(self, error: ForeignMessage) -> None:
        """Tell the user once that a message came from another version or another run."""
        if not self._is_foreign_reported:
            self._is_foreign_reported = True
            self._broker.notify_user(f"statistics of an agent are ignored: {error}")

    def _report_unsaved(self, path: Path, error: OSError) -> None:
        if self._is_unsaved_reported:
            return
        line = (
            f"no room in $TMPDIR ({path.parents[1].resolve()}) for what the parameter server has learned "
            f"({error.strerror}); it goes on in memory, and if it is killed that is lost"
        )
        log(line)
        self._broker.notify_user(line)
        self._is_unsaved_reported = True

    def _copy(self, state: SavedState, is_last: bool) -> bool:
        """Copy the state onto shared storage now and then, as that may be slow and is not ours alone; return
        whether nobody else has to keep what is in the state.
        """
        began = time.monotonic()
        if self._place.copy is None or is_last:
            return True
        if began < self._copy_at:
            return False
        # Where there is no room for the new copy, the one before stays: agents cannot keep all that they have
        # sent.
        with suppress(OSError):
            write_state(self._place.copy, state)
        now = time.monotonic()
        period_s = SAVE_PERIOD_S if self._is_hastening else COPY_PERIOD_S
        self._copy_at = now + max(period_s, (now - began) / COPY_SHARE)
        return True

    def _save(self, is_last: bool = False) -> None:
        """Save the state, and only then trim the saved deltas and let agents forget them.

        Where other nodes are to go on from a copy, they need the deltas that are not in the copy.
        """
        began, is_safe = time.monotonic(), True
        if self._place.path is not None:
            state = self._state.save()
            try:
                write_state(self._place.path, state)
            except OSError as error:
                # Agents would keep what they have sent for ever: they learn here that it is saved.
                self._report_unsaved(self._place.path, error)
            is_safe = self._copy(state, is_last)
        if is_safe:
            self._has_news = not self._state.is_saved()
            self._client.xtrim(self._part.deltas, minid=self._read_to.decode(), approximate=False)
            self._acknowledge()
        now = time.monotonic()
        self._save_at = now + max(SAVE_PERIOD_S, (now - began) / SAVE_SHARE)
