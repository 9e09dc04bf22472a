"""Findings of threads that take longer than others of their rank in the same functions, or for which the
others wait again and again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy import func, select

from chimbuko.causes.evidence.flag import MAIN_THREAD
from chimbuko.causes.incidents.drift import OF_RUN
from chimbuko.causes.kinds.peers import named_thread
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.core.calls.pathtable import OTHER_PATHS
from chimbuko.core.calls.waiting import Waits, waits_in
from chimbuko.core.statistics.latethreads import LATE_THREADS, LateThread, decode_late_threads
from chimbuko.provenance.incidents.imbalance import (
    Unequal,
    costs_of,
    have_to_come,
    lasts_longer,
    sleeps,
    unequal,
    without_waits,
)
from chimbuko.provenance.query.nodelist import ran_shares
from chimbuko.provenance.query.run import FunctionTime, Provenance
from chimbuko.provenance.store.tables import CALLS

Threads = Mapping[int, FunctionTime]
"""Time in calls of one function, by thread of a rank."""


TEAM = "OpenMP parallel "
"""Begin of the name under which the time of a team's threads outside of its functions is recorded: the main
thread spends more there, as it wakes the others.
"""


class _Slow(msgspec.Struct, frozen=True):
    """Function in which some threads of a rank take longer than the others."""

    rank: int
    function: str
    threads: Unequal
    cost_us: float


def slow_threads(provenance: Provenance, told: Sequence[Recurrence]) -> list[Recurrence]:
    """Return one finding for each function that threads of a rank take longest in, once all streams have
    ended.

    Parameters
    ----------
    told
        Findings that are known: what they cost is not told again.
    """
    if have_to_come(provenance):
        return []
    told_us = costs_of(told)
    whole = provenance.function_times()
    least_us = OF_RUN * sum(time.exclusive_us for time in whole.values())
    by_thread = provenance.times_of_threads()
    lasted = _lasted_us(by_thread)
    ran = ran_shares(provenance.reader) if by_thread else {}
    # Threads of a rank that are slow in something else each have a finding of their own.
    found: dict[tuple[int, int, tuple[int, ...]], list[_Slow]] = defaultdict(list)
    for (program, function), on_ranks in by_thread.items():
        if function == OTHER_PATHS or waits_in(function) is not Waits.NOT:
            continue
        for rank, threads in on_ranks.items():
            if unequal(threads) is None:
                continue
            own = _without_delays(provenance, program, function, rank, threads)
            if not sleeps(whole[program, function]):
                shares = {thread: ran.get((program, rank, thread), 1.0) for thread in threads}
                own = without_waits(own, threads, shares)
            slow = unequal(own)
            cost_us = slow.lost_us - told_us[program, function] if slow else 0.0
            if slow is None or cost_us < least_us / len(on_ranks):
                continue
            if slow.ranks == (MAIN_THREAD,) and function.startswith(TEAM):
                continue
            if sleeps(whole[program, function]) and not lasts_longer(slow, lasted[program, rank]):
                continue
            found[program, rank, slow.ranks].append(_Slow(rank, function, slow, cost_us))
    span_us = provenance.steps.time_range() or (0, 0)
    together: dict[tuple[int, str], list[list[_Slow]]] = defaultdict(list)
    for (program, *_), functions in found.items():
        functions.sort(key=lambda one: -one.cost_us)
        together[program, functions[0].function].append(functions)
    findings = [_finding(program, ranks, span_us) for (program, _), ranks in together.items()]
    return [one for one in findings if one.cost_us >= least_us]


def _lasted_us(
    times: Mapping[tuple[int, str], Mapping[int, Threads]],
) -> dict[tuple[int, int], dict[int, float]]:
    """Return the time of each thread in all its calls, by program and rank."""
    lasted: dict[tuple[int, int], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for (program, _), on_ranks in times.items():
        for rank, threads in on_ranks.items():
            for thread, time in threads.items():
                lasted[program, rank][thread] += time.exclusive_us
    return lasted


def _without_delays(
    provenance: Provenance, program: int, function: str, rank: int, threads: Threads
) -> Threads:
    """Return the times of threads without what their abnormal calls lost, which has incidents."""
    reader, columns = provenance.reader, CALLS.c
    statement = select(columns.thread, func.sum(columns.severity_us)).where(
        columns.run == reader.run,
        columns.function == reader.function_number(program, function),
        columns.is_anomaly.is_(True),
        columns.rank == rank,
    )
    lost_us = dict(tuple(row) for row in reader.rows(statement.group_by(columns.thread)))
    return {
        thread: FunctionTime(time.calls, max(0.0, time.exclusive_us - lost_us.get(thread, 0.0)), time.counted)
        for thread, time in threads.items()
    }


def _finding(program: int, ranks: Sequence[Sequence[_Slow]], span_us: tuple[int, int]) -> Recurrence:
    """Return the finding of the functions that are slow on each of some ranks, the costliest first."""
    slow = [one for functions in ranks for one in functions]
    costs_us: dict[str, float] = defaultdict(float)
    for one in slow:
        costs_us[one.function] += one.cost_us
    functions = sorted(costs_us, key=lambda name: -costs_us[name])
    first = [one.threads for one in slow if one.function == functions[0]]
    calls = sum(one.calls for one in first)
    whole_us = sum(one.threads.mean_us * one.threads.calls for one in slow)
    return Recurrence(
        program=program,
        kind=RecurrenceKind.SLOW_THREADS,
        function=functions[0],
        calls=sum(one.threads.calls for one in slow),
        cost_us=sum(costs_us.values()),
        shortest_us=0.0,
        longest_us=sum(costs_us.values()),
        functions=functions,
        ranks=sorted({one.rank for one in slow}),
        begin_us=span_us[0],
        end_us=span_us[1],
        examples=[],
        typical_us=sum(one.mean_us * one.calls for one in first) / calls,
        usual_us=sum(one.usual_us * one.calls for one in first) / calls,
        factor=whole_us / sum(one.threads.usual_us * one.threads.calls for one in slow),
        threads=sorted({thread for one in slow for thread in one.threads.ranks}),
    )


def late_threads(provenance: Provenance, told: Sequence[Recurrence]) -> list[Recurrence]:
    """Return one finding for each barrier of a program, of all ranks that have a late thread there, where the
    others lose a part of the run that is worth a word.

    Parameters
    ----------
    told
        Findings that are known: those of slow threads say what the others wait for.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    found: dict[tuple[int, str], dict[int, LateThread]] = defaultdict(dict)
    for said in provenance.metadata(key=LATE_THREADS):
        for one in decode_late_threads(said.value):
            known = found[said.program, one.barrier].get(said.rank)
            if known is None or one.lost_us > known.lost_us:
                found[said.program, one.barrier][said.rank] = one
    if not found:
        return []
    span_us = provenance.steps.time_range() or (0, 0)
    least_us = OF_RUN * sum(time.exclusive_us for time in provenance.function_times().values())
    findings = [
        _late_finding(program, barrier, of_rank, span_us) for (program, barrier), of_rank in found.items()
    ]
    return [one for one in findings if one.cost_us >= least_us and not _is_told(one, told)]


def _is_told(late: Recurrence, told: Sequence[Recurrence]) -> bool:
    return any(
        one.kind is RecurrenceKind.SLOW_THREADS
        and one.program == late.program
        and set(late.ranks) <= set(one.ranks)
        and late.by in map(named_thread, one.threads)
        for one in told
    )


def _late_finding(
    program: int, barrier: str, of_rank: dict[int, LateThread], span_us: tuple[int, int]
) -> Recurrence:
    costliest = max(of_rank.values(), key=lambda one: one.lost_us)
    threads = {one.thread for one in of_rank.values()}
    return Recurrence(
        program=program,
        kind=RecurrenceKind.LATE_THREADS,
        function=barrier,
        calls=sum(one.regions for one in of_rank.values()),
        cost_us=sum(one.lost_us for one in of_rank.values()),
        shortest_us=0.0,
        longest_us=costliest.lost_us,
        functions=[barrier],
        ranks=sorted(of_rank),
        begin_us=span_us[0],
        end_us=span_us[1],
        examples=[],
        share=costliest.share,
        factor=costliest.ratio,
        by=named_thread(costliest.thread) if len(threads) == 1 else "one thread",
    )
