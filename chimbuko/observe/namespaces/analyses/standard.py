"""Standard analyses of a workflow: load balance in MPI, CPU utilisation, and states of tasks.

CPU utilisation is computed as SOMA does from lines of ``/proc/stat``. Of two successive samples it is
100 · (Δtotal − Δidle) / Δtotal: idle is idle and iowait, and total that and user, nice, system, irq, softirq
and steal.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np

from chimbuko.observe.namespaces.exchange.leaves import Leaf, elements
from chimbuko.observe.namespaces.exchange.namespacereader import Observation
from chimbuko.observe.namespaces.exchange.paths import Path, format_path
from chimbuko.observe.namespaces.exchange.tree import Nested

RANK_KEY = re.compile(r"Rank (\d+)")
"""Pattern of a key that names a rank."""


def values(observations: Iterable[Observation]) -> Iterator[tuple[Path, int, Leaf]]:
    """Yield path, time in µs since the epoch and value of each leaf that was set, in order of time."""
    for observation in observations:
        for path, leaf in observation.change.put.items():
            yield path, observation.time_us, leaf


def of_rank(path: Path, rank: int) -> tuple[int, Path]:
    """Return the rank that a key ``Rank N`` names, and the path without it; ``rank`` where there is no such
    key.
    """
    for at, key in enumerate(path[:-1]):
        if found := RANK_KEY.fullmatch(key):
            return int(found[1]), path[:at] + path[at + 1 :]
    return rank, path


_TIMES = 8
"""Number of leading fields that are added up: user, nice, system, idle, iowait, irq, softirq and steal. The
fields behind them are contained in the first ones already.
"""
_IDLE, _IOWAIT = 3, 4
Ticks = tuple[int, int]
"""Ticks since the machine booted: all of them, and the idle ones."""


def cpu_utilisation(observations: Sequence[Observation]) -> Nested:
    """Return the utilisation of each node in per cent, between the last two samples and on average of
    all.

    Samples are leaves ``HOST/stat/cpu``, each the numbers of that line as a string or an array, or in SOMA's
    layout, with a key for each moment, ``PROC/HOST/TIME/stat/cpu``. They are in the order in which they came.
    """
    samples: dict[str, list[Ticks]] = defaultdict(list)
    for path, _, leaf in values(observations):
        if (sample := sample_of(path, leaf)) is not None:
            samples[sample[0]].append(sample[1])
    return {
        host: {
            "utilisation_percent": percent(taken[-2], taken[-1]),
            "mean_utilisation_percent": percent(taken[0], taken[-1]),
            "samples": len(taken),
        }
        for host, taken in samples.items()
        if len(taken) > 1 and taken[-1][0] > taken[-2][0]
    }


def sample_of(path: Path, leaf: Leaf) -> tuple[str, Ticks] | None:
    """Return the node and its ticks if the leaf is a sample of CPU ticks, else None."""
    times = _times(leaf) if path[-2:] == ("stat", "cpu") and len(path) > 2 else None
    if times is None:
        return None
    host = path[1] if path[0] == "PROC" and len(path) > 3 else path[-3]
    return host, (sum(times), times[_IDLE] + times[_IOWAIT])


def percent(before: Ticks, after: Ticks) -> float:
    """Return the utilisation in per cent between two samples, of which the later one has more ticks."""
    total, idle = after[0] - before[0], after[1] - before[1]
    return 100.0 * (total - idle) / total


def _times(leaf: Leaf) -> list[int] | None:
    if isinstance(leaf, str):
        words = [word for word in leaf.split() if word.isdecimal()]
    else:
        words = [str(int(number)) for number in elements(leaf).ravel().tolist()]
    return [int(word) for word in words[:_TIMES]] if len(words) >= _TIMES else None


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


TAU, CALIPER = "TAU", "CALIPER"
"""Keys with which SOMA's layouts begin; the keys before one of them name a program."""
_EXCLUSIVE = re.compile(r"(MPI_(?:\w+?|\(others\)))(?:\(\))?_Exclusive")


class MpiTimes:
    """Time in MPI of each rank, from leaves whose path ends in ``Rank N`` and, deeper,
    ``MPI_NAME_Exclusive``.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, int, str], float] = {}

    def take(self, path: Path, leaf: Leaf) -> None:
        """Add a leaf, if it is one of these."""
        name = _EXCLUSIVE.fullmatch(path[-1])
        if name is None or isinstance(leaf, str) or elements(leaf).size != 1:
            return
        rank, rest = of_rank(path, 0)
        if rest != path:
            layout = next((at for at, key in enumerate(path) if key in (TAU, CALIPER)), 0)
            program = format_path(path[:layout])
            self._last[program, rank, name[1]] = float(elements(leaf).ravel()[0])

    @property
    def of_programs(self) -> dict[str, dict[int, float]]:
        """Return the times by program (empty for one without a name) and rank, both in order."""
        sums: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        for (program, rank, _), time in self._last.items():
            sums[program][rank] += time
        return {program: dict(sorted(of_ranks.items())) for program, of_ranks in sorted(sums.items())}


def load_balance(observations: Sequence[Observation]) -> Nested:
    """Return the time in MPI of each rank, and how evenly it is spread, under the name of the program.

    ``balance`` is the mean over the ranks through the largest of them: 1 where all are alike.
    """
    known = MpiTimes()
    for path, _, leaf in values(observations):
        known.take(path, leaf)
    found: dict[str, Nested] = {}
    for program, of_ranks in known.of_programs.items():
        balance = _balance(of_ranks)
        found |= {program: balance} if program else balance
    return found


def _balance(of_ranks: Mapping[int, float]) -> Nested:
    times = np.array(list(of_ranks.values()))
    largest = float(times.max())
    return {
        "mpi_time": {f"Rank {rank}": time for rank, time in of_ranks.items()},
        "mean": float(times.mean()),
        "largest": largest,
        "balance": float(times.mean()) / largest if largest > 0.0 else 1.0,
    }
