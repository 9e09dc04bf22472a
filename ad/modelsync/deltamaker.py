"""Production of an agent's deltas from what its streams have, or what an agent that ended has left in its
folder; deltas are kept until the server has saved them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from glob import iglob
from pathlib import Path

import numpy as np

from chimbuko.ad.handoff.exchange import Outbox
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics, Outgoing, StreamShare
from chimbuko.ad.modelsync.pendingdeltas import PendingRounds
from chimbuko.ad.streams.deltalog import LOG_FILES, LOG_NAME, DeltaLog, Entry, Taken
from chimbuko.ad.streams.streamhandle import BOX, StreamHandle, left_streams
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import schema_of
from chimbuko.runtime.process.nameholding import hold
from chimbuko.runtime.protocol.messages import Delta

LOCK_POLL_S = 0.001


class DeltaMaker:
    """Maker of the deltas of one agent, which leaves each to a successor before it is taken from the streams.

    Parameters
    ----------
    statistics
        Statistics that continue from the deltas of a predecessor.
    delta_log
        Log of the deltas that are not merged yet, for a successor.
    period_s
        Time in which streams learn enough for a delta; not used in lockstep.
    """

    def __init__(
        self, statistics: AgentStatistics, delta_log: DeltaLog, period_s: float, is_lockstep: bool
    ) -> None:
        self._statistics = statistics
        self._delta_log = delta_log
        self._period_s = period_s
        self._is_lockstep = is_lockstep
        self._gathered_at = time.monotonic()
        self._inherited = self._logged = delta_log.read()
        self.pending = PendingRounds(
            statistics.parts, [(entry.round, entry.deltas) for entry in self._logged]
        )
        for entry in self._logged:
            statistics.follow(entry.round, entry.deltas)

    def let_inherit(self, stream: StreamHandle) -> None:
        """Continue a stream from the point at which an earlier agent died, if one did."""
        stream.inherit(
            [(entry.round, entry.taken[stream.key]) for entry in self._inherited if stream.key in entry.taken]
        )

    def make(self, streams: Sequence[StreamHandle], is_flushing: bool) -> dict[int, list[Delta]]:
        """Make the next round; return, by part, the deltas that are to be sent now.

        Nothing is returned where nothing was learned since the last round.
        """
        closed = self._newly_closed(streams)
        if self._is_lockstep and not closed and not is_flushing:
            return {}
        is_urgent = self._is_lockstep or is_flushing
        # Statistics held back of streams without news are unchanged: to look at one takes 0.1 ms.
        looks = streams if is_urgent or any(stream.box.has_news for stream in streams) else []
        looked = [(stream, outbox) for stream in looks if (outbox := self._look(stream)) is not None]
        periods = 1.0 if self._is_lockstep else 0.0
        if looked and not self._is_lockstep:
            now, before = time.monotonic(), self._gathered_at
            self._gathered_at, periods = now, (now - before) / self._period_s
        outgoing = self._statistics.next_round(
            [_part(stream, outbox) for stream, outbox in looked],
            closed,
            is_urgent,
            periods,
        )
        if outgoing is not None:
            self._remove(outgoing, looked)
        for _, outbox in looked:
            outbox.release()
        return {} if outgoing is None else self.pending.add(outgoing.round, outgoing.deltas)

    def leave_all(self) -> None:
        """Leave all deltas that the server has not saved to a successor, including merged ones: a server that
        has died does not have them any more.
        """
        of_logged = {_place(part, delta) for entry in self._logged for part, delta in entry.deltas.items()}
        # Merged statistics left their outbox long ago.
        merged = [
            Entry(delta.incarnation, self._statistics.round, {part: delta}, {})
            for part, deltas in self.pending.all().items()
            for delta in deltas
            if _place(part, delta) not in of_logged
        ]
        if merged:
            self._logged = [*merged, *self._logged]
            self._delta_log.write(self._logged)

    def _look(self, stream: StreamHandle) -> Outbox | None:
        """Return what a stream has; None if its process holds the outbox."""
        outbox = stream.box.look()
        while outbox is None and self._is_lockstep:
            # The stream has closed an epoch: what it learned in it must be in this delta.
            time.sleep(LOCK_POLL_S)
            outbox = stream.box.look()
        self.name_functions(stream)
        return outbox

    def _remove(self, outgoing: Outgoing, looked: list[tuple[StreamHandle, Outbox]]) -> None:
        """Keep the deltas for a successor, then remove their contents from the outboxes."""
        removals = [
            (stream, outbox, is_taken)
            for (stream, outbox), is_taken in zip(looked, outgoing.taken, strict=True)
        ]
        of_streams = {
            stream.key: Taken(
                outbox.generation,
                outbox.learned.timers[is_taken].astype(np.int64).tobytes(),
                outgoing.has_paths,
            )
            for stream, outbox, is_taken in removals
        }
        waiting = [entry for entry in self._logged if not self.pending.is_merged(entry.deltas)]
        entry = Entry(self._statistics.incarnation, outgoing.round, outgoing.deltas, of_streams)
        self._logged = [*waiting, entry]
        self._delta_log.write(self._logged)
        for stream, outbox, is_taken in removals:
            outbox.remove(is_taken, outgoing.has_paths)
            stream.generations.append((outgoing.round, outbox.generation))

    def name_functions(self, stream: StreamHandle) -> None:
        """Learn the functions that a stream may call, and have the next delta name them."""
        stream.learn_names()
        if len(stream.names.timers) != stream.named:
            stream.named = len(stream.names.timers)
            self._statistics.name(stream.program, stream.names.timers.values())

    def _newly_closed(self, streams: Sequence[StreamHandle]) -> dict[str, int]:
        """Return, in lockstep, the closed epochs of all streams together, once the last of them has moved
        on.
        """
        if not self._is_lockstep or not streams:
            return {}
        closed = {stream.key: stream.closed_epoch for stream in streams}
        sent = min(stream.sent_epoch for stream in streams)
        if min(closed.values()) <= sent:
            return {}
        for stream in streams:
            stream.sent_epoch = closed[stream.key]
        return closed


def _place(part: int, delta: Delta) -> tuple[int, int, int]:
    return part, delta.incarnation, delta.sequence


def _part(stream: StreamHandle, outbox: Outbox) -> StreamShare:
    return StreamShare(
        program=stream.program,
        rank=stream.name.rank,
        timers=stream.names.timers,
        learned=outbox.learned,
        steps=outbox.steps,
        telemetry=outbox.telemetry,
        paths=outbox.paths,
    )


# Statistics that agents which ended, or were killed, have left in their folders.


def agents_in(folder: Path) -> list[Path]:
    """Return the folders of agents, in that of a node, that may have left deltas."""
    # Path.glob ends with an error where a folder goes meanwhile (Python 3.11).
    logs, boxes = iglob(f"*/{LOG_FILES}", root_dir=folder), iglob(f"*/*/{BOX}", root_dir=folder)
    return sorted({folder / Path(path).parts[0] for path in (*logs, *boxes)})


def left_deltas(folder: Path, config: AnalysisConfig) -> dict[int, list[Delta]]:
    """Return the deltas that an agent has left in its folder, by part of the parameter server and in order,
    with those of all that its streams had.

    They stay there, each with its number: a server that gets them twice, from here or from an agent that
    continues there, recognises them.
    """
    with closing(hold(str(folder.absolute()))):
        statistics = AgentStatistics(folder.name, 0, schema_of(config.detector), config.server_parts)
        delta_log = DeltaLog(folder / LOG_NAME)
        maker = DeltaMaker(statistics, delta_log, period_s=1.0, is_lockstep=False)
        streams = left_streams(folder, "", config)
        for stream in streams:
            maker.let_inherit(stream)
        maker.make(streams, is_flushing=True)
        delta_log.close()
        for stream in streams:
            stream.box.close()
    return maker.pending.all()
