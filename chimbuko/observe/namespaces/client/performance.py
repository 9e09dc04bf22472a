"""Publishing of the times of functions on each rank of a run, from the parameter server to the
namespace ``performance``.

Keys are in SOMA's layout for TAU: ``PROGRAM/TAU/NODE/Rank N/MPI_Routines/NAME_Calls`` and,
likewise, ``NAME_Inclusive`` and ``NAME_Exclusive``, times in µs. Functions that are not MPI's stand
under ``TAU`` instead of ``MPI_Routines``.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from itertools import islice
from typing import NamedTuple, cast

import msgspec
import numpy as np
import redis

from chimbuko.core.errors import ChimbukoError
from chimbuko.core.traceschema import MPI_PREFIX
from chimbuko.observe.namespaces.analyses.standard import RANK_KEY, TAU
from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.namespaces.exchange.namespacereader import Observation
from chimbuko.observe.namespaces.exchange.paths import Path, key_of
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.protocol.telemetry import OTHERS, TIMER, RankTimers

MOST_TIMERS = 16
"""Most functions with leaves of their own, of a program in each of the two groups; those that take the most
time get them first.
"""
MPI_ROUTINES = "MPI_Routines"
REST = {TAU: "(others)", MPI_ROUTINES: "MPI_(others)"}
"""Name, by group, under which the calls and exclusive times of all other functions are added up."""


class _Timer(NamedTuple):
    place: int
    """Place among the functions of its program and group that have leaves of their own; ``MOST_TIMERS`` for
    none.
    """
    program: str
    node: str
    rank: int
    group: str
    name: str
    calls: int
    inclusive_us: float
    exclusive_us: float


class TauLayout:
    """Layout of the parameter server's function statistics as leaves.

    A function keeps its leaves, and a rank its node. So the leaves of a rank always add up to its whole time.
    """

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        """Functions that have leaves, by program and group, in the order in which they got them."""
        self._nodes: dict[tuple[str, int], str] = {}

    def note(self, path: Path) -> None:
        """Note a leaf that is published already, by an earlier process."""
        match path:
            case (program, layout, node, rank, group, leaf) if layout == TAU and group in REST:
                name, _, _ = leaf.rpartition("_")
                number = RANK_KEY.fullmatch(rank)
                if name and number:
                    self._nodes.setdefault((program, int(number[1])), node)
                    self._give_place(program, group, name)

    def leaves(self, answers: Sequence[RankTimers]) -> Iterator[tuple[Path, float]]:
        """Return leaves and their values, those of the functions that take the most time first.

        Parameters
        ----------
        answers
            Answers of all parts of the server. Ranks whose node is not known are left out.
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
        """Give leaves to the functions that take the most time, over all ranks, as long as there is room."""
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
    """Return the functions under names that can be keys."""
    programs = {number: key_of(name) for number, name in answer.programs.items()}
    functions = {number: key_of(name) for number, name in answer.functions.items()}
    return msgspec.structs.replace(answer, programs=programs, functions=functions)


def _group(name: str) -> str:
    return MPI_ROUTINES if name.startswith(MPI_PREFIX) else TAU


NAMESPACE = "performance"
PERIOD_S = 2.0
LEAVES_PER_S = 5000
"""Number of leaves per second beyond which publishing is slowed down."""
PIECE = int(PERIOD_S * LEAVES_PER_S)
"""Number of leaves published at a time: those of 10,000 ranks are 41 MB, and take seconds to make."""
CLOSE_TIMEOUT_S = 10.0

_decoder = msgspec.msgpack.Decoder(RankTimers)


class PerformancePublisher:
    """Publisher of the parameter server's answers, which it asks for now and then.

    The answers are totals: nothing counts twice, whoever of those concerned has died in between.

    Parameters
    ----------
    broker
        Broker of the run.
    parts
        Number of parts of the parameter server.
    open_client
        Function that connects to the service of namespaces; raises ``ChimbukoError`` where that is not
        possible now. report Function that takes a line: once, where publications are refused.
    """

    def __init__(
        self,
        broker: RunBroker,
        parts: int,
        open_client: Callable[[], Client],
        report: Callable[[str], None],
    ) -> None:
        self._broker = broker
        self._parts = [broker.keys.part(part) for part in range(parts)]
        self._open_client = open_client
        self._report = report
        self._layout = TauLayout()
        self._answers: list[bytes] = []
        self._leaves: Iterator[tuple[Path, float]] = iter(())
        """Leaves of the answers that are not published yet."""
        self._has_leaves = False
        self._client: Client | None = None
        self._arrival: Future[None] | None = None
        self._due_s = 0.0
        self._has_ended = False

    def note(self, observation: Observation) -> None:
        """Note earlier publications, perhaps by another process in the place of this one."""
        if observation.namespace == NAMESPACE:
            for path in observation.change.put:
                self._layout.note(path)

    def keep_up(self) -> None:
        """Publish some of the new leaves, and ask again where those were the last, if that is due; a broker
        that is away is tried again.
        """
        if self._has_ended or time.monotonic() < self._due_s or not self._has_arrived():
            return
        self._due_s = time.monotonic() + PERIOD_S
        if not self._has_leaves:
            self._take_answers()
        if self._has_leaves:
            self._publish_piece()
        if not self._has_leaves:
            with suppress(redis.RedisError):
                for part in self._parts:
                    self._broker.client.set(part.timers_wanted, b"1")

    def finish(self) -> None:
        """Publish the server's last answer, and wait until it has arrived."""
        if not self._has_ended:
            self._take_answers()
        while self._has_leaves and self._has_arrived(CLOSE_TIMEOUT_S) and self._publish_piece():
            pass
        if self._client is not None and not self._has_ended:
            try:
                self._client.close(CLOSE_TIMEOUT_S)
            except ChimbukoError as error:
                self._give_up(error)
        self._has_ended = True

    def _has_arrived(self, timeout_s: float = 0.0) -> bool:
        """Whether everything has arrived, after so many seconds at most."""
        if self._arrival is None:
            return True
        if wait([self._arrival], timeout_s).not_done:
            return False
        error = self._arrival.exception()
        if error is not None:
            self._give_up(error)
        return error is None

    def _take_answers(self) -> None:
        """Take the server's new answers."""
        try:
            answers = [cast("bytes | None", self._broker.client.get(part.timers)) for part in self._parts]
            known = [answer for answer in answers if answer is not None]
            if known == self._answers:
                return
            timers = [self._broker.seal.decode(answer, _decoder) for answer in known]
        except (redis.RedisError, msgspec.MsgspecError):
            return
        self._answers = known
        self._leaves, self._has_leaves = self._layout.leaves(timers), True

    def _publish_piece(self) -> bool:
        """Publish some of the remaining leaves, if that is possible."""
        try:
            self._client = self._client or self._open_client()
        except ChimbukoError:
            # Readers of these messages report it.
            return False
        try:
            namespace = self._client.create(NAMESPACE)
            piece = list(islice(self._leaves, PIECE))
            for path, value in piece:
                namespace.update(path, value)
            self._arrival = namespace.publish_async()
        except ChimbukoError as error:
            self._give_up(error)
            return False
        self._has_leaves = len(piece) == PIECE
        return True

    def _give_up(self, error: BaseException) -> None:
        self._report(f"the times of functions on each rank are not published: {error}")
        self._has_ended = True
