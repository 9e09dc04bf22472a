"""Statistics of an agent's streams, merged into deltas for the parameter server. No I/O.

``rank_timers`` adds up the call paths of one rank by function; ``cut_ranks`` and ``cut_telemetry`` distribute
telemetry over the parts of the server.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.ad.analysis.streamstatistics import Learned
from chimbuko.ad.analysis.streamtelemetry import StreamTelemetry
from chimbuko.ad.modelsync.agentmodel import AgentModel
from chimbuko.core.arrays import BoolArray, Float64Array, Int32Array, Int64Array, Rows, grown
from chimbuko.core.calls.pathtable import PATH, PathTable, has_news
from chimbuko.core.calls.record import StepCount, StreamHealth
from chimbuko.core.kernels.paths import NONE
from chimbuko.core.statistics.convergence import CONVERGED_CALLS, HELD_PERIODS, has_moved
from chimbuko.core.statistics.flaggedsteps import FLAGGED_STEPS, merged
from chimbuko.core.statistics.schema import FLAGS, TableSchema
from chimbuko.core.traceschema import unnamed_timer
from chimbuko.runtime.protocol.messages import Delta
from chimbuko.runtime.protocol.partition import part_of_name, part_of_program, part_of_rank, parts_of_ranks
from chimbuko.runtime.protocol.telemetry import (
    BEGUN,
    FLAGGED,
    OTHERS,
    PACE,
    TIMER,
    TRAFFIC,
    AgentFigures,
    ProgramPaths,
    StreamCounters,
    TelemetryDelta,
)

MOST_TIMERS = 256
"""Maximum number of functions of a rank in one report, those that take the most time: 370 kB for 40 ranks, as
much as their paths.
"""


def rank_timers(program: int, rank: int, paths: Rows, most: int = MOST_TIMERS) -> Rows:
    """Return ``TIMER`` rows of a rank, one for each function with calls, from its ``PATH`` rows.

    Calls of further functions, and those on paths without a row of their own, are added up under ``OTHERS``,
    for which only calls and exclusive time are known.
    """
    is_called = paths["calls"] != 0
    called = paths[is_called]
    functions, at = np.unique(called["function"], return_inverse=True)
    timers = np.zeros(len(functions), TIMER)
    timers["program"], timers["rank"], timers["function"] = program, rank, functions
    np.add.at(timers["calls"], at, called["calls"])
    np.add.at(timers["exclusive_us"], at, called["exclusive_us"])
    inclusive_us = np.where(_is_outermost(paths)[is_called], called["inclusive_us"], 0.0)
    np.add.at(timers["inclusive_us"], at, inclusive_us)
    return _with_rest_together(timers, most)


def _with_rest_together(timers: Rows, most: int) -> Rows:
    """Return the rows of the functions that take the most time, and one of the others, if there are any."""
    by_time = np.argsort(-timers["exclusive_us"], kind="stable")
    is_other = timers["function"] == OTHERS
    is_other[by_time[most:]] = True
    if not is_other.any():
        return timers
    rest = timers[is_other][:1].copy()
    rest["function"], rest["inclusive_us"] = OTHERS, 0.0
    for name in ("calls", "exclusive_us"):
        rest[name] = timers[name][is_other].sum()
    return np.concatenate([timers[~is_other], rest])


def _is_outermost(paths: Rows) -> BoolArray:
    """Return whether no caller on a path is of the same function, bool[paths]."""
    function, parent = paths["function"], paths["parent"]
    is_outermost = np.ones(len(paths), np.bool_)
    at = np.flatnonzero(parent != NONE)
    above = parent[at]
    while len(at):
        is_outermost[at] &= function[above] != function[at]
        above = parent[above]
        has_more = above != NONE
        at, above = at[has_more], above[has_more]
    return is_outermost


class OfRank(Protocol):
    """Anything that is reported of a rank."""

    @property
    def program(self) -> int:
        """Number of the rank's program."""
        ...

    @property
    def rank(self) -> int:
        """Number of the rank in its program."""
        ...


Said = TypeVar("Said", bound=OfRank)


def cut_ranks(said: Sequence[Said], parts: int) -> list[list[Said]]:
    """Return, for each part, what is reported of its ranks, in the same order."""
    if parts == 1:
        return [list(said)]
    found: list[list[Said]] = [[] for _ in range(parts)]
    for one in said:
        found[part_of_rank(one.program, one.rank, parts)].append(one)
    return found


