"""Simulated agents: what each sends and keeps. Without I/O.

Where they are few each one is real: ``AgentStatistics`` merges, holds back and encodes, and takes the rows of
the model that it asked for. Simplified is what its streams hand it: drawn tables (load.py), those of its
ranks already merged into one; counters, call paths and figures of the agent itself are left out.

10,000 such agents, or 250 with 1,000 functions each, would need several GB and cores. There a few of each
program are real, the *leaders*; every other one is a *follower* of one that joins just before it: it sends
what its leader has sent, under its own name, with its own sequence, step counts, health, messages and paces.
A leader's seconds are as random as those of any other, so what followers hold back is what they would have
held back; but followers of one leader do so in the same second. Followers fetch rows of the model as real
agents do, and do not look into them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks.server.load import Load, Seconds, flagged, health, rank_timers, step_count, traffic
from chimbuko.ad.analysis.streamstatistics import Learned
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics, StreamShare
from chimbuko.core.calls.record import StepCount, StreamHealth
from chimbuko.core.statistics.convergence import HELD_PERIODS
from chimbuko.core.statistics.schema import TableSchema
from chimbuko.runtime.protocol.telemetry import FLAGGED, PERIODS_PER_WINDOW, TelemetryDelta

encode = msgspec.msgpack.Encoder().encode

Calls = npt.NDArray[np.int64]


class _Stamped(msgspec.Struct, frozen=True, array_like=True):
    """A ``Delta`` some parts of which are encoded already."""

    agent: str
    incarnation: int
    sequence: int
    since: int
    closed_epochs: dict[str, int]
    names: msgspec.Raw
    rows: bytes
    table: msgspec.Raw
    steps: list[StepCount]
    health: list[StreamHealth]
    telemetry: TelemetryDelta


@dataclass(frozen=True)
class Body:
    """What a delta says of functions."""

    names: msgspec.Raw
    rows: bytes
    table: msgspec.Raw
    table_bytes: int
    flagged: bytes
    anomalies: int
    severity_us: float
    calls: Calls
    """i8[functions]: by timer."""


@dataclass(frozen=True)
class Counted:
    """Of the ranks of one agent."""

    steps: list[StepCount]
    health: list[StreamHealth]


@dataclass(frozen=True)
class EncodedDelta:
    """A delta, and how much of it is what."""

    encoded: bytes
    table_bytes: int
    """Statistics of functions."""
    telemetry_bytes: int
    """What is for dashboards only."""


NOTHING_COUNTED = Counted([], [])


class SimulatedAgent(ABC):
    """One agent, its ranks, and how many of their calls it has sent.

    Parameters
    ----------
    number
        Counts all agents; reports program and ranks.
    """

    def __init__(self, load: Load, number: int) -> None:
        self.name = f"node{number:05}"
        self.program = load.program_of(number)
        self.ranks = load.ranks_of(number)
        self.sequence = 0
        self.calls = np.zeros(load.functions, np.int64)
        """i8[functions]: sent so far, by timer."""
        self._load = load
        self._number = number
        self._anomalies = 0

    @abstractmethod
    def next_delta(self, turn: int) -> EncodedDelta | None:
        """The encoded delta of a second; None if there is nothing to say."""

    def last_delta(self) -> EncodedDelta | None:
        """All that was held back; None if nothing was."""
        body = self._last_body()
        return None if body is None else self._stamped(body, NOTHING_COUNTED, TelemetryDelta())

    @abstractmethod
    def _last_body(self) -> Body | None:
        """What was held back."""

    def _stamped(self, body: Body, counted: Counted, telemetry: TelemetryDelta) -> EncodedDelta:
        self.sequence += 1
        self.calls += body.calls
        stamped = _Stamped(
            self.name,
            1,
            self.sequence,
            self.sequence,
            {},
            body.names,
            body.rows,
            body.table,
            counted.steps,
            counted.health,
            telemetry,
        )
        rows = telemetry.flagged, telemetry.traffic, telemetry.paces, telemetry.timers
        telemetry_bytes = sum(map(len, rows))
        return EncodedDelta(encode(stamped), len(body.rows) + body.table_bytes, telemetry_bytes)

    def _counted(self, turn: int, anomalies: int, severity_us: float) -> Counted:
        """Of all ranks; one of them has had all anomalies of this second."""
        self._anomalies += anomalies
        load, program = self._load, self.program
        unlucky = self._unlucky(turn)
        steps, totals = [], []
        for rank in self.ranks:
            own = (anomalies, severity_us) if rank == unlucky else (0, 0.0)
            steps.append(step_count(load, program, rank, turn, *own))
            totals.append(health(load, program, rank, self.name, turn + 1, self._anomalies))
        return Counted(steps, totals)

    def _unlucky(self, turn: int) -> int:
        return self.ranks[turn % len(self.ranks)]

    def _telemetry(self, turn: int, flagged_rows: bytes, seconds: Seconds) -> TelemetryDelta:
        load = self._load
        window, of_window = divmod(turn, PERIODS_PER_WINDOW)
        has_paces = of_window == PERIODS_PER_WINDOW - 1
        has_timers = load.timed > 0 and turn > 0 and (turn + self._number) % HELD_PERIODS == 0
        return TelemetryDelta(
            flagged=flagged_rows,
            traffic=traffic(load, self.program, self.ranks),
            paces=seconds.paces(self.program, self.ranks, window) if has_paces else b"",
            timers=rank_timers(load, self.program, self.ranks, HELD_PERIODS) if has_timers else b"",
        )


class RealAgent(SimulatedAgent):
    """Its statistics are those of ``chimbuko.ad``."""

    def __init__(self, load: Load, number: int, seconds: Seconds, schema: TableSchema) -> None:
        super().__init__(load, number)
        self.statistics = AgentStatistics(self.name, 1, schema)
        self.bodies: list[Body] = []
        """Of all deltas so far, for followers."""
        self.last: Body | None = None
        """What was held back until the end."""
        self._seconds = seconds
        self._schema = schema
        self._timers = load.timers(self.program)
        self._held = schema.empty(load.functions)
        self._is_held = np.zeros(load.functions, np.bool_)
        self._calls_at = schema.slices["exclusive_us"].start
        self.statistics.name(self.program, self._timers.values())

    def next_delta(self, turn: int) -> EncodedDelta | None:
        """As its ranks learned in one second."""
        second = self._seconds.of(self.program, turn + self._number)
        fresh = second.learned.timers[~self._is_held[second.learned.timers]]
        self._held[fresh] = self._schema.empty(1)
        self._schema.merge(self._held, second.learned.timers, second.learned.table)
        self._is_held[second.learned.timers] = True
        flags = [
            StreamShare(self.program, self._unlucky(turn), self._timers, flagged(self._schema, flag))
            for flag in second.flags
        ]
        anomalies = sum(flag.calls for flag in second.flags)
        severity_us = sum(flag.severity_us for flag in second.flags)
        counted = self._counted(turn, anomalies, severity_us)
        body = self._body(flags, counted.steps, has_all=False)
        return self._stamped(body, counted, self._telemetry(turn, body.flagged, self._seconds))

    def _last_body(self) -> Body | None:
        self.last = self._body([], [], has_all=True) if self._is_held.any() else None
        return self.last

    def _body(self, flags: list[StreamShare], steps: list[StepCount], has_all: bool) -> Body:
        timers = np.flatnonzero(self._is_held)
        learned = Learned(timers, self._held[timers])
        parts = [StreamShare(self.program, self.ranks[0], self._timers, learned, steps), *flags]
        outgoing = self.statistics.next_round(parts, {}, has_all)
        assert outgoing is not None, "there were steps, or something was held back"
        taken = outgoing.taken[0]
        self._is_held[timers[taken]] = False
        calls = np.zeros(len(self._timers), np.int64)
        calls[timers[taken]] = learned.table[taken, self._calls_at].astype(np.int64)
        delta = outgoing.deltas[0]
        rows = np.frombuffer(delta.telemetry.flagged, FLAGGED)
        table = encode(delta.table)
        body = Body(
            msgspec.Raw(encode(delta.names)),
            delta.rows,
            msgspec.Raw(table),
            len(table),
            delta.telemetry.flagged,
            int(rows["anomalies"].sum()),
            float(rows["severity_us"].sum()),
            calls,
        )
        self.bodies.append(body)
        return body


class Follower(SimulatedAgent):
    """Sends what another agent of its program has sent."""

    def __init__(self, load: Load, number: int, leader: RealAgent, seconds: Seconds) -> None:
        super().__init__(load, number)
        self._leader = leader
        self._seconds = seconds

    def next_delta(self, turn: int) -> EncodedDelta | None:
        """The leader's next delta that this one has not sent; None if there is none yet."""
        if self.sequence >= len(self._leader.bodies):
            return None
        body = self._leader.bodies[self.sequence]
        counted = self._counted(turn, body.anomalies, body.severity_us)
        flagged_rows = b""
        if body.flagged:
            own = np.frombuffer(body.flagged, FLAGGED).copy()
            own["rank"] = self._unlucky(turn)
            flagged_rows = own.tobytes()
        return self._stamped(body, counted, self._telemetry(turn, flagged_rows, self._seconds))

    def _last_body(self) -> Body | None:
        return self._leader.last
