"""Statistics of all functions of a run: their numbers, their calls, and what agents know of these.

``Decay`` forgets old calls and follows slow drift: the newer calls of each function, scaled to the level of
the newest. An era lasts until a function has 1,000 calls again, and ends between two epochs, so that it is
the same whatever the order in which agents report. Where the runtimes of an era are longer or shorter than
those before as a whole, what was known before is scaled to them, and the extent of the drift is known.
"""

from __future__ import annotations

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array, Int64Array, Rows, UInt16Array, distinct, grown, longer
from chimbuko.core.buckets import BUCKETS
from chimbuko.core.kernels.buckets import scaled
from chimbuko.core.kernels.decay import ERA_CALLS, MOVED, end_eras, moved_by
from chimbuko.core.kernels.merge import add_cells
from chimbuko.core.statistics import flaggedsteps
from chimbuko.core.statistics.convergence import CONVERGED_CALLS
from chimbuko.core.statistics.flaggedsteps import FLAGGED_STEPS
from chimbuko.core.statistics.schema import (
    FLAGS,
    PackedTable,
    TableSchema,
    pack_cells,
    unpack_cells,
)
from chimbuko.runtime.protocol.messages import FunctionName, FunctionStatistics

ADAPTED_CALLS = 8.0
"""Number of own calls from which a function is seen to be slower, or faster, than in earlier runs: with fewer
no quartile is known.
"""


class SavedDecay(msgspec.Struct, frozen=True, array_like=True):
    """Saved state of ``Decay``, for a server that takes over."""

    era: PackedTable
    newer: PackedTable
    older: PackedTable
    ln_drift: bytes
    """Logarithm of each function's drift, float64[functions]."""
    places: bytes
    """Row of each function in the newer and the older memory, int64[functions]."""
    is_prior: bytes = b""
    """Whether all that is remembered of each function is of earlier runs, bool[functions]."""