def cut_telemetry(
    telemetry: TelemetryDelta, agent: str, part_of: Int32Array, parts: int
) -> list[TelemetryDelta]:
    """Return the telemetry for each part.

    Parameters
    ----------
    part_of
        Part of each function by the agent's numbers, int32[functions].
    """
    if parts == 1:
        return [telemetry]
    flagged, flagged_steps, begun, traffic, paces, timers = (
        np.frombuffer(rows, dtype)
        for rows, dtype in (
            (telemetry.flagged, FLAGGED),
            (telemetry.flagged_steps, FLAGGED_STEPS),
            (telemetry.begun, BEGUN),
            (telemetry.traffic, TRAFFIC),
            (telemetry.paces, PACE),
            (telemetry.timers, TIMER),
        )
    )
    by_function = tuple(part_of[rows["function"]] for rows in (flagged, flagged_steps, begun))
    by_rank = tuple(parts_of_ranks(rows["program"], rows["rank"], parts) for rows in (traffic, timers))
    by_program = paces["program"] % parts
    counters = _cut_counters(telemetry.counters, parts)
    at_home = part_of_name(agent, parts)
    return [
        TelemetryDelta(
            flagged=_of(flagged, by_function[0], part),
            flagged_steps=_of(flagged_steps, by_function[1], part),
            traffic=_of(traffic, by_rank[0], part),
            paces=(of_part := _of(paces, by_program, part)),
            counters=counters[part],
            figures=telemetry.figures if part == at_home else None,
            paths=[paths for paths in telemetry.paths if part_of_program(paths.program, parts) == part],
            node=telemetry.node if of_part else "",
            timers=_of(timers, by_rank[1], part),
            begun=_of(begun, by_function[2], part),
        )
        for part in range(parts)
    ]


def _of(rows: Rows, parts: npt.NDArray[np.int32], part: int) -> bytes:
    of_part: bytes = rows[parts == part].tobytes()
    return of_part


def _cut_counters(counters: Sequence[StreamCounters], parts: int) -> list[list[StreamCounters]]:
    """Return the counters for each part; all of one name are in one part, since they are added up over all
    ranks.
    """
    found: list[list[StreamCounters]] = [[] for _ in range(parts)]
    for stream in counters:
        by_part = defaultdict(list)
        for counter in stream.counters:
            by_part[part_of_name(counter.name, parts)].append(counter)
        for part, of_part in by_part.items():
            found[part].append(msgspec.structs.replace(stream, counters=of_part))
    return found


NO_PATHS: Rows = np.empty(0, PATH)

PATHS_SHARE = 0.1
"""Share of the run so far after which call paths are reported again, or after ``HELD_PERIODS`` periods:
nobody judges by them.
"""


class StreamShare(msgspec.Struct, frozen=True):
    """Findings of one stream that nobody has sent yet."""

    program: int
    rank: int
    timers: Mapping[int, str]
    learned: Learned
    steps: Sequence[StepCount] = ()
    """Steps since the last delta."""
    telemetry: StreamTelemetry = msgspec.field(default_factory=StreamTelemetry.none)
    paths: Rows = msgspec.field(default_factory=lambda: NO_PATHS)
    """``PATH`` rows; functions are timers."""


class Outgoing(msgspec.Struct, frozen=True):
    """One round of deltas, and what of each stream is in it."""

    round: int
    """Number of the round, counted from 1."""
    deltas: dict[int, Delta]
    """Delta for each part of the parameter server."""
    taken: list[BoolArray]
    """Mask of each stream's timers whose rows go into this round, bool[timers]. All steps and all flagged
    calls always go.
    """
    has_paths: bool
    """Whether the call paths of all shares are taken."""


