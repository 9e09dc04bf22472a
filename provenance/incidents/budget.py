"""Budget: the time of all threads, divided without rest by what they did, and what of it was lost. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from chimbuko.causes.wording import Bound, bounded, duration
from chimbuko.core.calls.functionnames import short_name
from chimbuko.core.calls.waiting import AWAIT, TimeKind, Waits, time_kind, waits_in
from chimbuko.core.units import number_of

MOST_FUNCTIONS = 10
"""Number of functions whose computing time is given; what the others took is the rest."""
MOST_NAMED = 3
LEAST_SHARE = 0.005
"""Share of the whole below which a part is not named in a sentence: it would be 0 %."""
ALIKE = 0.01
"""Share by which the time of a run's only thread may differ from the run's to be told once."""
_KINDS = {
    TimeKind.COMPUTING: "computing_us",
    TimeKind.IO: "io_us",
    TimeKind.GPU: "gpu_us",
    TimeKind.AWAITING: "asleep_us",
}


class Shares(msgspec.Struct, frozen=True):
    """Time of threads in µs, divided by what they did; all of these add up to the whole."""

    computing_us: float = 0.0
    point_to_point_us: float = 0.0
    """Time in messages of MPI, with waits for these."""
    collective_us: float = 0.0
    other_mpi_us: float = 0.0
    io_us: float = 0.0
    gpu_us: float = 0.0
    """Time in which they waited for a GPU."""
    threads_us: float = 0.0
    """Time in which they waited for other threads, at barriers of OpenMP."""
    asleep_us: float = 0.0
    """Time asleep in none of these waits, and of coroutines that await; where there are no samples of nodes
    the rest of it is in their parts.
    """
    waiting_us: float = 0.0
    """Time of waits for a core; where there are no samples of nodes it is in their parts."""
    not_recorded_us: float = 0.0


class FunctionShare(msgspec.Struct, frozen=True):
    """Time in a function's own code, whether it computed, slept or waited for a core."""

    function: str
    own_us: float
    slept_us: float | None = None
    """Part of it that was slept, by looks at its threads; None where too few say so."""


class Lost(msgspec.Struct, frozen=True):
    """Core time that was lost; each µs counts once."""

    incidents_us: float = 0.0
    recurring_us: float = 0.0
    imbalance_us: float = 0.0
    """Time lost by ranks that are slower than the others all the time."""
    analysis_us: float = 0.0
    """Time lost to this analysis itself."""


class Budget(msgspec.Struct, frozen=True):
    """Time budget of a run: where its time went, and how much of it was lost."""

    wall_us: float
    threads: int
    """Number of threads that were recorded, on all ranks."""
    total_us: float
    """Time of these threads, each from its first to its last event; the shares are of that."""
    shares: Shares
    functions: list[FunctionShare]
    """Functions with most time in their own code, longest first."""
    is_sampled: bool
    """Whether samples of nodes say how long threads slept, and waited for a core."""
    lost: Lost
    not_judged: list[FunctionShare] = []
    """Functions with too few calls for any of them to be judged, the longest first."""
    incidents_bound: Bound = Bound.EXACT
    """How sure the time lost in incidents is."""
    sentence: str = ""
    """Budget in words, the same wherever it is shown."""

    @property
    def not_judged_line(self) -> str:
        """Return how many functions have too few calls to be judged, and their time; empty for none."""
        us = sum(one.own_us for one in self.not_judged)
        if not us or us < LEAST_SHARE * self.total_us:
            return ""
        named = ", ".join(short_name(one.function) for one in self.not_judged[:MOST_NAMED])
        functions = number_of(len(self.not_judged), "functions")
        share = _percent(us, self.total_us)
        return f"{functions}, {duration(us)} ({share}), with too few calls to compare: {named}"


class Sampled(msgspec.Struct, frozen=True):
    """Time of recorded threads by activity, in µs, from samples of these."""

    watched_us: float
    ran_us: float
    waited_us: float