class Decay:
    """Bucket counts of functions: of the current era, of the newer memory and of the older memory.

    Of 100,000 functions few have an era behind them, so the memories hold rows of these only.
    """

    def __init__(self) -> None:
        self._era = np.zeros((0, BUCKETS))
        self._newer = np.zeros((1, BUCKETS))
        self._older = np.zeros((1, BUCKETS))
        self._places = np.zeros(0, np.int64)
        """Row of each function in the memories; the first one, which is empty, where there is none yet."""
        self._calls = np.zeros(0)
        self._ln_drift = np.zeros(0)
        self._is_prior = np.zeros(0, np.bool_)
        """Whether all that is remembered of each function, before its first era, is of earlier runs."""

    @classmethod
    def restored(cls, saved: SavedDecay) -> Decay:
        """Return the state that was saved."""
        eras = cls()
        eras._era, eras._newer, eras._older = (
            unpack_cells(part, BUCKETS) for part in (saved.era, saved.newer, saved.older)
        )
        eras._places = np.frombuffer(saved.places, np.int64).copy()
        eras._calls = eras._era.sum(axis=1)
        eras._ln_drift = np.frombuffer(saved.ln_drift).copy()
        eras._is_prior = np.zeros(len(eras._places), np.bool_)
        eras._is_prior[: len(saved.is_prior)] = np.frombuffer(saved.is_prior, np.bool_)
        return eras

    def save(self) -> SavedDecay:
        """Return everything, to be saved."""
        era, newer, older = (pack_cells(part) for part in (self._era, self._newer, self._older))
        places, is_prior = self._places.tobytes(), self._is_prior.tobytes()
        return SavedDecay(era, newer, older, self._ln_drift.tobytes(), places, is_prior)

    def add(self, rows: Int64Array, counts: UInt16Array, cells: UInt16Array, values: Float64Array) -> None:
        """Add calls of the functions ``rows``; ``counts``, ``cells`` and ``values`` say how many are in which
        buckets, as in a ``PackedTable``.
        """
        self.reserve(int(rows.max(initial=-1)) + 1)
        add_cells(self._era, rows, 0, counts, cells, values)
        np.add.at(self._calls, np.repeat(rows, counts), values)

    def begin_with(self, row: int, counts: Float64Array) -> None:
        """Add calls of a function that an earlier run counted, float64[BUCKETS], as its oldest."""
        self.reserve(row + 1)
        places = self._held(np.array([row]))
        self._older[places] += counts
        self._is_prior[row] = True

    def remembered(self, rows: Int64Array) -> Float64Array:
        """Return the bucket counts by which the functions ``rows`` are judged, float64[n, BUCKETS]."""
        places = self._places[rows]
        return self._era[rows] + self._newer[places] + self._older[places]

    def end_epoch(self) -> tuple[Int64Array, Int64Array]:
        """End the eras that are full; return the functions that have changed, and those among them whose
        runtimes have moved.
        """
        adapted = self._adapt()
        rows = np.flatnonzero(self._calls >= ERA_CALLS)
        if not len(rows):
            return adapted, adapted
        is_changed = np.zeros(len(rows), np.uint8)
        places = self._held(rows)
        era, newer, older = self._era[rows], self._newer[places], self._older[places]
        ln_drift = self._ln_drift[rows]
        before = ln_drift.copy()
        end_eras(np.arange(len(rows)), era, newer, older, ln_drift, is_changed)
        # What is another than in earlier runs has not drifted in this one.
        ln_drift = np.where(self._is_prior[rows], before, ln_drift)
        self._is_prior[rows] = False
        self._era[rows], self._newer[places], self._older[places] = era, newer, older
        self._ln_drift[rows] = ln_drift
        self._calls[rows] = 0.0
        changed, moved = rows[is_changed != 0], rows[is_changed == MOVED]
        return distinct(np.concatenate([adapted, changed])), distinct(np.concatenate([adapted, moved]))

    def _adapt(self) -> Int64Array:
        """Scale what earlier runs say of functions to this run's level where that is another; return these.

        Otherwise each call of a function that a new version has made slower would be abnormal, until there
        are as many as were known of it.
        """
        rows = np.flatnonzero(self._is_prior & (self._calls >= ADAPTED_CALLS) & (self._calls < ERA_CALLS))
        above, scaled_counts, found = np.empty(BUCKETS + 1), np.empty(BUCKETS), []
        for row in rows.tolist():
            place = self._places[row]
            moved = moved_by(self._older[place], self._era[row], above)
            if moved != 0.0:
                scaled(self._older[place], moved, scaled_counts)
                self._older[place] = scaled_counts
                found.append(row)
        return np.array(found, np.int64)

    def drift(self, rows: Int64Array) -> Float64Array:
        """Return by which factors calls of functions take longer than at first, float64[n]."""
        return np.exp(self._ln_drift[rows])

    def reserve(self, rows: int) -> None:
        """Make room for functions up to ``rows``."""
        for name in ("_era", "_places", "_calls", "_ln_drift", "_is_prior"):
            setattr(self, name, grown(getattr(self, name), rows))

    def _held(self, rows: Int64Array) -> Int64Array:
        """Return the rows of functions in the memories, where those that have none get one."""
        fresh = rows[self._places[rows] == 0]
        first = int(self._places.max(initial=0)) + 1
        self._places[fresh] = first + np.arange(len(fresh))
        for name in ("_newer", "_older"):
            setattr(self, name, grown(getattr(self, name), first + len(fresh)))
        return self._places[rows]


NEVER_S = -1e9
BLOCK = 4096
"""Number of functions whose rows are made at a time, with 30 MB of copies: of 100,000 these were 700 MB."""


class SavedFunctions(msgspec.Struct, frozen=True, array_like=True):
    """Saved state of ``Functions``, for a server that takes over."""

    names: list[FunctionName]
    table: PackedTable
    base: PackedTable
    eras: SavedDecay
    reported_calls: bytes
    """Number of calls of each function when it was last reported, float64[functions]."""
    flagged_steps: bytes = b""
    """``FLAGGED_STEPS`` rows by the function's number."""
    begun: bytes = b""
    """Number of all calls of each function, int64[functions]."""


