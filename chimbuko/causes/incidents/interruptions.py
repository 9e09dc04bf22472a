"""Interruptions: short delays that hit changing functions, as the system does to all of them; and their
cause.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import accumulate

import msgspec

from chimbuko.causes.evidence.nodeevidence import NodeEvidence
from chimbuko.causes.incident import Incident
from chimbuko.causes.incidents.tracker import Changes
from chimbuko.causes.kinds.heldup import AND_OTHERS, WAITED_FOR_CORE
from chimbuko.causes.kinds.registry import CAUSES, IN_NODE
from chimbuko.causes.kinds.rest import NOT_EXPLAINED
from chimbuko.causes.part import LIMIT, Part
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind

MOST = 0.5
"""Share of the lost time that one cause must explain, and of that cause's time that one process must have
taken.
"""

Lost = Counter[tuple[str, str]]
"""Lost time in µs by cause, and by the process or limit that took the core where it was none of the program.
"""


def lost_by(parts: Iterable[Part]) -> Lost:
    """Return what the calls with these parts lost."""
    lost: Lost = Counter()
    for part in parts:
        lost[part.kind, part.by if part.is_foreign or part.by == LIMIT else ""] += round(part.lost_us)
    return lost


def because(found: Recurrence, lost: Lost, nodes: NodeEvidence | None = None) -> Recurrence:
    """Return the finding with the cause of most of it; unchanged where that is not known, or not in the node.

    Parameters
    ----------
    lost
        Time that its calls, or some of them, lost.
    nodes
        Samples that say where its ranks may run.
    """
    kinds: Counter[str] = Counter()
    for (kind, _), us in lost.items():
        kinds[kind] += us
    kind, us = max(kinds.items(), key=lambda one: (one[1], one[0]), default=(NOT_EXPLAINED.id, 0))
    if kind not in IN_NODE or us < MOST * kinds.total():
        return found
    others = Counter({name: part_us for (of, name), part_us in lost.items() if of == kind and name})
    by = ""
    if others.total() >= MOST * us:
        # None of several may have taken most, and yet it is not the ranks' doing.
        by, most_us = others.most_common(1)[0]
        by += "" if most_us >= MOST * us or by == LIMIT or by.endswith(AND_OTHERS) else AND_OTHERS
    ranks, cores = 0, 0
    if kind == WAITED_FOR_CORE.id and not by and nodes is not None:
        ranks, cores = nodes.sharing(found.program, found.ranks)
    return msgspec.structs.replace(found, cause=kind, by=by, ranks_there=ranks, cores=cores)


MOST_US = 20_000.0
"""Cost from which a delay stands for itself: people see that something stood still."""
LEAST = 16
"""Minimum number of short delays that are a finding."""
LEAST_FUNCTIONS = 3
"""Minimum number of different functions that are hit; otherwise it is the function's doing."""
MODE_END = 0.2
"""Share of what a mode has so far: it ends where the next factor of two holds less, as in the detector
``robust``.
"""
FAR = 3
"""Number of octaves above that of their median from which delays stand for themselves, even without a gap
between.
"""
MOST_EXAMPLES = 5
MOST_CAUSES = 64
"""Maximum number of causes of delays of one length that are remembered: there may be any number of processes.
"""
NEVER_US = 1 << 62


def may_be_one(incident: Incident) -> bool:
    """Whether an incident may be one of many: a short delay of one call, which held up nobody that was
    flagged.
    """
    return incident.flags == 1 and not incident.is_loss and incident.cost_us < MOST_US


def is_among(incident: Incident, found: Recurrence) -> bool:
    """Whether an incident is one of the short delays that are reported together."""
    return (
        found.kind is RecurrenceKind.INTERRUPTIONS
        and incident.program == found.program
        and may_be_one(incident)
        and incident.cost_us < found.longest_us
        and incident.kind not in found.kinds_apart
        and incident.call_id != found.costliest
    )


class _Octave(msgspec.Struct):
    """Delays within a factor of two."""

    calls: int = 0
    acquitted: int = 0
    """Number of further ones that turned out to be ordinary."""
    cost_us: float = 0.0
    shortest_us: float = math.inf
    begin_us: int = NEVER_US
    end_us: int = 0
    functions: Counter[str] = msgspec.field(default_factory=Counter)
    ranks: set[int] = msgspec.field(default_factory=set)
    worst: list[tuple[float, str]] = msgspec.field(default_factory=list)
    """Cost and call of the most costly ones."""
    lost: Lost = msgspec.field(default_factory=Counter)
    """Lost time by cause."""

    def add(self, incident: Incident) -> None:
        """Add one incident."""
        one = _Octave(1, 0, incident.cost_us, incident.cost_us, incident.begin_us, incident.end_us)
        if incident.call_id and incident.rank is not None:
            one.functions[incident.function] += 1
            one.ranks.add(incident.rank)
            one.worst.append((incident.cost_us, incident.call_id))
            one.lost = lost_by(incident.parts)
        self.merge(one)

    def merge(self, other: _Octave) -> None:
        """Add all of another octave."""
        self.calls += other.calls
        self.acquitted += other.acquitted
        self.cost_us += other.cost_us
        self.shortest_us = min(self.shortest_us, other.shortest_us)
        self.begin_us = min(self.begin_us, other.begin_us)
        self.end_us = max(self.end_us, other.end_us)
        self.functions += other.functions
        self.ranks |= other.ranks
        self.worst = sorted(self.worst + other.worst, reverse=True)[:MOST_EXAMPLES]
        self.lost += other.lost
        if len(self.lost) > 2 * MOST_CAUSES:
            self.lost = Counter(dict(self.lost.most_common(MOST_CAUSES)))


