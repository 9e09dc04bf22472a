"""An agent's view of the statistics: what its streams learned, merged; and the global model. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from chimbuko.ad.analysis.statistics import Learned
from chimbuko.ad.analysis.telemetry import StreamTelemetry
from chimbuko.arrays import BoolArray, Float64Array, Int64Array, Rows, longer
from chimbuko.calls.callpaths import PATH, PathTable
from chimbuko.calls.record import StepCount, StreamHealth
from chimbuko.protocol.messages import NO_EPOCH, Delta, FunctionName, ModelUpdate
from chimbuko.protocol.telemetry import FLAGGED, AgentFigures, ProgramPaths, StreamCounters, TelemetryDelta
from chimbuko.statistics.convergence import CONVERGED_CALLS, HELD_PERIODS, has_moved
from chimbuko.statistics.flaggedsteps import merged
from chimbuko.statistics.packed import PackedTable
from chimbuko.statistics.schema import FLAGS, TableSchema
from chimbuko.trace.schema import unnamed_timer

PATHS_SHARE = 0.1
"""Call paths are reported when a tenth of the run so far, or ``HELD_PERIODS``, has passed since: nobody
judges by them."""


@dataclass(frozen=True)
class Part:
    """What one stream has learned and nobody has sent yet."""

    program: int
    rank: int
    timers: Mapping[int, str]
    learned: Learned
    steps: Sequence[StepCount] = ()
    """The steps it was learned in, since the last delta."""
    telemetry: StreamTelemetry = field(default_factory=StreamTelemetry.none)
    paths: Rows = field(default_factory=lambda: np.empty(0, PATH))
    """``PATH``; functions are timers."""


@dataclass(frozen=True)
class Outgoing:
    """A delta, and what of each part is in it."""

    delta: Delta
    taken: list[BoolArray]
    """Of each part, bool[timers]. All steps and all flagged calls are taken."""
    has_paths: bool
    """Whether the call paths of all parts are taken."""


class AgentStatistics:
    """Merges the streams of one agent into one delta at a time, and keeps the model it gets back.

    Functions have numbers of the agent's own, in order of first mention. One thread owns it; ``model_for``
    and ``version`` may be read from another one, which sees each row as it was or as it is.
    """

    def __init__(self, agent: str, incarnation: int, schema: TableSchema) -> None:
        self.agent = agent
        self.incarnation = incarnation
        self.schema = schema
        self._flags_at = [schema.slices[name].start for name in FLAGS]
        self._numbers: dict[tuple[int, str], int] = {}
        self._unsent_names: list[FunctionName] = []
        self._gathered = schema.empty(64)
        self._ages = np.zeros(64)
        """For how many periods each function was left out."""
        self._health: dict[tuple[int, int], StreamHealth] = {}
        self._counters: list[StreamCounters] = []
        self._figures: AgentFigures | None = None
        self._periods = self._paths_reported_at = 0.0
        self._sequence = 0
        self._server = 0
        self._functions: list[tuple[int, str]] = []
        """By global number."""
        self._global_numbers: dict[tuple[int, str], int] = {}
        self._model = schema.empty(64)
        self._has_row = np.zeros(64, np.bool_)
        """Whether the function's row was fetched since the agent knows of it."""
        self.version = 0
        self.closed_epoch = NO_EPOCH

    def follow(self, last: Delta) -> None:
        """Count on from the last delta of a predecessor."""
        self.incarnation = max(self.incarnation, last.incarnation + 1)
        self._sequence = last.sequence

    @property
    def next_sequence(self) -> int:
        """Sequence number of the next delta."""
        return self._sequence + 1

    @property
    def known_functions(self) -> int:
        """How many functions' names were learned from the server."""
        return len(self._functions)

    @property
    def has_word(self) -> bool:
        """Whether the agent has something to say that no stream has brought."""
        return self._figures is not None or bool(self._health or self._counters)

    def name(self, program: int, names: Iterable[str]) -> None:
        """Functions that streams may call: the next delta names them, and their model is wanted."""
        for name in names:
            self._number(program, name)

    def note_health(self, health: StreamHealth) -> None:
        """Running totals of one stream, for the next delta."""
        self._health[health.program, health.rank] = health

    def note_counters(self, counters: StreamCounters) -> None:
        """Totals of counters of one stream, for the next delta."""
        self._counters.append(counters)

    def note_figures(self, figures: AgentFigures) -> None:
        """What the agent takes, for the next delta."""
        self._figures = figures

    def next_delta(
        self,
        parts: Sequence[Part],
        closed_epochs: dict[str, int],
        has_all: bool = True,
        periods: float = 1.0,
    ) -> Outgoing | None:
        """What is to be sent of what the streams have; None if there is nothing to say.

        Parameters
        ----------
        has_all
            Nothing is held back. Otherwise functions are of which enough is known; see
            ``chimbuko.statistics.convergence``.
        periods
            Trace periods since the last call.
        """
        rows = [self._rows(part) for part in parts]
        due = self._gather(parts, rows, has_all, periods)
        flagged = [self._flagged(part, of) for part, of in zip(parts, rows, strict=True)]
        steps = [step for part in parts for step in part.steps]
        # One that closes an epoch is not the last.
        has_paths = self._are_paths_due(has_all and not closed_epochs, periods)
        telemetry = self._telemetry(parts, flagged, has_paths)
        if not (len(due) or telemetry != TelemetryDelta() or steps or self._health or closed_epochs):
            return None
        self._sequence = self.next_sequence
        table = self._gathered[due]
        table[:, self._flags_at] = self.schema.empty(1)[:, self._flags_at]
        delta = Delta(
            agent=self.agent,
            incarnation=self.incarnation,
            sequence=self._sequence,
            since=self._sequence,
            closed_epochs=closed_epochs,
            names=self._unsent_names,
            rows=due.astype(np.int32).tobytes(),
            table=self.schema.pack(table),
            steps=steps,
            health=list(self._health.values()),
            telemetry=telemetry,
        )
        self._unsent_names = []
        self._health.clear()
        is_due = np.zeros(len(self._gathered), np.bool_)
        is_due[due] = True
        return Outgoing(delta, [is_due[of] for of in rows], has_paths)

    def learn_functions(self, server: int, names: Sequence[FunctionName]) -> None:
        """Names that follow the known ones, from the server."""
        if server != self._server:
            self._server = server
            self._functions, self._global_numbers = [], {}
            self._has_row[:] = False
        for name in names:
            self._global_numbers[name.program, name.name] = len(self._functions)
            self._functions.append((name.program, name.name))

    def is_of_another_server(self, update: ModelUpdate) -> bool:
        """Whether all names have to be learned anew."""
        return update.server != self._server

    def wanted(self, updates: Sequence[ModelUpdate]) -> list[int]:
        """Global numbers of the functions whose rows are to be fetched: those that are used here and have
        changed, or are new here.
        """
        changed = {
            number
            for update in updates
            if update.table is None
            for number in np.frombuffer(update.numbers, np.int32).tolist()
        }
        has_missed = bool(updates) and updates[0].version != self.version + 1
        if not (changed or has_missed or not self._has_row[: len(self._numbers)].all()):
            return []
        return [
            number
            for key, own in self._numbers.items()
            if (number := self._global_numbers.get(key)) is not None
            and (has_missed or number in changed or not self._has_row[own])
        ]

    def apply(self, updates: Sequence[ModelUpdate], rows: Mapping[int, PackedTable | None]) -> None:
        """Take over updates, with the rows that were wanted; None for one that there is not.

        Rows that were fetched are those of the newest version, so what the updates have is put below them.
        """
        for update in updates:
            if update.table is not None and update.server == self._server:
                self._take_table(update, update.table)
        for number, row in rows.items():
            own = self._numbers[self._functions[number]]
            self._has_row[own] = True
            if row is not None:
                self._model[own] = self.schema.unpack(row)[0]
        if updates:
            self.version = updates[-1].version
            # A server that took over may be behind what was reported before.
            self.closed_epoch = max(self.closed_epoch, updates[-1].closed_epoch)

    def _take_table(self, update: ModelUpdate, table: PackedTable) -> None:
        """The rows that an update has itself, of functions that are used here."""
        keys = [self._functions[number] for number in np.frombuffer(update.numbers, np.int32).tolist()]
        own = np.array([self._numbers.get(key, -1) for key in keys], np.int64)
        is_used = own >= 0
        self._model[own[is_used]] = self.schema.unpack(table)[is_used]
        self._has_row[own[is_used]] = True

    def model_for(self, program: int, timers: Mapping[int, str]) -> Float64Array:
        """The model as one stream needs it, f8[timers, width], rows by the stream's timer ids."""
        table = self.schema.empty(max(timers, default=-1) + 1)
        for timer, name in timers.items():
            own = self._numbers.get((program, name))
            if own is not None:
                table[timer] = self._model[own]
        return table

    def _gather(
        self, parts: Sequence[Part], rows: Sequence[Int64Array], has_all: bool, periods: float
    ) -> Int64Array:
        """Merge all parts into ``_gathered``; returns which functions are due, ascending."""
        is_touched = np.zeros(len(self._gathered), np.bool_)
        for part, of in zip(parts, rows, strict=True):
            fresh = of[~is_touched[of]]
            self._gathered[fresh] = self.schema.empty(1)
            is_touched[of] = True
            self.schema.merge(self._gathered, of, part.learned.table)
        touched = np.flatnonzero(is_touched)
        if has_all:
            return touched
        self._ages[touched] += periods
        model = self._model[touched]
        is_young = model[:, self.schema.slices["exclusive_us"].start] < CONVERGED_CALLS
        is_old = self._ages[touched] >= HELD_PERIODS
        is_moved = has_moved(self.schema, model, self._gathered[touched])
        due = touched[is_young | is_old | is_moved]
        self._ages[due] = 0
        return due

    def _are_paths_due(self, is_last: bool, periods: float) -> bool:
        """Whether a tenth of the calls so far was not reported, or none for long."""
        self._periods += periods
        held = self._periods - self._paths_reported_at
        is_due = is_last or held >= min(PATHS_SHARE * self._periods, HELD_PERIODS)
        if is_due:
            self._paths_reported_at = self._periods
        return is_due

    def _telemetry(self, parts: Sequence[Part], flagged: Sequence[Rows], has_paths: bool) -> TelemetryDelta:
        counters, self._counters = self._counters, []
        figures, self._figures = self._figures, None
        return TelemetryDelta(
            flagged=b"".join(rows.tobytes() for rows in flagged),
            flagged_steps=self._flagged_steps(parts),
            traffic=b"".join(part.telemetry.traffic.tobytes() for part in parts),
            paces=b"".join(self._paces(part).tobytes() for part in parts if len(part.telemetry.paces)),
            counters=counters,
            figures=figures,
            paths=self._paths(parts) if has_paths else [],
        )

    def _paths(self, parts: Sequence[Part]) -> list[ProgramPaths]:
        tables: dict[int, PathTable] = {}
        for part in parts:
            if part.paths["calls"].any():
                tables.setdefault(part.program, PathTable()).add(self._own_paths(part))
        return [ProgramPaths(program, table.rows.tobytes()) for program, table in tables.items()]

    def _own_paths(self, part: Part) -> Rows:
        """A part's paths with the agent's numbers of functions."""
        paths = part.paths.copy()
        timers, at = np.unique(paths["function"][1:], return_inverse=True)
        names = [part.timers.get(timer) or unnamed_timer(timer) for timer in timers.tolist()]
        numbers = np.array([self._number(part.program, name) for name in names], np.int32)
        paths["function"][1:] = numbers[at]
        return paths

    def _flagged_steps(self, parts: Sequence[Part]) -> bytes:
        numbered = []
        for part in parts:
            if len(part.telemetry.flagged_steps):
                rows = part.telemetry.flagged_steps.copy()
                timers = rows["function"].tolist()
                rows["function"] = [self._number(part.program, part.timers[timer]) for timer in timers]
                numbered.append(rows)
        return merged(*numbered).tobytes() if numbered else b""

    def _paces(self, part: Part) -> Rows:
        paces = part.telemetry.paces.copy()
        timers = paces["function"].tolist()
        paces["function"] = [self._number(part.program, part.timers[timer]) for timer in timers]
        return paces

    def _flagged(self, part: Part, rows: Int64Array) -> Rows:
        anomalies, severity_us, highest_score = (part.learned.table[:, at] for at in self._flags_at)
        at = np.flatnonzero(anomalies)
        flagged = np.empty(len(at), FLAGGED)
        flagged["program"], flagged["rank"] = part.program, part.rank
        flagged["function"] = rows[at]
        flagged["anomalies"] = anomalies[at]
        flagged["severity_us"] = severity_us[at]
        flagged["highest_score"] = highest_score[at]
        return flagged

    def _rows(self, part: Part) -> Int64Array:
        timers = part.learned.timers.tolist()
        return np.array([self._number(part.program, part.timers[timer]) for timer in timers], np.int64)

    def _number(self, program: int, name: str) -> int:
        key = program, name
        number = self._numbers.get(key)
        if number is None:
            number = len(self._numbers)
            # The row first: who reads the model in another thread goes by the numbers.
            self._reserve(number + 1)
            self._numbers[key] = number
            self._unsent_names.append(FunctionName(number, program, name))
        return number

    def _reserve(self, count: int) -> None:
        if count > len(self._gathered):
            self._gathered = self.schema.grown(self._gathered, count)
            self._model = self.schema.grown(self._model, count)
            self._ages = longer(self._ages, len(self._model))
            self._has_row = longer(self._has_row, len(self._model))
