"""Takes in the streams of a node: whose they are, their ranks in the run, and where their files are."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import redis

from chimbuko.ad.detectors import make_detector
from chimbuko.ad.handoff.processspecs import AgentSpec
from chimbuko.ad.handoff.sparsefile import is_out_of_memory
from chimbuko.ad.modelsync.modelsync import ModelSync
from chimbuko.ad.streams.arrivals import Arrival, Arrivals, Instance
from chimbuko.ad.streams.roomnews import RoomNews
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.calls.record import UNREAD_STREAMS, UNREADABLE_STREAMS, StreamHealth
from chimbuko.errors import ServiceError
from chimbuko.process.lifetime import log
from chimbuko.protocol.rankclaims import claim_instance, claim_rank
from chimbuko.protocol.runbroker import RunBroker
from chimbuko.trace.discovery import StreamName, Transport

ROOM_RETRY_S = 1.0
"""Pause before a stream for which there was no room is tried again."""


@dataclass
class _Candidate:
    """A stream that this agent is to read."""

    name: StreamName
    transport: Transport
    program: int
    contact: str
    due_s: float = 0.0
    """When its files are to be made; later than at once where there was no room for them."""


class Intake:
    """Finds the streams that one agent reads.

    Parameters
    ----------
    streams
        Those that it reads already; whoever calls adds what is found.
    """

    def __init__(
        self,
        spec: AgentSpec,
        broker: RunBroker,
        streams: list[StreamHandle],
        statistics: ModelSync,
        news: RoomNews,
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
        """The newest one of each program."""
        self._candidates: list[_Candidate] = []
        self._claimed: set[tuple[int, int]] = set()

    def new_streams(self) -> list[StreamHandle]:
        """Streams that are new since the last call, with their files.

        Raises
        ------
        ServiceError
            There is no room for those of a recorded stream.
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
            for arrival in self._arrivals.look():
                number, first_rank = self._instance_of(arrival)
                self._claim(arrival.as_instance(first_rank), arrival.transport, arrival.contact)
                # From here on nothing is asked of the broker, which may be away at any time.
                self._arrivals.take(arrival, first_rank)
                self._note_instance(arrival, number)
        while self._recorded:
            one = self._recorded[0]
            name = StreamName(one.program, one.rank, Path(one.path), one.first_rank)
            self._claim(name, Transport.RECORDED)
            self._recorded.pop(0)

    def _instance_of(self, arrival: Arrival) -> tuple[int, int]:
        """Number of the instance of its program, and rank in the run of what calls itself rank 0 in it."""
        name = arrival.name
        newest = self._instances.get(name.program, Instance())
        if arrival.is_numbered or not (arrival.is_further or newest.number):
            return newest.number, name.first_rank
        rank = name.rank - name.first_rank
        has_ended = not any(map(self._arrivals.is_written, newest.arrivals))
        first = newest.number + (has_ended or newest.number == 0 or rank in newest.ranks)
        return claim_instance(self._broker, name.program, rank, self._spec.agent, first)

    def _note_instance(self, arrival: Arrival, number: int) -> None:
        if not arrival.is_numbered:
            newest = self._instances.get(arrival.name.program, Instance())
            before = newest.arrivals if number == newest.number else ()
            self._instances[arrival.name.program] = Instance(number, (*before, arrival))

    def _claim(self, name: StreamName, transport: Transport, contact: str = "") -> None:
        """Make it a candidate, if it is this agent's to read."""
        program = self._broker.program_number(name.program)
        is_ours = claim_rank(self._broker, name.program, name.rank, self._spec.agent)
        if not is_ours or (program, name.rank) in self._claimed:
            log(f"{name.path}: another stream is rank {name.rank} of {name.program} already; not read")
            return
        self._claimed.add((program, name.rank))
        self._candidates.append(_Candidate(name, transport, program, contact))

    def _made(self, candidate: _Candidate) -> StreamHandle | None:
        """The stream with its files; None where there is no room for them, or no memory."""
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
        """Say that a stream is not read; where room is all that is missing it is tried again."""
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
