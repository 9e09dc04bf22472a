"""Findings of slow modes of functions: how many calls, their cost, place, beginning, causes and examples."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

import msgspec

from chimbuko.causes.incident import NodeLoss
from chimbuko.causes.incidents.interruptions import because, lost_by
from chimbuko.causes.incidents.slowmodes import APART, LEAST_CALLS, MOST_SHARE, OF_RUN, SlowMode
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.core.calls.record import judged_us
from chimbuko.core.calls.waiting import Waits, waits_in
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.besidecall import evidence_of, parts_of
from chimbuko.provenance.query.filters import CallFilter, CallSummary
from chimbuko.provenance.query.run import Provenance

MOST_EXPLAINED = 8
"""Number of calls, of all lengths, whose nodes are looked at: some 20 ms for one mode."""
GROWN = 1.25
"""Factor by which the cost or the calls of a mode must have grown for its cause to be sought anew."""
LOOKS = 2
"""Number of times that the cause of an unchanged mode is sought: samples may come later than calls."""


class _Answer(msgspec.Struct):
    about: Recurrence
    found: Recurrence
    """Finding with its cause."""
    looks: int = 1


class ModeCauses:
    """Causes of the slow modes of one run."""

    def __init__(self, provenance: Provenance) -> None:
        self._provenance = provenance
        self._known: dict[tuple[int, str, str, str], _Answer] = {}

    def with_cause(self, mode: Recurrence, recorded: Sequence[CallSummary]) -> Recurrence:
        """Return a mode with the cause of most of its cost, where that lies in nodes.

        Parameters
        ----------
        recorded
            Recorded calls of the mode, in order of what they lost.
        """
        known = self._known.get(mode.key)
        if known is None or not _are_alike(known.about, mode):
            known = self._known[mode.key] = _Answer(mode, self._asked(mode, recorded))
        elif known.looks < LOOKS:
            known.found, known.looks = self._asked(mode, recorded), known.looks + 1
        found = known.found
        return msgspec.structs.replace(
            mode, cause=found.cause, by=found.by, ranks_there=found.ranks_there, cores=found.cores
        )

    def _asked(self, mode: Recurrence, recorded: Sequence[CallSummary]) -> Recurrence:
        step = -(-len(recorded) // MOST_EXPLAINED) or 1
        calls = [self._provenance.calls.record(call.id) for call in recorded[::step]]
        evidence = evidence_of(self._provenance.reader, calls)
        return because(mode, lost_by(parts_of(evidence)), evidence.nodes)


def _are_alike(one: Recurrence, other: Recurrence) -> bool:
    figures = (one.cost_us, other.cost_us), (one.calls, other.calls)
    return one.ranks == other.ranks and all(max(pair) <= GROWN * min(pair) for pair in figures)


MOST_READ = 2_000
"""Most recorded calls of a function that are looked at."""
MOST_EXAMPLES = 5
MOST_SHARE_OF_WAITS = 0.05
REGULAR = 0.2
"""Share of the median by which half of the times between calls may differ for these to be regular."""
LEAST_GAPS = 3


def slow_modes(
    provenance: Provenance, modes: Iterable[SlowMode], causes: ModeCauses | None = None
) -> list[Recurrence]:
    """Findings of a run.

    A mode of a function in which threads of a rank wait for each other is left out: what one of them did
    longer is a mode of that. A mode of a function in which ranks wait is left out where its calls waited for
    delays that are known: these are incidents. So is one that holds more than a few of its calls: ranks
    ordinarily wait for each other. So is one whose calls were slow while their rank lost its core in all
    that it did: that is an incident. Calls of incidents count there, and what is left of a mode has to be
    worth reporting by itself. So has a mode that is not how the function usually runs for some callers, or
    on some ranks.

    Parameters
    ----------
    causes
        Causes of slow modes that were found before.
    """
    causes = causes or ModeCauses(provenance)
    of_nodes = Incidents(provenance.reader).of_nodes()
    losses = [(one.program, loss) for one in of_nodes for loss in one.losses]
    programs = {name: number for number, name in provenance.programs().items()}
    statistics = provenance.function_statistics()
    calls = {(one.program, one.name): one.calls for one in statistics}
    least_us = OF_RUN * sum(one.calls * one.exclusive_mean_us for one in statistics)
    known = [mode for mode in modes if (programs.get(mode.program, -1), mode.function) in calls]
    numbered = ((mode, programs[mode.program]) for mode in known)
    found = (
        _finding(provenance, mode, program, calls[program, mode.function], losses, least_us, causes)
        for mode, program in numbered
    )
    return [one for one in found if one is not None]


def _finding(
    provenance: Provenance,
    mode: SlowMode,
    program: int,
    calls: int,
    losses: Sequence[tuple[int, NodeLoss]],
    least_us: float,
    causes: ModeCauses,
) -> Recurrence | None:
    if waits_in(mode.function) is Waits.THREADS:
        return None
    all_recorded = _recorded(provenance, mode, program)
    apart = [one for one in all_recorded if one.incident_id and _judged_us(one) >= APART * mode.typical_us]
    recorded = [one for one in all_recorded if one not in apart]
    if sum(_is_in(call, losses) for call in recorded) > len(recorded) / 2:
        return None
    is_wait = waits_in(mode.function) is not Waits.NOT
    if is_wait and (mode.share > MOST_SHARE_OF_WAITS or _is_explained(provenance, recorded)):
        return None
    run_us = provenance.steps.time_range() or (0, 0)
    all_slow = max(1, round(mode.share * calls))
    in_incidents = [call for call in all_recorded if call.incident_id]
    slow = all_slow - len(in_incidents)
    cost_us = all_slow * mode.lost_us - sum(_judged_us(call) - mode.usual_us for call in in_incidents)
    callers = _callers(provenance, mode, program)
    if slow < LEAST_CALLS or cost_us < least_us:
        return None
    if all_slow > MOST_SHARE * _calls_alike(provenance, mode, program, callers, recorded):
        return None
    worst = [call.id for call in recorded[: MOST_EXAMPLES - 1]]
    newest = max(recorded, key=lambda call: call.entry_us, default=None)
    examples = [*worst, *([newest.id] if newest is not None and newest.id not in worst else [])]
    found = Recurrence(
        program=program,
        kind=RecurrenceKind.SLOW_MODE,
        function=mode.function,
        calls=slow,
        cost_us=cost_us,
        shortest_us=mode.from_us - mode.usual_us,
        longest_us=max([mode.typical_us, *map(_judged_us, recorded)]),
        functions=[mode.function],
        ranks=sorted({call.rank for call in recorded}),
        begin_us=min((call.entry_us for call in recorded), default=run_us[0]),
        end_us=max((call.exit_us for call in recorded), default=run_us[1]),
        examples=examples,
        share=mode.share * slow / all_slow,
        typical_us=mode.typical_us,
        usual_us=mode.usual_us,
        callers=list(callers),
        every_us=_every_us(recorded),
    )
    return causes.with_cause(found, recorded)


def _recorded(provenance: Provenance, mode: SlowMode, program: int) -> list[CallSummary]:
    """Return the recorded calls of a mode, the most severe first."""
    # Also those that the final judgement found to be ordinary: of them the mode was learned.
    wanted = CallFilter(function=mode.function, program=program, label=None)
    page = provenance.calls.page(wanted, limit=MOST_READ)
    return [call for call in page.calls if call.exit_us and _judged_us(call) >= mode.from_us]


def _is_in(call: CallSummary, losses: Sequence[tuple[int, NodeLoss]]) -> bool:
    """Return whether a call was slow while its rank lost its core in all that it did."""
    return any(
        (program, loss.rank) == (call.program, call.rank)
        and call.entry_us < loss.end_us
        and call.exit_us > loss.begin_us
        for program, loss in losses
    )


def _judged_us(call: CallSummary) -> float:
    return judged_us(call.expected_us, call.severity_us)


def _is_explained(provenance: Provenance, recorded: Sequence[CallSummary]) -> bool:
    """Return whether most of these waits belong to an incident that began elsewhere."""
    incidents = Incidents(provenance.reader)
    known = {
        number: incidents.one(number).incident
        for number in {call.incident_id for call in recorded if call.incident_id}
    }
    explained = [
        call
        for call in recorded
        if (one := known.get(call.incident_id)) and (one.is_loss or one.call_id not in ("", call.id))
    ]
    return len(explained) > len(recorded) / 2


def _callers(provenance: Provenance, mode: SlowMode, program: int) -> dict[str, int]:
    """Return the callers for which the function is slow, if it is not slow for other callers, with the number
    of calls that each makes.
    """
    metric = provenance.run().config.metric
    longest: dict[str, float] = defaultdict(float)
    calls: Counter[str] = Counter()
    for path in provenance.path_statistics():
        if path.program == program and len(path.functions) > 1 and path.functions[-1] == mode.function:
            caller = path.functions[-2]
            calls[caller] += path.calls
            longest[caller] = max(longest[caller], getattr(path, f"{metric}_maximum_us"))
    slow = {name: calls[name] for name, longest_us in sorted(longest.items()) if longest_us >= mode.from_us}
    return slow if 0 < len(slow) < len(longest) else {}


def _calls_alike(
    provenance: Provenance,
    mode: SlowMode,
    program: int,
    callers: Mapping[str, int],
    recorded: Sequence[CallSummary],
) -> float:
    """Return the number of calls among which those of a mode would be usual: by the same callers, or on the
    same ranks, where it is not seen for all of them.
    """
    alike = [float(sum(callers.values()))] if callers else []
    ranks = {call.rank for call in recorded}
    if ranks:
        times = provenance.times_by_rank(program, mode.function)
        if ranks < times.keys():
            alike.append(sum(times[rank].calls for rank in ranks))
    return min(alike, default=math.inf)


def _every_us(recorded: Sequence[CallSummary]) -> float:
    """Return the time from one call to the next on the same thread, if it is regular; else 0."""
    gaps = sorted(_gaps(recorded))
    if len(gaps) < LEAST_GAPS:
        return 0.0
    middle = median(gaps)
    spread = gaps[3 * len(gaps) // 4] - gaps[len(gaps) // 4]
    return float(middle) if spread <= REGULAR * middle else 0.0


def _gaps(recorded: Sequence[CallSummary]) -> Iterator[int]:
    threads: dict[tuple[int, int], list[int]] = defaultdict(list)
    for call in recorded:
        threads[call.rank, call.thread].append(call.entry_us)
    for entries in threads.values():
        entries.sort()
        yield from (after - before for before, after in pairwise(entries))
