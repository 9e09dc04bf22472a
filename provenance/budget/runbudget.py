"""Budget of a stored run, also of one that goes on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from chimbuko.causes.kinds.heldup import WAITED_FOR_CORE
from chimbuko.causes.part import ANALYSIS
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.core.config import least_calls
from chimbuko.provenance.budget.budget import Budget, Lost, Sampled, make_budget
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.nodes.nodelist import all_thread_times
from chimbuko.provenance.query.run import Provenance

LEAST_WATCHED = 0.3
"""Least share of a rank's time that samples have to cover: they are divided like the rest."""

IMBALANCES = RecurrenceKind.SLOW_RANKS, RecurrenceKind.SLOW_THREADS, RecurrenceKind.LATE_THREADS


def run_budget(provenance: Provenance) -> Budget:
    """Return where the time of a run went.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    times_us: dict[str, float] = {}
    slept_us: defaultdict[str, float] = defaultdict(float)
    counted: Counter[str] = Counter()
    for (_, name), time in provenance.function_times().items():
        times_us[name] = times_us.get(name, 0.0) + time.exclusive_us
        if time.slept_us is not None:
            slept_us[name] += time.slept_us
        counted[name] += time.counted - time.calls
    for one in provenance.function_statistics():
        counted[one.name] += one.calls
    least = least_calls(provenance.run().config.detector)
    health, found = provenance.health(), Incidents(provenance.reader)
    recurring = [one.recurrence for one in found.recurrences()]
    # Other ranks show what few calls do not.
    judged = {name for one in recurring for name in one.functions}
    incidents = found.page(limit=0)
    begin_us, end_us = provenance.steps.time_range() or (0, 0)
    return make_budget(
        wall_us=end_us - begin_us,
        threads=sum(stream.threads for stream in health),
        total_us=sum(stream.thread_us for stream in health),
        times_us=times_us,
        gpu_calls_us=sum(stream.gpu_us for stream in health),
        sampled=_sampled(provenance, (end_us - begin_us) * len(health)),
        lost=_lost(found, incidents.cost_us, recurring),
        not_judged=[name for name, calls in counted.items() if calls < least and name not in judged],
        slept_us=slept_us,
        is_whole=not any(stream.gap_steps or stream.losses for stream in health),
        incidents_bound=incidents.bound,
    )


def _sampled(provenance: Provenance, ranks_us: float) -> Sampled | None:
    found = all_thread_times(provenance.reader)
    if not found.watched_us or found.watched_us < LEAST_WATCHED * ranks_us:
        return None
    return Sampled(found.watched_us, found.ran_us, found.waited_us)


def _lost(found: Incidents, incidents_us: float, recurring: Sequence[Recurrence]) -> Lost:
    analysis_us = sum(
        one.cost_us for one in found.of_kind(WAITED_FOR_CORE.id) if one.parts and one.parts[0].by == ANALYSIS
    )
    # What ranks stand in after their last event is no part of the time that is divided here.
    costs = [one for one in recurring if one.kind is not RecurrenceKind.DEADLOCK]
    imbalance_us = sum(one.cost_us for one in costs if one.kind in IMBALANCES)
    recurring_us = sum(one.cost_us for one in costs) - imbalance_us
    return Lost(incidents_us - analysis_us, recurring_us, imbalance_us, analysis_us)