_Octaves = dict[int, dict[int, _Octave]]
"""Octaves by program, and by the logarithm of the delay."""


class Interruptions:
    """Sum of the incidents of a single call.

    Its memory depends on functions and ranks, and on how many incidents are not settled.

    Parameters
    ----------
    nodes
        Samples that say where ranks may run, and what is not the doing of their nodes.
    """

    def __init__(self, nodes: NodeEvidence | None = None) -> None:
        self._nodes = nodes
        self._settled: _Octaves = {}
        self._open: dict[int, Incident] = {}
        self._others_us: dict[int, float] = {}
        """Highest cost of the incidents of each program that are none of them."""

    def take(self, changes: Changes) -> None:
        """Take what has changed among a run's incidents."""
        for number in (*changes.merged, *changes.gone):
            self._open.pop(number, None)
        for incident in changes.incidents:
            self._open.pop(incident.number, None)
            if may_be_one(incident) and incident.kind not in self._kinds_apart:
                self._open[incident.number] = incident
            else:
                highest_us = self._others_us.get(incident.program, 0.0)
                self._others_us[incident.program] = max(highest_us, incident.cost_us)

    def acquit(self, program: int, lost_us: float) -> None:
        """Count a call that was one of them and is ordinary now: it also says how long such delays are."""
        if lost_us >= MOST_US:
            return
        octaves = self._settled.setdefault(program, defaultdict(_Octave))
        octaves[_octave_of(lost_us)].acquitted += 1

    def settle_before(self, time_us: int) -> None:
        """Settle incidents that were over by then: they do not change any more."""
        over = [incident for incident in self._open.values() if incident.end_us < time_us]
        for incident in over:
            del self._open[incident.number]
        _add(self._settled, over)

    @property
    def _kinds_apart(self) -> list[str]:
        """Causes in the program itself, which are no system's doing; without samples any delay has such."""
        has_samples = self._nodes is not None and self._nodes.has_samples
        return [cause.id for cause in CAUSES if cause.colour == "program"] if has_samples else []

    def found(self) -> list[Recurrence]:
        """Return the short delays of each program, where there are enough of them to be a finding.

        The costliest incident of a program is no part of them: it is shown as what it is.
        """
        octaves: _Octaves = {}
        _add(octaves, self._open.values())
        for program, settled in self._settled.items():
            of_program = octaves.setdefault(program, defaultdict(_Octave))
            for octave, one in settled.items():
                of_program[octave].merge(one)
        found = (
            _recurrence(program, of_program, self._others_us.get(program, 0.0))
            for program, of_program in sorted(octaves.items())
        )
        return [
            because(msgspec.structs.replace(one, kinds_apart=self._kinds_apart), lost, self._nodes)
            for one, lost in found
            if one is not None
        ]


def _add(octaves: _Octaves, incidents: Iterable[Incident]) -> None:
    for incident in incidents:
        of_program = octaves.setdefault(incident.program, defaultdict(_Octave))
        of_program[_octave_of(incident.cost_us)].add(incident)


def _octave_of(cost_us: float) -> int:
    return math.floor(math.log2(max(cost_us, 1.0)))


def _recurrence(
    program: int, octaves: dict[int, _Octave], others_us: float
) -> tuple[Recurrence | None, Lost]:
    """Return the short delays of a program, and what they were lost to."""
    end = _mode_end({octave: one.calls + one.acquitted for octave, one in octaves.items()})
    short = _Octave()
    for octave, one in octaves.items():
        if octave < end:
            short.merge(one)
    if short.calls + short.acquitted < LEAST or len(short.functions) < LEAST_FUNCTIONS:
        return None, short.lost
    behind = [cost_us for octave, one in octaves.items() if octave >= end for cost_us, _ in one.worst]
    worst = list(short.worst)
    is_costliest = bool(worst) and worst[0][0] > max([others_us, *behind])
    costliest_us, costliest = worst.pop(0) if is_costliest else (0.0, "")
    found = Recurrence(
        program=program,
        kind=RecurrenceKind.INTERRUPTIONS,
        function="",
        calls=short.calls - bool(costliest),
        cost_us=short.cost_us - costliest_us,
        shortest_us=short.shortest_us,
        longest_us=min(2.0**end, MOST_US),
        functions=sorted(short.functions, key=lambda name: (-short.functions[name], name)),
        ranks=sorted(short.ranks),
        begin_us=short.begin_us,
        end_us=short.end_us,
        examples=[call_id for _, call_id in worst],
        costliest=costliest,
    )
    return found, short.lost


def _mode_end(counts: dict[int, int]) -> int:
    """Return the first octave behind the shortest mode that holds enough; the lowest one where none does."""
    so_far = 0
    for octave in range(min(counts), max(counts) + 2):
        count = counts.get(octave, 0)
        if count < MODE_END * so_far or octave > max(counts):
            if so_far >= LEAST:
                return min(octave, _median({one: counts[one] for one in counts if one < octave}) + FAR)
            # What is behind the gap is no part of it.
            so_far = 0
        so_far += count
    return min(counts)


def _median(counts: dict[int, int]) -> int:
    octaves = sorted(counts)
    at = bisect_left(list(accumulate(counts[octave] for octave in octaves)), sum(counts.values()) / 2)
    return octaves[at]
