"""Findings of a run beside short delays: slow modes, drift, slow ranks, late threads, and deadlocks."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from chimbuko.causes.incidents.drift import Drift, drifts_of
from chimbuko.causes.incidents.slowmodes import SlowMode, slow_modes_of
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.core.arrays import Float64Array
from chimbuko.core.calls.waiting import Waits, waits_in
from chimbuko.core.statistics.schema import PLACED, schema_of, stored_columns
from chimbuko.provenance.incidents.drifts import drifts
from chimbuko.provenance.incidents.imbalance import imbalances
from chimbuko.provenance.incidents.slowmodes import ModeCauses, slow_modes
from chimbuko.provenance.incidents.slowthreads import late_threads, slow_threads
from chimbuko.provenance.incidents.standstill import deadlocks
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.runtime.protocol.telemetry import SlowRank


class Learned(msgspec.Struct, frozen=True):
    """Statistics that the detector has learned of functions; all arrays are in the same order."""

    functions: list[tuple[str, str]]
    """Functions by the names of program and function."""
    counts: Float64Array
    """Number of calls by runtime, f8[functions, buckets]."""
    exclusive: Float64Array
    """Moments of the exclusive runtime, f8[functions, 7]."""
    mean_us: Float64Array
    """Mean of the runtime by which calls are judged, f8[functions]."""
    drift: Float64Array
    """Factor by which calls take longer now than at first, f8[functions]."""
    placed: Float64Array
    """Values of the columns ``PLACED``, f8[functions, 2]."""

    @property
    def slow_modes(self) -> list[SlowMode]:
        """Return the slow modes: functions that take much longer now and then.

        One whose calls have places of their own has more to do there, and loses nothing.
        """
        calls = self.counts.sum(axis=1).tolist()
        of_function = dict(zip(self.functions, zip(calls, *self.placed.T.tolist(), strict=True), strict=True))
        modes = slow_modes_of(self.functions, self.counts, self.exclusive)
        return [mode for mode in modes if not _is_placed(mode, *of_function[mode.program, mode.function])]

    @property
    def drifts(self) -> list[Drift]:
        """Return the drifts: functions that became slower."""
        return drifts_of(self.functions, self.counts, self.exclusive[:, 0], self.mean_us, self.drift)


OF_MODE = 0.8
"""Share of the calls of a slow mode that have a place of their own, from which all of it is usual."""
ALIKE = 4.0
"""Factor by which the calls of a mode may be more or fewer than those whose places are known: shorter ones
may be among these, as in LULESH, where two regions of eleven have more work.
"""


def _is_placed(mode: SlowMode, calls: float, much_longer: float, placed: float) -> bool:
    in_mode = mode.share * calls
    return placed >= OF_MODE * much_longer and in_mode <= ALIKE * much_longer <= ALIKE**2 * in_mode


def learned(provenance: Provenance) -> Learned | None:
    """Read what was learned; None if the detector does not count runtimes, or nothing is known yet.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    config = provenance.run().config
    if "buckets" not in schema_of(config.detector).slices:
        return None
    programs = provenance.programs()
    statistics = {(one.program, one.name): one for one in provenance.function_statistics()}
    known, counts, exclusive, placed = [], [], [], []
    for model in provenance.models.newest():
        if (model.program, model.name) in statistics:
            known.append(statistics[model.program, model.name])
            # Copies: a row has twice as much, which 100,000 functions need not hold.
            columns = stored_columns(config.detector, model.row)
            own = _own_calls(columns)
            moments = columns["exclusive_us"].copy()
            if own is not columns["buckets"]:
                moments[:2] = own.sum(), statistics[model.program, model.name].exclusive_mean_us
            counts.append(own.copy())
            exclusive.append(moments)
            placed.append([columns[column.name][0] for column in PLACED])
    if not known:
        return None
    return Learned(
        functions=[(programs.get(one.program, str(one.program)), one.name) for one in known],
        counts=np.stack(counts),
        exclusive=np.stack(exclusive),
        mean_us=np.array([getattr(one, f"{config.metric}_mean_us") for one in known]),
        drift=np.array([one.drift for one in known]),
        placed=np.array(placed),
    )


def _own_calls(columns: Mapping[str, Float64Array]) -> Float64Array:
    """Return the calls by which the run judged, or those that it counted: where these are fewer, the others
    are of earlier runs.
    """
    judged_by, counted = columns["buckets"], columns.get("counted")
    return judged_by if counted is None or counted.sum() >= judged_by.sum() else counted


MOST_FOUND = 20


def recurring(
    provenance: Provenance, slow_ranks: Sequence[SlowRank] = (), causes: ModeCauses | None = None
) -> list[Recurrence]:
    """Return the recurring findings of a run: deadlocks, and the others, the most costly first.

    Parameters
    ----------
    slow_ranks
        Ranks that are slower than the others all the time, as the server says.
    causes
        Causes of slow modes that were found before.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    known = learned(provenance)
    found = _of_slow_ranks(provenance, slow_ranks)
    if known is not None:
        modes = slow_modes(provenance, known.slow_modes, causes)
        found += modes
        found += drifts(provenance, known.drifts, modes)
    found += imbalances(provenance, found)
    found += slow_threads(provenance, found)
    found += late_threads(provenance, found)
    costly = sorted(found, key=lambda one: -one.cost_us)[:MOST_FOUND]
    return [*deadlocks(provenance), *costly]


def _lost_in_incidents_us(provenance: Provenance, program: int, rank: int) -> float:
    """Return what the abnormal calls of a rank lost that are no waits for others: these have incidents."""
    totals = provenance.calls.totals("function", CallFilter(program=program, rank=rank))
    return sum(one.severity_us for one in totals if waits_in(one.function or "") is Waits.NOT)


def _of_slow_ranks(provenance: Provenance, slow_ranks: Sequence[SlowRank]) -> list[Recurrence]:
    """Return one finding for each node of a program: a bad node makes all its ranks slow."""
    nodes: dict[tuple[int, str], dict[int, list[SlowRank]]] = defaultdict(lambda: defaultdict(list))
    for slow in slow_ranks:
        nodes[slow.program, slow.node][slow.rank].append(slow)
    begin_us, end_us = provenance.steps.time_range() or (0, 0)
    found = []
    for (program, node), ranks in nodes.items():
        # A rank's time in all functions says more than that in any one, and contains it.
        main = [
            min(of_rank, key=lambda one: (one.function != "", -one.lost_us)) for of_rank in ranks.values()
        ]
        functions = {one.function for of_rank in ranks.values() for one in of_rank if one.function}
        told_us = [_lost_in_incidents_us(provenance, program, rank) for rank in ranks]
        lost_us = [max(0.0, one.lost_us - us) for one, us in zip(main, told_us, strict=True)]
        if not any(lost_us):
            continue
        found.append(
            Recurrence(
                program=program,
                kind=RecurrenceKind.SLOW_RANKS,
                function="",
                calls=0,
                cost_us=sum(lost_us),
                shortest_us=min(lost_us),
                longest_us=max(lost_us),
                functions=sorted(functions),
                ranks=sorted(ranks),
                begin_us=begin_us,
                end_us=end_us,
                examples=[],
                factor=math.exp(sum(math.log(one.ratio) for one in main) / len(main)),
                node=node,
            )
        )
    return found
