"""Short delays that hit now one function and now another: what the system does to all of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from chimbuko.causes.incident import Incident
from chimbuko.causes.recurrence import Habit, Recurrence

LEAST = 16
"""So many are a habit."""
LEAST_FUNCTIONS = 3
"""So many different ones must be hit: else it is the function's doing."""
MODE_END = 0.2
"""A mode ends where the next factor of two holds less than this share of what it has so far, as in the
detector ``robust``."""


MOST_EXAMPLES = 5


def is_alone(incident: Incident) -> bool:
    """Whether it is one call, which held up nobody that was flagged."""
    return incident.flags == 1


def interruptions(incidents: Iterable[Incident]) -> list[Recurrence]:
    """The short delays of each program, where there are enough of them to be a habit."""
    of_program: dict[int, list[Incident]] = {}
    for incident in incidents:
        if is_alone(incident):
            of_program.setdefault(incident.program, []).append(incident)
    found = (_of_program(program, alone) for program, alone in sorted(of_program.items()))
    return [one for one in found if one is not None]


def is_among(incident: Incident, found: Iterable[Recurrence]) -> bool:
    """Whether an incident is one of these."""
    limits = (one.longest_us for one in found if one.program == incident.program)
    return is_alone(incident) and any(incident.cost_us < longest_us for longest_us in limits)


def _of_program(program: int, alone: list[Incident]) -> Recurrence | None:
    longest_us = _mode_end_us([incident.cost_us for incident in alone])
    short = [incident for incident in alone if incident.cost_us < longest_us]
    functions = Counter(incident.function for incident in short if incident.function)
    if len(short) < LEAST or len(functions) < LEAST_FUNCTIONS:
        return None
    worst = sorted(short, key=lambda incident: -incident.cost_us)
    return Recurrence(
        program=program,
        kind=Habit.INTERRUPTIONS,
        function="",
        calls=len(short),
        cost_us=sum(incident.cost_us for incident in short),
        shortest_us=worst[-1].cost_us,
        longest_us=longest_us,
        functions=[function for function, _ in functions.most_common()],
        ranks=sorted({incident.rank for incident in short if incident.rank is not None}),
        begin_us=min(incident.begin_us for incident in short),
        end_us=max(incident.end_us for incident in short),
        examples=[incident.call_id for incident in worst if incident.call_id][:MOST_EXAMPLES],
    )


def _mode_end_us(lost_us: list[float]) -> float:
    """Where the shortest mode that holds enough ends: the upper end of a factor of two."""
    counts = Counter(math.floor(math.log2(max(lost, 1.0))) for lost in lost_us)
    so_far = 0
    for octave in range(min(counts), max(counts) + 2):
        if so_far >= LEAST and counts[octave] < MODE_END * so_far:
            return 2.0**octave
        so_far += counts[octave]
    return 2.0 ** (max(counts) + 1)