def make_budget(
    wall_us: float,
    threads: int,
    total_us: float,
    times_us: Mapping[str, float],
    gpu_calls_us: float,
    sampled: Sampled | None,
    lost: Lost,
    not_judged: Collection[str] = (),
    slept_us: Mapping[str, float] | None = None,
    is_whole: bool = True,
    incidents_bound: Bound = Bound.EXACT,
) -> Budget:
    """Divide the time of threads without rest.

    Parameters
    ----------
    total_us
        Time of all threads, from the first to the last event of each.
    times_us
        Exclusive time of all calls by function.
    gpu_calls_us
        Part of it that is of calls on GPUs, and of no thread.
    sampled
        What their nodes' samples say; None without any.
    not_judged
        Functions with too few calls to be judged.
    slept_us
        Time slept in functions, where it is known.
    is_whole
        Whether nothing of the trace was lost.
    incidents_bound
        How sure the time lost in incidents is.
    """
    slept_us = slept_us or {}
    spent = _by_kind(times_us)
    spent["computing_us"] = max(0.0, spent["computing_us"] - gpu_calls_us)
    if "threads_us" in spent and is_whole:
        # Between two parallel regions the threads of a team are in no call: they wait for the next one.
        spent["threads_us"] += max(0.0, total_us - sum(spent.values()))
    recorded_us = sum(spent.values())
    total_us = max(total_us, recorded_us)
    divided = spent if sampled is None else divide(spent, sampled)
    shares = Shares(**divided, not_recorded_us=total_us - recorded_us)
    own = {name: us for name, us in times_us.items() if _kind_of(name) == "computing_us"}
    longest = sorted(own.items(), key=lambda one: (-one[1], one[0]))[:MOST_FUNCTIONS]
    # Of functions on GPUs and on cores it is not known which is which.
    functions = [
        FunctionShare(name, us, slept_us.get(name)) for name, us in longest if us > 0.0 and not gpu_calls_us
    ]
    few = [FunctionShare(name, times_us[name]) for name in not_judged if times_us.get(name, 0.0) > 0.0]
    few.sort(key=lambda one: (-one.own_us, one.function))
    of_time = wall_us, threads, total_us, shares, functions
    budget = Budget(*of_time, sampled is not None, lost, few, incidents_bound)
    has_tasks = threads > 1 and any(name.startswith(AWAIT) for name in times_us)
    nouns = "threads and tasks" if has_tasks else "threads"
    return msgspec.structs.replace(budget, sentence=_sentence(budget, nouns))


def _by_kind(times_us: Mapping[str, float]) -> dict[str, float]:
    spent = {"computing_us": 0.0}
    for name, us in times_us.items():
        spent[_kind_of(name)] = spent.get(_kind_of(name), 0.0) + us
    return spent


def _kind_of(function: str) -> str:
    if waits_in(function) is Waits.THREADS:
        return "threads_us"
    kind = time_kind(function)
    if kind is not TimeKind.MPI:
        return _KINDS[kind]
    kinds = {Waits.COLLECTIVE: "collective_us", Waits.NOT: "other_mpi_us"}
    return kinds.get(waits_in(function), "point_to_point_us")


def divide(spent: Mapping[str, float], sampled: Sampled) -> dict[str, float]:
    """Return the parts of some time without what their threads slept, and waited for a core.

    Who waits for storage or a GPU sleeps, so that comes first of the time asleep; MPI polls. Who is awake may
    wait for a core in all that it does.
    """
    # Of those that await there are more than threads that are watched.
    awaiting_us = spent.get("asleep_us", 0.0)
    whole_us = sum(spent.values()) - awaiting_us
    scale = whole_us / max(1.0, sampled.watched_us)
    waited_us = min(whole_us, sampled.waited_us * scale)
    asleep_us = max(0.0, whole_us - waited_us - sampled.ran_us * scale)
    asleep_us = max(0.0, asleep_us - spent.get("io_us", 0.0) - spent.get("gpu_us", 0.0))
    # Threads that wait for others sleep or spin, as the runtime is set; either is that wait.
    asleep_us = max(0.0, asleep_us - spent.get("threads_us", 0.0))
    asleep_us = min(asleep_us, spent["computing_us"])
    not_awake = "io_us", "gpu_us", "threads_us", "asleep_us"
    awake = {name: us for name, us in spent.items() if name not in not_awake}
    awake["computing_us"] -= asleep_us
    awake_us = sum(awake.values())
    waited_us = min(waited_us, awake_us)
    kept = 1.0 - waited_us / awake_us if awake_us else 0.0
    left = {name: us * kept for name, us in awake.items()}
    return {**spent, **left, "asleep_us": asleep_us + awaiting_us, "waiting_us": waited_us}


