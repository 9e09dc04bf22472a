"""Findings of functions that became slower: from when on, by how much, where, and what it cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from chimbuko.causes.incidents.drift import LEAST_FACTOR, OF_RUN, Drift, Stretch, drift_over
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.core.arrays import Float64Array
from chimbuko.core.statistics.schema import stored_columns
from chimbuko.provenance.incidents.imbalance import sleeps
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.nodelist import DatedTimes, ThreadTimes, dated_thread_times, sampled_nodes
from chimbuko.provenance.query.run import FunctionTime, Provenance
from chimbuko.runtime.protocol.messages import FunctionModel, FunctionStatistics

MOST_FOUND = 20
EXAMPLES = 3


def drifts(provenance: Provenance, eras: Sequence[Drift], modes: Sequence[Recurrence]) -> list[Recurrence]:
    """Return the drifts of a run, by what their calls lost beside what is lost in incidents and slow modes.

    Each model of a function that was kept says what its calls had taken up to then; two that follow each
    other say what those between them took.

    Parameters
    ----------
    eras
        Drifts as the detector has followed them, over eras of 1,000 calls of a function: it sees at once what
        the models, of which there are fewer and fewer in a long run, say later.
    modes
        Slow modes that were found.
    """
    programs = provenance.programs()
    numbers = {name: number for number, name in programs.items()}
    statistics = provenance.function_statistics()
    least_us = OF_RUN * sum(_time_us(one) for one in statistics)
    told_us: dict[tuple[int, str], float] = defaultdict(float)
    for mode in modes:
        told_us[mode.program, mode.function] += mode.cost_us
    found: dict[tuple[int, str], Drift] = {}
    severity_us = {(one.program, one.name): one.severity_us for one in statistics}
    for drift in eras:
        key = numbers[drift.program], drift.function
        found[key] = replace(drift, lost_us=drift.lost_us - severity_us[key])
    costly = [(one.program, one.name) for one in statistics if _time_us(one) >= least_us]
    config = provenance.run().config
    # One statement for all: with one for each function this took half of what the writer does of a live run.
    for (program, name), versions in provenance.models.versions_of(costly).items():
        stretches = list(_stretches(versions, config.detector, f"{config.metric}_us"))
        if (drift_now := drift_over(programs.get(program, ""), name, stretches)) is not None:
            found[program, name] = drift_now
    left = {key: replace(drift, lost_us=drift.lost_us - told_us[key]) for key, drift in found.items()}
    worst = sorted(left.items(), key=lambda item: -item[1].lost_us)[:MOST_FOUND]
    worst = [item for item in worst if item[1].lost_us >= least_us and item[1].lost_us > 0.0]
    if not worst:
        return []
    calls = {(one.program, one.name): one.calls for one in statistics}
    whole, times = provenance.function_times(), _dated_times(provenance)
    findings = []
    for key, drift in worst:
        begin_us = _begin_us(provenance, drift, key[0], calls[key])
        if not sleeps(whole.get(key, FunctionTime(0, 0.0, 0))):
            drift = _without_waits(drift, calls[key], _waits_grew(times, begin_us))
        if drift.factor >= LEAST_FACTOR and drift.lost_us >= least_us:
            findings.append(_finding(provenance, drift, key[0], calls[key], begin_us))
    return findings


def _dated_times(provenance: Provenance) -> list[DatedTimes]:
    reader = provenance.reader
    return [one for node in sampled_nodes(reader) for one in dated_thread_times(reader, node.name)]


def _waits_grew(dated: Sequence[DatedTimes], begin_us: int) -> float:
    """Return how many times as long the same work takes after a moment as before it, or at first, as threads
    wait longer for their cores; at least 1.
    """
    earlier = [one.times for one in dated if one.end_us <= begin_us]
    if not earlier:
        first_us = min((one.begin_us for one in dated), default=0)
        earlier = [one.times for one in dated if one.begin_us == first_us]
    later = [one.times for one in dated if one.begin_us >= begin_us] or [one.times for one in dated[-1:]]
    ran = [1.0 - _together(times).waited for times in (earlier, later)]
    return max(1.0, ran[0] / ran[1]) if ran[1] > 0.0 else 1.0


def _together(times: Sequence[ThreadTimes]) -> ThreadTimes:
    return ThreadTimes(*map(sum, zip(ThreadTimes(0, 0, 0), *times, strict=True)))


def _without_waits(drift: Drift, calls: int, grew: float) -> Drift:
    """Return a drift without that part of it by which threads wait longer for their cores."""
    usual_us = drift.usual_us * grew
    lost_us = drift.lost_us - (calls - drift.before) * (usual_us - drift.usual_us)
    return replace(drift, factor=drift.factor / grew, usual_us=usual_us, lost_us=lost_us)


def _time_us(one: FunctionStatistics) -> float:
    return one.calls * one.exclusive_mean_us


def _stretches(versions: Sequence[FunctionModel], detector: str, column: str) -> Iterator[Stretch]:
    """Yield what a function's calls took from each of its models to the next; models of earlier releases do
    not have it.
    """
    known = [stored_columns(detector, version.row) for version in versions]
    known = [one for one in known if "counted" in one]
    if not known:
        return
    none = {name: np.zeros_like(values) for name, values in known[0].items()}
    for before, after in pairwise([none, *known]):
        counts = after["counted"] - before["counted"]
        time_us = _ordinary_us(after, column) - _ordinary_us(before, column)
        # A model that began with calls of an earlier run says of the first stretch only how it ended.
        if counts.sum() > 0 and abs(after[column][0] - before[column][0] - counts.sum()) < 1.0:
            yield Stretch(counts, time_us)


def _ordinary_us(columns: dict[str, Float64Array], column: str) -> float:
    calls, mean_us = columns[column][:2]
    return float(calls * mean_us - columns["severity_us"][0])


def _begin_us(provenance: Provenance, drift: Drift, program: int, calls: int) -> int:
    if drift.before:
        return _after(provenance, program, min(drift.before / max(calls, 1), 1.0))
    return (provenance.steps.time_range() or (0, 0))[0]


def _finding(provenance: Provenance, drift: Drift, program: int, calls: int, begin_us: int) -> Recurrence:
    wanted = CallFilter(function=drift.function, program=program, label=None)
    newest = provenance.calls.page(wanted, sort="entry_us", limit=EXAMPLES).calls
    first = provenance.calls.page(wanted, sort="entry_us", descending=False, limit=1).calls
    _, end_us = provenance.steps.time_range() or (0, 0)
    since = min(drift.before / max(calls, 1), 1.0)
    return Recurrence(
        program=program,
        kind=RecurrenceKind.DRIFT,
        function=drift.function,
        calls=max(calls - drift.before, 0),
        cost_us=drift.lost_us,
        shortest_us=0.0,
        longest_us=drift.typical_us - drift.usual_us,
        functions=[drift.function],
        ranks=[rank for rank, own in provenance.times_by_rank(program, drift.function).items() if own.calls],
        begin_us=begin_us,
        end_us=end_us,
        examples=list(dict.fromkeys(call.id for call in (*newest, *first))),
        share=1.0 - since,
        typical_us=drift.typical_us,
        usual_us=drift.usual_us,
        factor=drift.factor,
    )


def _after(provenance: Provenance, program: int, share: float) -> int:
    """Return when a program had made this share of its calls, which are made about alike by all functions."""
    steps = [one for one in provenance.steps.sums(0) if one.program == program and one.end_us > one.start_us]
    steps.sort(key=lambda one: one.end_us)
    made = np.cumsum([0, *(one.calls for one in steps)])
    times_us = [steps[0].start_us, *(one.end_us for one in steps)] if steps else [0]
    return round(float(np.interp(share * made[-1], made, times_us)))
