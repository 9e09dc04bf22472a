"""Statistics of one stream's functions: what it learned itself, and what all streams have merged.

``StreamStatistics`` has three parts, whose sum judges a call: the global model as last received; generations
of own statistics that were handed out and are not yet in that model; and what was learned since. A part is
dropped when the model contains it, so nothing is counted twice.

Functions whose own time means something else on this rank since its recorder leaves out what they call are
judged by the rank's own calls since then, which the fourth part holds.

``FlaggedSteps`` says in which steps calls of functions were flagged, until the agent has taken it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.kernels import label
from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.arrays import Float64Array, Int32Array, Int64Array, Rows, distinct, grown
from chimbuko.core.statistics.flaggedsteps import FLAGGED_STEPS
from chimbuko.core.statistics.schema import FLAGS, TableSchema


class _Sums(msgspec.Struct):
    """Sums of one function; fields as in ``FLAGGED_STEPS``."""

    steps: int
    squares: int
    cubes: int
    fourths: int
    fewest: int
    most: int

    def add(self, other: _Sums) -> None:
        self.steps += other.steps
        self.squares += other.squares
        self.cubes += other.cubes
        self.fourths += other.fourths
        self.fewest = min(self.fewest, other.fewest)
        self.most = max(self.most, other.most)


class FlaggedSteps:
    """Sums of flagged calls over the steps of a stream, by timer."""

    def __init__(self) -> None:
        self._not_taken: dict[int, _Sums] = {}
        self._fresh: dict[int, _Sums] = {}
        self._generation = 0

    def note(self, timers: Int64Array) -> None:
        """Note the timers of the calls that were flagged in a step, int64[calls]."""
        # They are few: with arrays, this would take longer in each step than to judge its calls.
        for timer, calls in Counter(timers.tolist()).items():
            _add(self._fresh, timer, _Sums(1, calls**2, calls**3, calls**4, calls, calls))

    @property
    def most(self) -> int:
        """Maximum number of rows that are not taken."""
        return len(self._not_taken) + len(self._fresh)

    def not_taken(self, generation: int) -> Rows:
        """Return ``FLAGGED_STEPS`` rows of all that was not taken yet, ascending.

        ``generation`` says whether what was reported the last time is still there, or was taken.
        """
        if generation != self._generation:
            self._generation = generation
            self._not_taken = {}
        for timer, sums in self._fresh.items():
            _add(self._not_taken, timer, sums)
        self._fresh = {}
        rows = [
            (timer, sums.steps, sums.squares, sums.cubes, sums.fourths, sums.fewest, sums.most)
            for timer, sums in sorted(self._not_taken.items(), key=lambda item: item[0])
        ]
        return np.array(rows, FLAGGED_STEPS)


def _add(sums: dict[int, _Sums], timer: int, more: _Sums) -> None:
    if timer in sums:
        sums[timer].add(more)
    else:
        sums[timer] = more


Timers = npt.NDArray[np.int64]

_NO_TIMERS = np.empty(0, np.int64)
_UNSEEN = np.array([np.inf, -np.inf])


class Learned(msgspec.Struct, frozen=True):
    """Statistics of a stream's own calls, by timer."""

    timers: Timers
    """Timer ids, ascending, int64[n]."""
    table: Float64Array
    """Rows of the detector's table, float64[n, width]."""