def _sentence(budget: Budget, nouns: str) -> str:
    wall, whole = duration(budget.wall_us), duration(budget.total_us)
    costs = _costs(budget)
    if not budget.total_us:
        # As of a run that was imported: it has the abnormal calls, and not what went on beside them.
        return f"{wall}, and where this went is not on record; lost: {costs}"
    told, total_us = _told(budget), budget.total_us
    is_told = whole == wall or (budget.threads == 1 and abs(total_us - budget.wall_us) < ALIKE * total_us)
    told = told if is_told else [whole, *told]
    own = ", ".join(_own(one, total_us) for one in budget.functions[:MOST_NAMED])
    named = f"; own code: {own}" if own else ""
    begin = f"{number_of(budget.threads, nouns)} in {wall}"
    return f"{begin}: {', '.join(told)}{named}; lost: {costs}"


def _told(budget: Budget) -> list[str]:
    """Return the parts of the time that are worth a word, each with its share."""
    shares, total_us = budget.shares, budget.total_us
    mpi = {
        "point to point": shares.point_to_point_us,
        "collective": shares.collective_us,
        "other": shares.other_mpi_us,
    }
    parts = [
        # Without samples nobody knows which: a program that sleeps all the time must not be told to compute.
        ("computing" if budget.is_sampled else "computing or asleep", shares.computing_us, {}),
        ("MPI", sum(mpi.values()), mpi),
        ("I/O", shares.io_us, {}),
        ("waiting for a GPU", shares.gpu_us, {}),
        ("waiting for other threads", shares.threads_us, {}),
        ("asleep" if budget.is_sampled else "awaiting", shares.asleep_us, {}),
        ("waiting for a core", shares.waiting_us, {}),
        ("not recorded", shares.not_recorded_us, {}),
    ]
    return [
        _percent(us, total_us) + f" {name}" + _inner(inner, total_us)
        for name, us, inner in parts
        if us >= LEAST_SHARE * total_us
    ]


def _costs(budget: Budget) -> str:
    """Return what was lost, with its share of the time where that is on record; ``nothing`` for none."""
    total_us = budget.total_us
    lost = {
        "in incidents": budget.lost.incidents_us,
        "by what recurs": budget.lost.recurring_us,
        "by imbalance": budget.lost.imbalance_us,
        "to the analysis": budget.lost.analysis_us,
    }
    bounds = {"in incidents": budget.incidents_bound}
    costs = [
        bounded(us, bounds.get(how, Bound.EXACT))
        + f"{f' ({_percent(us, total_us)})' if total_us else ''} {how}"
        for how, us in lost.items()
        if us > 0.0
    ]
    return ", ".join(costs) or "nothing"


def _own(one: FunctionShare, total_us: float) -> str:
    is_asleep = one.slept_us is not None and one.slept_us >= LEAST_SHARE * total_us
    asleep = f" (asleep {_percent(one.slept_us or 0.0, total_us)})" if is_asleep else ""
    return f"{short_name(one.function)} {_percent(one.own_us, total_us)}{asleep}"


def _inner(parts: Mapping[str, float], total_us: float) -> str:
    named = {name: us for name, us in parts.items() if us >= LEAST_SHARE * total_us}
    return f" ({_list(named, total_us)})" if named else ""


def _list(parts: Mapping[str, float], total_us: float) -> str:
    return ", ".join(f"{name} {_percent(us, total_us)}" for name, us in parts.items())


def _percent(us: float, total_us: float) -> str:
    share = 100.0 * us / total_us
    return f"{share:.0f} %" if share >= 9.5 else f"{share:.2g} %"