class AgentStatistics:
    """Statistics of one agent's streams, merged into one round of deltas at a time.

    Parameters
    ----------
    parts
        Number of parts of the parameter server: each gets a delta of its own, where there is something for
        it.
    """

    def __init__(self, agent: str, incarnation: int, schema: TableSchema, parts: int = 1) -> None:
        self.agent = agent
        self.incarnation = incarnation
        self.schema = schema
        self.parts = parts
        self.model = AgentModel(schema, parts)
        """Global model that comes back from the server."""
        self._flags_at = [schema.slices[name].start for name in FLAGS]
        self._named = [0] * parts
        """Number of functions' names that each part has been sent."""
        self._ages = np.zeros(64)
        """Number of periods for which each function was left out."""
        self._health: dict[tuple[int, int], StreamHealth] = {}
        self._node = ""
        self._counters: list[StreamCounters] = []
        self._figures: AgentFigures | None = None
        self._periods = self._paths_reported_at = 0.0
        self._sequences = [0] * parts
        self.round = 0
        """Number of the last round that was made."""

    def follow(self, number: int, last: Mapping[int, Delta]) -> None:
        """Continue from the last round of a predecessor, and its last delta for each part that has one."""
        self.round = number
        for part, delta in last.items():
            self.incarnation = max(self.incarnation, delta.incarnation + 1)
            self._sequences[part] = delta.sequence

    @property
    def has_word(self) -> bool:
        """Whether the agent has something to report that no stream has brought."""
        return self._figures is not None or bool(self._health or self._counters)

    def name(self, program: int, names: Iterable[str]) -> None:
        """Note functions that streams may call: the next delta names them, and their model is wanted."""
        for name in names:
            self.model.number(program, name)

    def note_health(self, health: StreamHealth) -> None:
        """Note running totals of one stream, for the next delta."""
        self._health[health.program, health.rank] = health
        self._node = health.node

    def note_counters(self, counters: StreamCounters) -> None:
        """Note totals of counters of one stream, for the next delta."""
        self._counters.append(counters)

    def note_figures(self, figures: AgentFigures) -> None:
        """Note the agent's resource use, for the next delta."""
        self._figures = figures

    def next_round(
        self,
        shares: Sequence[StreamShare],
        closed_epochs: dict[str, int],
        has_all: bool = True,
        periods: float = 1.0,
    ) -> Outgoing | None:
        """Return the next round of deltas from what the streams have; None if there is nothing to send.

        Parameters
        ----------
        has_all
            Whether nothing is held back. Otherwise functions are of which enough is known; see
            ``chimbuko.core.statistics.convergence``.
        periods
            Trace periods since the last call.
        """
        rows = [self._rows(share) for share in shares]
        due, table = self._gather(shares, rows, has_all, periods)
        flagged = [self._flagged(share, of) for share, of in zip(shares, rows, strict=True)]
        steps = [step for share in shares for step in share.steps]
        # A delta that closes an epoch is not the last.
        has_paths = self._are_paths_due(has_all and not closed_epochs, periods)
        telemetry = self._telemetry(shares, flagged, has_paths)
        has_others = telemetry != TelemetryDelta(node=telemetry.node)
        if not (len(due) or has_others or steps or self._health or closed_epochs):
            return None
        table[:, self._flags_at] = self.schema.empty(1)[:, self._flags_at]
        self.round += 1
        deltas = self._deltas(closed_epochs, due, table, steps, telemetry)
        self._health.clear()
        is_due = np.zeros(len(self.model.names), np.bool_)
        is_due[due] = True
        return Outgoing(self.round, deltas, [is_due[of] for of in rows], has_paths)

    def _deltas(
        self,
        closed_epochs: dict[str, int],
        due: Int64Array,
        table: Float64Array,
        steps: list[StepCount],
        telemetry: TelemetryDelta,
    ) -> dict[int, Delta]:
        """Return a delta for each part that gets something."""
        deltas = {}
        part_of = self.model.part_of[due]
        health = list(self._health.values())
        telemetries = cut_telemetry(telemetry, self.agent, self.model.part_of, self.parts)
        cut = zip(telemetries, cut_ranks(steps, self.parts), cut_ranks(health, self.parts), strict=True)
        for part, (others, counts, totals) in enumerate(cut):
            rows = due[part_of == part]
            if not (len(rows) or others != TelemetryDelta() or counts or totals or closed_epochs):
                continue
            names, self._named[part] = self.model.names[self._named[part] :], len(self.model.names)
            self._sequences[part] += 1
            deltas[part] = Delta(
                agent=self.agent,
                incarnation=self.incarnation,
                sequence=self._sequences[part],
                since=self._sequences[part],
                closed_epochs=closed_epochs,
                names=names,
                rows=rows.astype(np.int32).tobytes(),
                table=self.schema.pack(table if len(rows) == len(due) else table[part_of == part]),
                steps=counts,
                health=totals,
                telemetry=others,
            )
        return deltas

    def _gather(
        self, shares: Sequence[StreamShare], rows: Sequence[Int64Array], has_all: bool, periods: float
    ) -> tuple[Int64Array, Float64Array]:
        """Merge all shares; return which functions are due, ascending, and the table of these."""
        is_touched = np.zeros(len(self.model.names), np.bool_)
        for of in rows:
            is_touched[of] = True
        touched = np.flatnonzero(is_touched)
        gathered = self.schema.empty(len(touched))
        for share, of in zip(shares, rows, strict=True):
            self.schema.merge(gathered, np.searchsorted(touched, of), share.learned.table)
        if has_all:
            return touched, gathered
        self._ages = grown(self._ages, len(self.model.names))
        self._ages[touched] += periods
        model = self.model.rows(touched)
        is_young = model[:, self.schema.slices["exclusive_us"].start] < CONVERGED_CALLS
        is_old = self._ages[touched] >= HELD_PERIODS
        is_moved = has_moved(self.schema, model, gathered)
        is_due = is_young | is_old | is_moved
        self._ages[touched[is_due]] = 0
        return touched[is_due], gathered[is_due]

    def _are_paths_due(self, is_last: bool, periods: float) -> bool:
        """Return whether a tenth of the calls so far was not reported, or none for long."""
        self._periods += periods
        held = self._periods - self._paths_reported_at
        is_due = is_last or held >= min(PATHS_SHARE * self._periods, HELD_PERIODS)
        if is_due:
            self._paths_reported_at = self._periods
        return is_due

    def _telemetry(
        self, shares: Sequence[StreamShare], flagged: Sequence[Rows], has_paths: bool
    ) -> TelemetryDelta:
        counters, self._counters = self._counters, []
        figures, self._figures = self._figures, None
        paths = self._paths(shares) if has_paths else []
        return TelemetryDelta(
            flagged=b"".join(rows.tobytes() for rows in flagged),
            flagged_steps=self._flagged_steps(shares),
            traffic=b"".join(share.telemetry.traffic.tobytes() for share in shares),
            paces=b"".join(self._paces(share).tobytes() for share in shares if len(share.telemetry.paces)),
            counters=counters,
            figures=figures,
            paths=_by_program(paths),
            # Telemetry of ranks is in another part than their health.
            node=self._node if self.parts > 1 else "",
            timers=b"".join(rank_timers(share.program, share.rank, own).tobytes() for share, own in paths),
            begun=_begun([own for _, own in paths]),
        )

    def _paths(self, shares: Sequence[StreamShare]) -> list[tuple[StreamShare, Rows]]:
        """Return the shares with calls, and the call paths of each with the agent's function numbers."""
        return [(share, self._own_paths(share)) for share in shares if has_news(share.paths).any()]

    def _own_paths(self, share: StreamShare) -> Rows:
        """Return a share's paths with the agent's function numbers."""
        paths = share.paths.copy()
        timers, at = np.unique(paths["function"][1:], return_inverse=True)
        names = [share.timers.get(timer) or unnamed_timer(timer) for timer in timers.tolist()]
        numbers = np.array([self.model.number(share.program, name) for name in names], np.int32)
        paths["function"][1:] = numbers[at]
        return paths

    def _flagged_steps(self, shares: Sequence[StreamShare]) -> bytes:
        numbered = []
        for share in shares:
            if len(share.telemetry.flagged_steps):
                rows = share.telemetry.flagged_steps.copy()
                timers = rows["function"].tolist()
                rows["function"] = [self.model.number(share.program, share.timers[timer]) for timer in timers]
                numbered.append(rows)
        return merged(*numbered).tobytes() if numbered else b""

    def _paces(self, share: StreamShare) -> Rows:
        paces = share.telemetry.paces.copy()
        timers = paces["function"].tolist()
        paces["function"] = [self.model.number(share.program, share.timers[timer]) for timer in timers]
        return paces

    def _flagged(self, share: StreamShare, rows: Int64Array) -> Rows:
        anomalies, severity_us, highest_score = (share.learned.table[:, at] for at in self._flags_at)
        at = np.flatnonzero(anomalies)
        flagged = np.empty(len(at), FLAGGED)
        flagged["program"], flagged["rank"] = share.program, share.rank
        flagged["function"] = rows[at]
        flagged["anomalies"] = anomalies[at]
        flagged["severity_us"] = severity_us[at]
        flagged["highest_score"] = highest_score[at]
        return flagged

    def _rows(self, share: StreamShare) -> Int64Array:
        timers = share.learned.timers.tolist()
        return np.array([self.model.number(share.program, share.timers[timer]) for timer in timers], np.int64)


def _begun(paths: Sequence[Rows]) -> bytes:
    """Return ``BEGUN`` rows of all call paths that have a function."""
    if not paths:
        return b""
    known = np.concatenate([own[1:] for own in paths])
    known = known[known["begun"] != 0]
    functions, at = np.unique(known["function"], return_inverse=True)
    rows = np.zeros(len(functions), BEGUN)
    rows["function"] = functions
    np.add.at(rows["calls"], at, known["begun"])
    return rows.tobytes()


def _by_program(paths: Sequence[tuple[StreamShare, Rows]]) -> list[ProgramPaths]:
    tables: dict[int, PathTable] = {}
    for share, own in paths:
        tables.setdefault(share.program, PathTable()).add(own)
    return [ProgramPaths(program, table.rows.tobytes()) for program, table in tables.items()]
