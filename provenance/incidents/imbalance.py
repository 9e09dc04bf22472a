"""Findings of ranks that take longer than others in the same functions, from their statistics by rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import msgspec
from msgspec.structs import replace

from chimbuko.causes.evidence.flag import MAIN_THREAD
from chimbuko.causes.incidents.drift import OF_RUN
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.core.calls.record import READING, SILENT
from chimbuko.core.calls.waiting import Waits, is_start, waits_in
from chimbuko.core.traceschema import PARENT_PROCESS
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.nodelist import ran_shares
from chimbuko.provenance.query.run import FunctionTime, Provenance

LEAST_FACTOR = 1.5
"""Factor by which a rank takes longer than the middle one of the others: unequal shares of a grid, and cores
that are shared, make a third.
"""
LEAST_EXCESS = 0.1
"""Share of what the slowest rank takes more that each of the slow ones has to: the mean of those that wait
long and those that are a little slow says nothing of either.
"""
LEAST_CALLS = 20
FEW_FACTOR, FEW_LOST_US, FEW_RANKS = 2.0, 100_000.0, 3
"""Factor and time by which a rank takes longer in a function of fewer calls, also of one, which only other
ranks can show to be slow; and number of ranks, as of two nobody knows which one is.
"""
SAME_LATENESS = 0.25
"""Share by which the time in a function may differ from the lateness that it explains, by the middle one of
the ranks that waited, or by the first.
"""
SAME_CALLS = 1.1
"""Factor by which the numbers of calls of ranks may differ that do the same in a function."""
ASLEEP = 0.5
"""Share of a function's time asleep from which who takes longer in it may as well wait for something to do,
such as a worker of a pool: that is slow only if it takes longer as a whole.
"""
LEAST_US = 10.0
"""Runtime on other ranks below which these only look whether there is something to do."""


class Unequal(msgspec.Struct, frozen=True):
    """Function in which some ranks take longer than the others."""

    ranks: tuple[int, ...]
    """Ranks that take longer."""
    calls: int
    """Number of their calls."""
    mean_us: float
    """Mean runtime of these calls; ``usual_us`` is that of the middle one of the others."""
    usual_us: float

    @property
    def lost_us(self) -> float:
        """Return the time that these calls take more in all."""
        return self.calls * (self.mean_us - self.usual_us)


def have_to_come(provenance: Provenance) -> bool:
    """Return whether streams have not ended, whose times are known at their ends."""
    return any(stream.state in (READING, SILENT) for stream in provenance.health())


def costs_of(told: Sequence[Recurrence]) -> Mapping[tuple[int, str], float]:
    """Return what findings cost in µs, by program and function; 0 for others."""
    costs_us: dict[tuple[int, str], float] = defaultdict(float)
    for one in told:
        costs_us[one.program, one.function] += one.cost_us
    return costs_us


def imbalances(provenance: Provenance, told: Sequence[Recurrence]) -> list[Recurrence]:
    """Return one finding for each set of ranks that take longer, once the streams of all have ended.

    Parameters
    ----------
    told
        Findings that are known: what they cost is not told again.
    """
    if have_to_come(provenance):
        return []
    told_us = costs_of(told)
    slow = {
        (one.program, rank) for one in told if one.kind is RecurrenceKind.SLOW_RANKS for rank in one.ranks
    }
    whole = provenance.function_times()
    least_us = OF_RUN * sum(time.exclusive_us for time in whole.values())
    by_rank = provenance.times_of_ranks()
    lasted_us = _lasted_us(by_rank)
    ran = ran_shares(provenance.reader)
    sets: dict[tuple[int, tuple[int, ...]], dict[str, Unequal]] = defaultdict(dict)
    for (program, function), times in _alike(provenance, by_rank):
        if waits_in(function) is not Waits.NOT or is_start(function) or unequal(times) is None:
            continue
        time = whole.get((program, function), FunctionTime(0, 0.0, 0))
        own = _without_incidents(provenance, program, function, times)
        if not sleeps(time):
            shares = {rank: ran.get((program, rank, MAIN_THREAD), 1.0) for rank in times}
            own = without_waits(own, times, shares)
        found = unequal(own)
        if found is None or any((program, rank) in slow for rank in found.ranks):
            continue
        if sleeps(time) and not lasts_longer(found, lasted_us[program]):
            continue
        if found.lost_us - told_us[program, function] >= least_us:
            sets[program, found.ranks][function] = found
    spans = provenance.steps.time_range() or (0, 0)
    late = [
        _late_start(program, function, start, spans, by_rank)
        for (program, function), times in by_rank.items()
        if is_start(function) and (start := late_start(times)) is not None
    ]
    unequal_ranks = [_finding(key[0], key[1], functions, spans, told_us) for key, functions in sets.items()]
    return [one for one in late if one.cost_us >= least_us] + unequal_ranks


def sleeps(time: FunctionTime) -> bool:
    """Return whether calls of a function sleep for much of their time, or nobody knows."""
    return time.slept_us is None or time.slept_us > ASLEEP * time.exclusive_us


def without_waits(
    own: Mapping[int, FunctionTime], times: Mapping[int, FunctionTime], shares: Mapping[int, float]
) -> dict[int, FunctionTime]:
    """Return the times that are to be compared without what ranks, or threads, waited for cores: others may
    have these.

    Parameters
    ----------
    own
        Times without delays that have incidents, which may have been such waits as well.
    times
        All times.
    shares
        Share of each one's time awake in which it ran.
    """
    return {
        one: replace(time, exclusive_us=min(time.exclusive_us, shares[one] * times[one].exclusive_us))
        for one, time in own.items()
    }


def lasts_longer(slow: Unequal, lasted_us: Mapping[int, float]) -> bool:
    """Return whether slow ranks, or threads, last longer than the others, by half of what they lose at
    least.
    """
    others = [us for one, us in lasted_us.items() if one not in slow.ranks]
    own_us = median(lasted_us[one] for one in slow.ranks)
    return bool(others) and own_us - median(others) > 0.5 * slow.lost_us / len(slow.ranks)


def _lasted_us(
    times: Mapping[tuple[int, str], Mapping[int, FunctionTime]],
) -> dict[int, dict[int, float]]:
    """Return the time of each rank in all its calls but those in which ranks wait, by program."""
    lasted: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for (program, function), on_ranks in times.items():
        for rank, time in on_ranks.items():
            if waits_in(function) is Waits.NOT and not is_start(function):
                lasted[program][rank] += time.exclusive_us
    return lasted


def late_start(times: Mapping[int, FunctionTime]) -> Unequal | None:
    """Return which ranks came late to the begin of MPI, where they were for the shortest time; None for none.

    Its ``mean_us`` is how late they came, and ``usual_us`` how long they were there.
    """
    lengths_us = {rank: one.exclusive_us for rank, one in times.items() if one.calls == 1}
    if len(lengths_us) < 2:
        return None
    shortest_us, usual_us = min(lengths_us.values()), median(lengths_us.values())
    if len(lengths_us) == 2:
        usual_us = max(lengths_us.values())
    late_us = usual_us - shortest_us
    if usual_us < FEW_FACTOR * shortest_us or late_us < FEW_LOST_US:
        return None
    late = tuple(sorted(one for one, us in lengths_us.items() if us <= shortest_us + LEAST_EXCESS * late_us))
    return Unequal(late, len(lengths_us) - len(late), late_us, shortest_us)


def _late_start(
    program: int,
    function: str,
    start: Unequal,
    span_us: tuple[int, int],
    by_rank: Mapping[tuple[int, str], Mapping[int, FunctionTime]],
) -> Recurrence:
    """Return the finding of ranks that came late, with the functions in which they were meanwhile."""
    lost_us = sum(max(0.0, one.exclusive_us - start.usual_us) for one in by_rank[program, function].values())
    return Recurrence(
        program=program,
        kind=RecurrenceKind.SLOW_RANKS,
        function=function,
        calls=start.calls,
        cost_us=lost_us,
        shortest_us=0.0,
        longest_us=lost_us,
        functions=[function],
        ranks=list(start.ranks),
        begin_us=span_us[0],
        end_us=span_us[1],
        examples=[],
        typical_us=start.mean_us,
        by=_spent_in(program, function, start, by_rank),
    )


def _spent_in(
    program: int, begin: str, start: Unequal, by_rank: Mapping[tuple[int, str], Mapping[int, FunctionTime]]
) -> str:
    """Return the function that all late ranks were in for as much longer than others as they were late; empty
    if there is none.
    """
    longest_us = max(one.exclusive_us for one in by_rank[program, begin].values())
    least_us = (1.0 - SAME_LATENESS) * start.mean_us
    most_us = (1.0 + SAME_LATENESS) * (longest_us - start.usual_us)
    for (of, function), times in by_rank.items():
        others = [one.exclusive_us for rank, one in times.items() if rank not in start.ranks]
        own = [times[rank].exclusive_us for rank in start.ranks if rank in times]
        if of != program or len(own) < len(start.ranks) or waits_in(function) is not Waits.NOT:
            continue
        if least_us <= min(own) - max(others, default=0.0) <= most_us:
            return function
    return ""


def _alike(
    provenance: Provenance, by_rank: Mapping[tuple[int, str], Mapping[int, FunctionTime]]
) -> Iterator[tuple[tuple[int, str], dict[int, FunctionTime]]]:
    """Yield the times in each function of ranks that do the same: a process and its workers do not, as it
    gives them work, and they only import the module that it runs.
    """
    workers = {(one.program, one.rank) for one in provenance.metadata(key=PARENT_PROCESS)}
    for key, times in by_rank.items():
        for are_workers in (False, True):
            part = {rank: one for rank, one in times.items() if ((key[0], rank) in workers) == are_workers}
            if part:
                yield key, part


def _without_incidents(
    provenance: Provenance, program: int, function: str, times: Mapping[int, FunctionTime]
) -> dict[int, FunctionTime]:
    totals = provenance.calls.totals("rank", CallFilter(program=program, function=function))
    lost_us = {one.rank: one.severity_us for one in totals}
    return {
        rank: FunctionTime(one.calls, max(0.0, one.exclusive_us - lost_us.get(rank, 0.0)), one.counted)
        for rank, one in times.items()
    }


def _finding(
    program: int,
    ranks: tuple[int, ...],
    functions: Mapping[str, Unequal],
    span_us: tuple[int, int],
    told_us: Mapping[tuple[int, str], float],
) -> Recurrence:
    costs_us = {name: one.lost_us - told_us.get((program, name), 0.0) for name, one in functions.items()}
    costly = sorted(functions, key=lambda name: -costs_us[name])
    first = functions[costly[0]]
    whole_us = sum(one.mean_us * one.calls for one in functions.values())
    return Recurrence(
        program=program,
        kind=RecurrenceKind.SLOW_RANKS,
        function=costly[0],
        calls=sum(one.calls for one in functions.values()),
        cost_us=sum(costs_us.values()),
        shortest_us=0.0,
        longest_us=sum(costs_us.values()),
        functions=costly,
        ranks=list(ranks),
        begin_us=span_us[0],
        end_us=span_us[1],
        examples=[],
        typical_us=first.mean_us,
        usual_us=first.usual_us,
        factor=whole_us / sum(one.usual_us * one.calls for one in functions.values()),
    )


def unequal(times: Mapping[int, FunctionTime]) -> Unequal | None:
    """Return which ranks take clearly longer in a function than the others, which do the same there; None
    for none.
    """
    means = {rank: one.exclusive_us / one.calls for rank, one in times.items() if one.calls >= LEAST_CALLS}
    least_factor, least_us = LEAST_FACTOR, 0.0
    if len(means) < 2:
        means = {rank: one.exclusive_us / one.calls for rank, one in times.items() if one.calls}
        least_factor, least_us = FEW_FACTOR, FEW_LOST_US
        if len(means) < FEW_RANKS:
            return None
    middle = median(times[rank].calls for rank in means)
    alike = {rank for rank in means if middle / SAME_CALLS <= times[rank].calls <= middle * SAME_CALLS}
    by_mean = sorted(alike, key=lambda rank: means[rank])
    others = by_mean[: -(-len(by_mean) // 2)]
    usual_us = median(means[rank] for rank in others) if others else 0.0
    longer = [rank for rank in by_mean[len(others) :] if means[rank] >= least_factor * usual_us]
    if usual_us < LEAST_US or not longer:
        return None
    least_us_more = LEAST_EXCESS * (means[longer[-1]] - usual_us)
    longer = [rank for rank in longer if means[rank] - usual_us >= least_us_more]
    usual_us = median(means[rank] for rank in by_mean if rank not in longer)
    calls = sum(times[rank].calls for rank in longer)
    mean_us = sum(times[rank].exclusive_us for rank in longer) / calls
    found = Unequal(tuple(sorted(longer)), calls, mean_us, usual_us)
    return found if found.lost_us >= least_us else None
