"""Intake of the streams of a node: which run's program they belong to, their ranks, and where their files
are.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import redis

from chimbuko.ad.detectors import make_detector
from chimbuko.ad.handoff.processspecs import AgentSpec
from chimbuko.ad.handoff.shortage import ShortageNotices
from chimbuko.ad.handoff.sparsefile import is_out_of_memory
from chimbuko.ad.modelsync.modelsync import ModelSync
from chimbuko.ad.streams.arrivals import Arrival, Arrivals, Instance
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.capture.trace.discovery import StreamName, Transport
from chimbuko.core.calls.record import UNREAD_STREAMS, UNREADABLE_STREAMS, StreamHealth
from chimbuko.core.errors import ServiceError
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.protocol.rankclaims import claim_instance, claim_ranks
from chimbuko.runtime.protocol.runbroker import RunBroker

ROOM_RETRY_S = 1.0
"""Pause before a stream for which there was no room is tried again."""


class _Candidate(msgspec.Struct):
    """A stream that this agent is to read."""

    name: StreamName
    transport: Transport
    program: int
    contact: str
    due_s: float = 0.0
    """Time at which its files are to be made; later than at once where there was no room for them."""


class _Taken(msgspec.Struct, frozen=True):
    """An arrived stream, assigned to an instance of its program."""

    arrival: Arrival
    instance: int
    """Number of the instance."""
    first_rank: int
    """Rank in the run of the process that calls itself rank 0 in the instance."""


class Intake:
    """Discovery of the streams that one agent reads.

    Parameters
    ----------
    broker
        A connection of its own, which is already open: this takes six round trips, and first steps pass
        meanwhile.
    streams
        Streams that the agent reads already; the caller adds those that are found.
    """

    def __init__(
        self,
        spec: AgentSpec,
        broker: RunBroker,
        streams: list[StreamHandle],
        statistics: ModelSync,
        news: ShortageNotices,
    ) -> None:
        self._spec = spec
        self._broker = broker
        self._streams = streams
        self._statistics = statistics
        self._news = news
        self._schema = make_detector(spec.config).schema
        self._arrivals = Arrivals(Path(spec.live_folder), spec.index, spec.count, spec.is_ours)
        self._recorded = [one for one in spec.recorded if one.rank % spec.count == spec.index]
        self._instances: dict[str, Instance] = {}
        """Newest instance of each program."""
        self._candidates: list[_Candidate] = []
        self._claimed: set[tuple[int, int]] = set()
        self._programs: dict[str, int] = {}
        """Number of each program, which does not change."""

    def new_streams(self) -> list[StreamHandle]:
        """Return the streams that are new since the last call, with their files.

        Raises
        ------
        ServiceError
            There is no room for the files of a recorded stream.
        """
        # Without the broker a program has no number: the next call tries again.
        with suppress(redis.RedisError):
            self._look()
        candidates, self._candidates = self._candidates, []
        now_s = time.monotonic()
        found = []
        for candidate in candidates:
            if now_s < candidate.due_s:
                self._candidates.append(candidate)
            elif (stream := self._made(candidate)) is not None:
                self._statistics.let_inherit(stream)
                found.append(stream)
        return found

    def _look(self) -> None:
        if self._spec.live_folder:
            known: list[_Taken] = []
            for arrival in self._arrivals.look():
                if (taken := self._known_instance(arrival)) is not None:
                    known.append(taken)
                    continue
                # The ranks that are claimed by then decide where a further instance begins.
                self._take(known)
                known = []
                self._take([self._next_instance(arrival)])
            self._take(known)
        recorded = [
            (StreamName(one.program, one.rank, Path(one.path), one.first_rank), Transport.RECORDED, "")
            for one in self._recorded
        ]
        self._claim(recorded)
        self._recorded.clear()

    def _known_instance(self, arrival: Arrival) -> _Taken | None:
        """Return an arrival with the instance that it is known to belong to; None if the broker has to be
        asked.
        """
        newest = self._instances.get(arrival.name.program, Instance())
        if arrival.is_numbered or not (arrival.is_further or newest.number):
            return _Taken(arrival, newest.number, arrival.name.first_rank)
        return None

    def _next_instance(self, arrival: Arrival) -> _Taken:
        """Return an arrival that may be the first of its instance."""
        name = arrival.name
        newest = self._instances.get(name.program, Instance())
        rank = name.rank - name.first_rank
        has_ended = not any(map(self._arrivals.is_written, newest.arrivals))
        first = newest.number + (has_ended or newest.number == 0 or rank in newest.ranks)
        number, first_rank = claim_instance(self._broker, name.program, rank, self._spec.agent, first)
        return _Taken(arrival, number, first_rank)

    def _take(self, found: list[_Taken]) -> None:
        """Take arrivals in, all or, where the broker is away, none of them."""
        self._claim(
            [
                (one.arrival.as_instance(one.first_rank), one.arrival.transport, one.arrival.contact)
                for one in found
            ]
        )
        # From here on nothing is asked of the broker, which may be away at any time.
        for one in found:
            self._arrivals.take(one.arrival, one.first_rank)
            self._note_instance(one.arrival, one.instance)

    def _note_instance(self, arrival: Arrival, number: int) -> None:
        if not arrival.is_numbered:
            newest = self._instances.get(arrival.name.program, Instance())
            before = newest.arrivals if number == newest.number else ()
            self._instances[arrival.name.program] = Instance(number, (*before, arrival))

    def _claim(self, streams: Sequence[tuple[StreamName, Transport, str]]) -> None:
        """Make candidates of the streams that this agent is to read; each is given with its contact."""
        if not streams:
            return
        for name, _, _ in streams:
            if name.program not in self._programs:
                self._programs[name.program] = self._broker.program_number(name.program)
        ranks = [(name.program, name.rank) for name, _, _ in streams]
        are_ours = claim_ranks(self._broker, ranks, self._spec.agent)
        for (name, transport, contact), is_ours in zip(streams, are_ours, strict=True):
            program = self._programs[name.program]
            if not is_ours or (program, name.rank) in self._claimed:
                log(f"{name.path}: another stream is rank {name.rank} of {name.program} already; not read")
                continue
            self._claimed.add((program, name.rank))
            self._candidates.append(_Candidate(name, transport, program, contact))

    def _made(self, candidate: _Candidate) -> StreamHandle | None:
        """Return the stream with its files; None if there is no room, or no memory, for them."""
        spec, name = self._spec, candidate.name
        try:
            return StreamHandle(
                name,
                candidate.transport,
                candidate.program,
                spec.node,
                Path(spec.scratch) / f"{candidate.program}-{name.rank}",
                spec.config,
                self._schema,
                spec.kept_trace,
                spec.is_ours,
                spec.guard.folder if spec.guard else "",
                candidate.contact,
            )
        except (OSError, MemoryError) as error:
            if candidate.transport is Transport.RECORDED:
                raise ServiceError(
                    f"{spec.scratch}: {name.path} cannot be read ({error}); make room there, or set TMPDIR"
                ) from None
            self._refuse(candidate, is_out_of_memory(error))
            return None

    def _refuse(self, candidate: _Candidate, is_final: bool) -> None:
        """Report that a stream is not read; where only room is missing it is tried again."""
        is_said = candidate.due_s > 0.0
        if not is_final:
            candidate.due_s = time.monotonic() + ROOM_RETRY_S
            self._candidates.append(candidate)
        if is_said and not is_final:
            return
        program, rank = candidate.program, candidate.name.rank
        kind = UNREADABLE_STREAMS if is_final else UNREAD_STREAMS
        report = self._news.unreadable if is_final else self._news.unread
        report(f"{program}:{rank}")
        nothing = StreamHealth(program, rank, self._spec.node, "lost", 0, 0, 0, 0, 0, 0, {kind: 1})
        self._statistics.note_health(nothing)
