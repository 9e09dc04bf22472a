"""States of the tasks of a workflow, and the time that each task spent in each state."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress

from chimbuko.observe.namespaces.analyses.series import values
from chimbuko.observe.namespaces.exchange.namespacereader import Observation
from chimbuko.observe.namespaces.tree.tree import Nested

_BEGIN, _END = "rank_start", "rank_stop"
"""Events of RADICAL-Pilot at the beginning and the end of the program itself."""


def task_states(observations: Sequence[Observation]) -> Nested:
    """Return the number of tasks in each state now, and for each task the seconds that it spent in the
    states that it has left.

    Leaves are ``TASK/states/TIME`` and ``TASK/events/TIME``, with times in seconds since the epoch. Where
    there are RADICAL-Pilot's events ``run_time_s`` is from the first ``rank_start`` to the last
    ``rank_stop``.
    """
    states: dict[str, dict[float, str]] = defaultdict(dict)
    events: dict[str, dict[str, float]] = defaultdict(dict)
    for path, _, leaf in values(observations):
        if len(path) != 3 or not isinstance(leaf, str):
            continue
        task, kind, time = path
        with suppress(ValueError):
            if kind == "states":
                states[task][float(time)] = leaf
            elif kind == "events":
                # Each rank has such an event.
                first_or_last = min if leaf == _BEGIN else max
                events[task][leaf] = first_or_last(events[task].get(leaf, float(time)), float(time))
    tasks: Nested = {}
    for task, entered in states.items():
        times = sorted(entered)
        lasted: dict[str, float] = defaultdict(float)
        for begin, end in itertools.pairwise(times):
            lasted[entered[begin]] += end - begin
        tasks[task] = {"state": entered[times[-1]], "seconds": dict(lasted)}
    for task, at in events.items():
        if _BEGIN in at and _END in at:
            tasks.setdefault(task, {})["run_time_s"] = at[_END] - at[_BEGIN]
    counts = Counter(entered[max(entered)] for entered in states.values())
    return {"states": dict(sorted(counts.items())), "tasks": tasks} if tasks else {}
