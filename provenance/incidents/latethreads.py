"""Findings of threads for which others of their rank wait again and again, as the recorder counts them."""

from __future__ import annotations

from collections import defaultdict

from chimbuko.causes.incidents.drift import OF_RUN
from chimbuko.causes.kinds.threads import thread
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.core.statistics.latethreads import LATE_THREADS, LateThread, decode_late_threads
from chimbuko.provenance.query.run import Provenance


def late_threads(provenance: Provenance) -> list[Recurrence]:
    """Return one finding for each barrier of a program, of all ranks that have a late thread there, where the
    others lose a part of the run that is worth a word.

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
    findings = [_finding(program, barrier, of_rank, span_us) for (program, barrier), of_rank in found.items()]
    return [one for one in findings if one.cost_us >= least_us]


def _finding(
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
        by=thread(costliest.thread) if len(threads) == 1 else "one thread",
    )