class StreamStatistics:
    """Statistics tables of one stream, rows by its timer ids.

    Parameters
    ----------
    schema
        Schema of the detector's table.
    use_inclusive
        Whether the runtime that is judged is the inclusive one, and not the exclusive one.
    is_frozen
        Whether only the global model counts.
    """

    def __init__(self, schema: TableSchema, use_inclusive: bool, is_frozen: bool) -> None:
        self._schema = schema
        self._use_inclusive = use_inclusive
        self._is_frozen = is_frozen
        self._buckets_at = schema.slices["buckets"].start if "buckets" in schema.slices else label.NO_BUCKETS
        self._count_at = schema.slices["exclusive_us"].start
        self._model = schema.empty(0)
        self._handed_out: dict[int, Learned] = {}
        self._own = schema.empty(0)
        self._is_touched = np.zeros(0, np.bool_)
        self._rows_apart = np.zeros(0, np.int32)
        """Row of each function in the table of those that are judged apart, or -1; int32[timers]."""
        self._apart = schema.empty(0)
        self.flagged_steps = FlaggedSteps()
        self.extremes = np.empty((0, 2))
        """Shortest and longest judged runtime of the calls that ended in the step, float64[timers, 2]."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the global model, which a successor finds where this one found it."""
        rows = np.flatnonzero(self._is_touched)
        own = len(self._own), rows, self._own[rows]
        return self.__dict__ | {"_model": self._model[:0], "_own": own, "extremes": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        count, rows, own = state["_own"]
        self._own = self._schema.empty(count)
        self._own[rows] = own
        self.extremes = np.empty((count, 2))

    def learn(self, stacks: CallStacks) -> tuple[int, Timers]:
        """Add the calls that ended in a step; return their number, and the timers that were learned of."""
        if stacks.timers > len(self._own):
            self._own = self._schema.grown(self._own, stacks.timers)
            self._is_touched = np.concatenate(
                [self._is_touched, np.zeros(len(self._own) - len(self._is_touched), np.bool_)]
            )
            self.extremes = np.empty((len(self._own), 2))
            self._rows_apart = grown(self._rows_apart, len(self._own), NONE)
        self.extremes[:] = _UNSEEN
        if len(self._apart):
            label.learn_apart(
                stacks.calls,
                stacks.count,
                stacks.is_named,
                self._rows_apart,
                False,
                self._use_inclusive,
                self._buckets_at,
                self._apart,
            )
        completed = label.learn(
            stacks.calls,
            stacks.count,
            stacks.is_named,
            self._use_inclusive,
            self._buckets_at,
            self._own,
            self.extremes,
        )
        timers = (self.extremes[:, 1] >= 0).nonzero()[0]
        self._is_touched[timers] = True
        return completed, timers

    def begin_apart(self, timers: Timers) -> None:
        """Judge the calls of these functions by those that this stream learns from now on, and no others."""
        self._rows_apart = grown(self._rows_apart, int(timers.max()) + 1, NONE)
        fresh = timers[self._rows_apart[timers] == NONE]
        self._rows_apart[fresh] = len(self._apart) + np.arange(len(fresh))
        self._apart = np.concatenate([self._apart, self._schema.empty(len(fresh))])
        self._apart[self._rows_apart[timers]] = self._schema.identity

    def _held_apart(self, timers: Timers) -> tuple[Timers, Timers]:
        """Return where functions that are judged apart stand in ``timers``, and their rows."""
        if not len(self._apart):
            return _NO_TIMERS, _NO_TIMERS
        rows: Int32Array = self._rows_apart[timers]
        at = (rows != NONE).nonzero()[0]
        return at, rows[at].astype(np.int64)

    def note_anomalies(self, timers: Timers, severity_us: Float64Array, score: Float64Array) -> None:
        """Count the flagged calls of a step; arguments have one element per call, of functions that were
        learned of in it.
        """
        self.flagged_steps.note(timers)
        anomalies, lost_us, highest = (self._schema.slices[name].start for name in FLAGS)
        np.add.at(self._own[:, anomalies], timers, 1.0)
        np.add.at(self._own[:, lost_us], timers, severity_us)
        np.maximum.at(self._own[:, highest], timers, score)

    def note_placed(self, timer: int, much_longer: int, placed: int) -> None:
        """Count the much longer calls of a function in a step, and those at the places of such calls."""
        self._own[timer, self._schema.slices["much_longer"]] += much_longer
        self._own[timer, self._schema.slices["placed"]] += placed

    def time_us(self, timers: Timers) -> Float64Array:
        """Return the time in the own code of functions that was not handed out yet, float64[n]."""
        count, mean_us = self._own[timers, self._count_at : self._count_at + 2].T
        return np.asarray(count * mean_us)

    def seen(self, timers: Timers) -> Float64Array:
        """Return how many calls are known of each of ``timers``, float64[n]."""
        seen = np.zeros(len(timers))
        held = timers < len(self._model)
        seen[held] = self._model[timers[held], self._count_at]
        if not self._is_frozen:
            for learned in self._handed_out.values():
                rows, at = _common(timers, learned.timers)
                seen[rows] += learned.table[at, self._count_at]
            seen += self._own[timers, self._count_at]
        at, rows = self._held_apart(timers)
        seen[at] = self._apart[rows, self._count_at]
        return seen

    def known(self, timers: Timers) -> Float64Array:
        """Return all that is known of ``timers``, ascending and each once, float64[n, width]."""
        table = self._schema.empty(len(timers))
        held = timers < len(self._model)
        table[held] = self._model[timers[held]]
        if not self._is_frozen:
            for learned in self._handed_out.values():
                rows, at = _common(timers, learned.timers)
                self._schema.merge(table, rows, learned.table[at])
            self._schema.merge(table, np.arange(len(timers)), self._own[timers])
        at, rows = self._held_apart(timers)
        table[at] = self._apart[rows]
        return table

    @property
    def learned_timers(self) -> Timers:
        """Timers with calls since the last time, ascending."""
        return self._is_touched.nonzero()[0]

    def hand_out(self, generation: int) -> Learned:
        """Return what was learned since the last call, to be merged into the global model by others."""
        timers = self.learned_timers
        learned = Learned(timers, self._own[timers])
        self._own[timers] = self._schema.identity
        self._is_touched[:] = False
        held = self._handed_out.get(generation)
        self._handed_out[generation] = (
            learned if held is None else merged_learned(self._schema, held, learned)
        )
        return learned

    def take_model(self, model: Float64Array, generation: int, ahead: Int64Array | None = None) -> None:
        """Judge by a global model from now on.

        Parameters
        ----------
        model
            Rows by the stream's own timer ids, float64[timers, width].
        generation
            Last generation of own statistics that the model contains.
        ahead
            Last generation that each row contains, int64[timers], where some contain more than others; by
            default they are alike.
        """
        self._model = model
        left = {held: kept for held, kept in self._handed_out.items() if held > generation}
        if ahead is not None:
            left = {held: _behind(kept, held, ahead) for held, kept in left.items()}
        self._handed_out = left


def merged_learned(schema: TableSchema, first: Learned, second: Learned) -> Learned:
    """Return the statistics of both together."""
    if not len(first.timers):
        return second
    timers = distinct(np.concatenate([first.timers, second.timers]))
    table = schema.empty(len(timers))
    for part in (first, second):
        schema.merge(table, np.searchsorted(timers, part.timers), part.table)
    return Learned(timers, table)


def _behind(kept: Learned, generation: int, ahead: Int64Array) -> Learned:
    """Return the rows of a generation that the model does not contain yet; ``ahead`` as for
    ``take_model``.
    """
    has_row = kept.timers < len(ahead)
    is_behind = np.ones(len(kept.timers), np.bool_)
    is_behind[has_row] = ahead[kept.timers[has_row]] < generation
    return kept if is_behind.all() else Learned(kept.timers[is_behind], kept.table[is_behind])


def _common(wanted: Timers, held: Timers) -> tuple[Timers, Timers]:
    """Return where the values that two ascending arrays share stand in each."""
    if not len(held):
        return held, held
    at = np.minimum(np.searchsorted(held, wanted), len(held) - 1)
    rows = np.flatnonzero(held[at] == wanted)
    return rows, at[rows]