class Functions:
    """Rows of a detector's table by global function number, which is the same for all ranks that call the
    function.
    """

    def __init__(self, schema: TableSchema) -> None:
        self._schema = schema
        self._numbers: dict[tuple[int, str], int] = {}
        self.names: list[FunctionName] = []
        self._table = schema.empty(0)
        self._base = schema.empty(0)
        """Calls of earlier runs, of the first functions: those that an earlier run knew come first."""
        self._eras = Decay()
        self._flagged_steps = flaggedsteps.empty(0)
        self._begun = np.zeros(0, np.int64)
        """Number of all calls of each function, as far as their call paths are known."""
        self._is_changed = np.zeros(0, np.bool_)
        """Whether each function's row has changed since it was published."""
        self._has_moved = np.zeros(0, np.bool_)
        self._published_calls = np.zeros(0)
        self._published_at_s = np.full(0, NEVER_S)
        self._reported_calls = np.zeros(0)
        """Number of calls when each function's model was last reported to the store."""
        self._calls_at = schema.slices["exclusive_us"].start
        self._forgotten_column = next((one.name for one in schema.columns if one.is_forgotten), "")
        self._forgotten = schema.slices.get(self._forgotten_column)

    @classmethod
    def restored(cls, schema: TableSchema, saved: SavedFunctions) -> Functions:
        """Return the state that was saved; nothing of it counts as published."""
        functions = cls(schema)
        functions.names = list(saved.names)
        functions._numbers = {(name.program, name.name): name.number for name in saved.names}
        count = len(saved.names)
        functions._reserve(count)
        functions._table[:count] = schema.unpack(saved.table)
        functions._base = schema.unpack(saved.base)
        functions._eras = Decay.restored(saved.eras)
        functions._reported_calls[:count] = np.frombuffer(saved.reported_calls)
        flagged = np.frombuffer(saved.flagged_steps, FLAGGED_STEPS)
        functions.flag_steps(np.arange(len(flagged)), flagged)
        begun = np.frombuffer(saved.begun, np.int64)
        functions._begun[: len(begun)] = begun
        functions._is_changed[:count] = True
        return functions

    def save(self) -> SavedFunctions:
        """Return everything, to be saved."""
        count = len(self.names)
        return SavedFunctions(
            list(self.names),
            self._schema.pack(self._table[:count]),
            self._schema.pack(self._base),
            self._eras.save(),
            self._reported_calls[:count].tobytes(),
            self._flagged_steps[:count].tobytes(),
            self._begun[:count].tobytes(),
        )

    def number(self, program: int, name: str) -> int:
        """Return the function's number; a new function gets the next one."""
        number = self._numbers.get((program, name))
        if number is None:
            number = self._numbers[program, name] = len(self.names)
            self.names.append(FunctionName(number, program, name))
            self._reserve(len(self.names))
        return number

    def begin_with(self, program: int, name: str, row: Float64Array) -> None:
        """Add calls of an earlier run, float64[width], to a function's model only."""
        number = self.number(program, name)
        self._base = self._schema.grown(self._base, number + 1)
        self._base[number] = row
        self._is_changed[number] = True
        if self._forgotten is not None:
            self._eras.begin_with(number, row[self._forgotten])

    def merge(self, rows: Int64Array, packed: PackedTable) -> None:
        """Add calls of the functions ``rows``, each named once.

        Raises
        ------
        ValueError
            The table is damaged; nothing was added.
        """
        self._schema.merge_packed(self._table, rows, packed)
        if self._forgotten is not None:
            self._eras.add(rows, *self._schema.cells_of(packed, self._forgotten_column))
        self._is_changed[rows] = True

    def flag(self, numbers: Int64Array, flagged: Rows) -> None:
        """Count flagged calls, ``FLAGGED`` rows."""
        anomalies, severity_us, highest_score = (self._schema.slices[name].start for name in FLAGS)
        np.add.at(self._table[:, anomalies], numbers, flagged["anomalies"])
        np.add.at(self._table[:, severity_us], numbers, flagged["severity_us"])
        np.maximum.at(self._table[:, highest_score], numbers, flagged["highest_score"])

    def flag_steps(self, numbers: Int64Array, steps: Rows) -> None:
        """Count steps in which calls were flagged, ``FLAGGED_STEPS`` rows."""
        flaggedsteps.add(self._flagged_steps, numbers, steps)

    def begin_calls(self, numbers: Int64Array, calls: Int64Array) -> None:
        """Count calls that have begun, also those that do not count for the detector."""
        np.add.at(self._begun, numbers, calls)

    def of_counted(self, numbers: Int64Array) -> list[int]:
        """Return the functions with runtimes: at least one of their calls counts for the detector."""
        known: list[int] = numbers[self._table[numbers, self._calls_at] > 0].tolist()
        return known

    def end_epoch(self) -> None:
        """Forget old calls; see ``Decay``."""
        changed, moved = self._eras.end_epoch()
        self._is_changed[changed] = True
        self._has_moved[moved] = True

    def judged_by(self, numbers: Int64Array) -> Float64Array:
        """Return rows of the model: without forgotten calls, with those of earlier runs."""
        table = self._table[numbers]
        has_base = np.flatnonzero(numbers < len(self._base))
        self._schema.merge(table, has_base, self._base[numbers[has_base]])
        if self._forgotten is not None:
            for begin in range(0, len(numbers), BLOCK):
                block = slice(begin, begin + BLOCK)
                # Packed and unpacked as for sending, so that agents and store know the same.
                remembered = self._eras.remembered(numbers[block]).astype(np.float32)
                table[block, self._forgotten] = remembered
        return table

    def counted(self, numbers: Int64Array) -> Float64Array:
        """Return this run's calls by bucket, float64[n, BUCKETS]; of detectors without buckets float64[n,
        0].
        """
        counted: Float64Array = self._table[numbers][:, self._forgotten or slice(0)]
        return counted

    def base(self, numbers: Int64Array) -> Float64Array:
        """Return the rows of earlier runs, float64[n, width]."""
        table = self._schema.empty(len(numbers))
        has_base = np.flatnonzero(numbers < len(self._base))
        table[has_base] = self._base[numbers[has_base]]
        return table

    def called(self) -> Int64Array:
        """Return the functions of which calls were counted in this run."""
        return np.flatnonzero(self._table[: len(self.names), self._calls_at])

    def rows(self, numbers: Int64Array) -> Float64Array:
        """Return the rows of this run, float64[n, width]."""
        rows: Float64Array = self._table[numbers]
        return rows

    def changed(self) -> Int64Array:
        """Return the functions that have changed since they were published."""
        return np.flatnonzero(self._is_changed)

    def due(self, now_s: float, held_s: float) -> Int64Array:
        """Return the changed functions that agents should know of now: not those that have converged, have
        not moved, and were published less than ``held_s`` ago.
        """
        numbers = self.changed()
        age_s = now_s - self._published_at_s[numbers]
        has_converged = self._published_calls[numbers] >= CONVERGED_CALLS
        return numbers[~has_converged | self._has_moved[numbers] | (age_s >= held_s)]

    def published(self, numbers: Int64Array, now_s: float) -> None:
        """Note that these functions' rows have been published to agents."""
        self._is_changed[numbers] = self._has_moved[numbers] = False
        self._published_calls[numbers] = self._calls(numbers)
        self._published_at_s[numbers] = now_s

    def grown(self, numbers: Int64Array, growth: float, has_all: bool) -> Int64Array:
        """Return the functions whose calls passed a power of ``growth`` since the last call; at the end all
        that ran.

        Powers are the same in each run, so that runs can be compared part by part.
        """
        numbers = self.called() if has_all else numbers
        calls = self._calls(numbers)
        passed, reported_before = (
            np.floor(np.log(np.maximum(known, 0.5)) / np.log(growth))
            for known in (calls, self._reported_calls[numbers])
        )
        is_grown = passed > reported_before
        reported: Int64Array = numbers[is_grown | has_all]
        self._reported_calls[reported] = self._calls(reported)
        return reported

    def statistics(self, numbers: Int64Array) -> list[FunctionStatistics]:
        """Return the statistics of these functions over all ranks."""
        rows = self._table[numbers]
        n, mean, m2, _, _, minimum, maximum = rows[:, self._schema.slices["exclusive_us"]].T
        inclusive = rows[:, self._schema.slices["inclusive_us"]]
        anomalies, severity_us = (rows[:, self._schema.slices[name].start] for name in FLAGS[:2])
        stddev = np.sqrt(np.maximum(m2, 0.0) / np.maximum(n - 1, 1.0))
        steps = self._flagged_steps[numbers]
        columns = (
            # Call paths are reported less often than runtimes.
            np.maximum(n.astype(np.int64), self._begun[numbers]),
            anomalies.astype(np.int64),
            *(severity_us, mean, stddev, minimum, maximum, inclusive[:, 1], inclusive[:, 6]),
            self._eras.drift(numbers) if self._forgotten is not None else np.ones(len(numbers)),
            *(steps[name] for name in ("steps", "squares", "cubes", "fourths")),
            np.where(steps["steps"] > 0, steps["fewest"], 0),
            steps["most"],
        )
        names = [self.names[number] for number in numbers.tolist()]
        return [
            FunctionStatistics(name.program, name.name, *values)
            for name, *values in zip(names, *(column.tolist() for column in columns), strict=True)
        ]

    def _calls(self, numbers: Int64Array) -> Float64Array:
        calls: Float64Array = self._table[numbers, self._calls_at]
        has_base = np.flatnonzero(numbers < len(self._base))
        calls[has_base] += self._base[numbers[has_base], self._calls_at]
        return calls

    def _reserve(self, count: int) -> None:
        held = len(self._table)
        if count <= held:
            return
        self._table = self._schema.grown(self._table, count)
        rows = len(self._table)
        more = flaggedsteps.empty(rows - held)
        self._flagged_steps = np.concatenate([self._flagged_steps, more])
        self._published_at_s = longer(self._published_at_s, rows, NEVER_S)
        for name in ("_published_calls", "_reported_calls", "_is_changed", "_has_moved", "_begun"):
            setattr(self, name, longer(getattr(self, name), rows))
        self._eras.reserve(rows)
