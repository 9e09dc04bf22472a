"""What functions took on each rank, in SOMA's layout for TAU: keys and values. No I/O.

``PROGRAM/TAU/NODE/Rank N/MPI_Routines/NAME_Calls`` and, likewise, ``NAME_Inclusive`` and ``NAME_Exclusive``,
times in µs. Functions that are not MPI's stand under ``TAU`` instead of ``MPI_Routines``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from chimbuko.core.traceschema import MPI_PREFIX
from chimbuko.observe.namespaces.analyses.loadbalance import TAU
from chimbuko.observe.namespaces.analyses.series import RANK_KEY
from chimbuko.observe.namespaces.tree.paths import Path, key_of
from chimbuko.runtime.protocol.telemetry import OTHERS, TIMER, RankTimers

MOST_TIMERS = 16
"""Of a program in each of the two groups: those that take the most time while there is room for one more."""
MPI_ROUTINES = "MPI_Routines"
REST = {TAU: "(others)", MPI_ROUTINES: "MPI_(others)"}
"""By group, the name under which all others of it are added up: their calls, and their exclusive time."""


class _Timer(NamedTuple):
    place: int
    """Among those of its program and group that have leaves of their own; ``MOST_TIMERS`` for none."""
    program: str
    node: str
    rank: int
    group: str
    name: str
    calls: int
    inclusive_us: float
    exclusive_us: float


class TauLayout:
    """Makes leaves of what the parameter server knows.

    A function that has leaves keeps them, and a rank its node: so the leaves of a rank always add up to all
    that it has done.
    """

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        """By program and group, functions that have leaves, in the order in which they got them."""
        self._nodes: dict[tuple[str, int], str] = {}

    def note(self, path: Path) -> None:
        """A leaf that is published already, by whoever was here before."""
        match path:
            case (program, layout, node, rank, group, leaf) if layout == TAU and group in REST:
                name, _, _ = leaf.rpartition("_")
                number = RANK_KEY.fullmatch(rank)
                if name and number:
                    self._nodes.setdefault((program, int(number[1])), node)
                    self._give_place(program, group, name)

    def leaves(self, answers: Sequence[RankTimers]) -> Iterator[tuple[Path, float]]:
        """Leaves and their values, those of the functions that take the most time first.

        Parameters
        ----------
        answers
            Of all parts of the server. Ranks whose node nobody has said are left out.
        """
        answers = [_with_keys(answer) for answer in answers]
        self._choose(answers)
        timers = sorted(timer for answer in answers for timer in self._timers(answer))
        rest: dict[tuple[str, ...], list[float]] = {}
        for place, program, node, rank, group, name, calls, inclusive_us, exclusive_us in timers:
            path: tuple[str, ...] = (program, TAU, node, f"Rank {rank}", group)
            if place < MOST_TIMERS:
                yield (*path, f"{name}_Calls"), float(calls)
                yield (*path, f"{name}_Inclusive"), inclusive_us
                yield (*path, f"{name}_Exclusive"), exclusive_us
            else:
                sums = rest.setdefault(path, [0.0, 0.0])
                sums[0] += calls
                sums[1] += exclusive_us
        for path, (count, time_us) in rest.items():
            yield (*path, f"{REST[path[-1]]}_Calls"), count
            yield (*path, f"{REST[path[-1]]}_Exclusive"), time_us

    def _choose(self, answers: Sequence[RankTimers]) -> None:
        """Give leaves to those that take the most time, over all ranks, where there is room."""
        times_us: dict[str, Counter[str]] = defaultdict(Counter)
        for answer in answers:
            rows = np.frombuffer(answer.rows, TIMER)
            rows = rows[rows["function"] != OTHERS]
            pairs, at = np.unique(rows[["program", "function"]], return_inverse=True)
            sums = np.bincount(at, rows["exclusive_us"], len(pairs))
            for (program, function), time_us in zip(pairs.tolist(), sums.tolist(), strict=True):
                if program in answer.programs:
                    times_us[answer.programs[program]][answer.functions[function]] += time_us
        for program, of_names in times_us.items():
            for name, _ in of_names.most_common():
                self._give_place(program, _group(name), name)

    def _give_place(self, program: str, group: str, name: str) -> None:
        places = self._places[program, group]
        if len(places) < MOST_TIMERS and name != REST[group]:
            places.setdefault(name, len(places))

    def _timers(self, answer: RankTimers) -> Iterator[_Timer]:
        for number, rank, node in answer.nodes:
            if number in answer.programs:
                self._nodes.setdefault((answer.programs[number], rank), node)
        keys = {number: (_group(name), name) for number, name in answer.functions.items()}
        keys[OTHERS] = TAU, REST[TAU]
        for number, rank, function, *amounts in np.frombuffer(answer.rows, TIMER).tolist():
            program = answer.programs.get(number, "")
            group, name = keys[function]
            place = self._places[program, group].get(name, MOST_TIMERS)
            if (program, rank) in self._nodes:
                node = self._nodes[program, rank]
                yield _Timer(place, program, node, rank, group, name, *amounts)


def _with_keys(answer: RankTimers) -> RankTimers:
    """The same, where each name can be a key."""
    programs = {number: key_of(name) for number, name in answer.programs.items()}
    functions = {number: key_of(name) for number, name in answer.functions.items()}
    return msgspec.structs.replace(answer, programs=programs, functions=functions)


def _group(name: str) -> str:
    return MPI_ROUTINES if name.startswith(MPI_PREFIX) else TAU
