"""Totals of a run, of ranks, functions and streams, at one moment and while it goes on, with their sums and
rankings. Pure.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar, get_args

import msgspec

from chimbuko.core.arrays import RankKey
from chimbuko.core.calls.record import SILENT, Silence, StepCount, StreamHealth
from chimbuko.core.statistics.flaggedsteps import moments_per_step
from chimbuko.runtime.protocol.messages import Frame, FunctionStatistics, RankStatistics


class Sums(msgspec.Struct, frozen=True):
    """Sums over all ranks and streams."""

    ranks: int
    """Number of known ranks, whether they reported steps or not."""
    reporting: int
    """Number of ranks that are being read, or were to their end."""
    with_anomalies: int
    anomalies: int
    steps: int
    """Number of analysed steps."""
    steps_by_program: dict[int, int]
    last_step: int | None
    events: int
    """Number of rows of traces that were read."""
    calls: int
    loss: float | None
    """Share of steps that were not analysed; None while no stream has said."""
    losses: dict[str, int]
    """Number of rows, calls and steps that were not used, by kind."""
    silent: dict[RankKey, Silence]
    """Ranks that report no step, in order."""


def summed(ranks: Mapping[RankKey, RankStatistics], health: Mapping[RankKey, StreamHealth]) -> Sums:
    """Add up what is known of each rank and each stream."""
    losses: Counter[str] = Counter()
    steps_by_program: Counter[int] = Counter()
    silent: list[tuple[RankKey, Silence]] = []
    # This runs over 10,000 streams four times a second.
    reporting = events = calls = read = gap_steps = 0
    for stream in health.values():
        reporting += stream.state in ("reading", "ended")
        events += stream.rows
        calls += stream.calls
        read += stream.steps
        gap_steps += stream.gap_steps
        if stream.losses:
            losses.update(stream.losses)
        if stream.silence is not None and stream.state == SILENT:
            silent.append(((stream.program, stream.rank), stream.silence))
    for row in ranks.values():
        steps_by_program[row.program] += row.steps
    return Sums(
        ranks=len(ranks.keys() | health.keys()),
        reporting=reporting if health else len(ranks),
        with_anomalies=sum(row.total > 0 for row in ranks.values()),
        anomalies=sum(row.total for row in ranks.values()),
        steps=steps_by_program.total(),
        steps_by_program=dict(steps_by_program),
        last_step=max((row.last_step for row in ranks.values()), default=None),
        events=events,
        calls=calls,
        loss=gap_steps / (read + gap_steps) if read + gap_steps else None,
        losses=dict(losses) | ({"steps": gap_steps} if gap_steps else {}),
        silent=dict(sorted(silent)),
    )


Statistic = Literal[
    "mean", "stddev", "maximum", "minimum", "total", "skewness", "kurtosis", "steps", "severity_us"
]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)
Row = TypeVar("Row")

LEAST_RANKED = 20
"""Least number of ranks that are sorted out: pages ask for 5 or some more, and all that want no more than
this share one sorting.
"""


class Ranking(msgspec.Struct, frozen=True):
    """The ranks with the largest and the smallest value of one statistic."""

    statistic: Statistic
    n: int
    ranks: int
    """Number of ranks in all."""
    top: list[RankStatistics]
    bottom: list[RankStatistics]


class FlaggedFunction(msgspec.Struct, frozen=True):
    """Function with its abnormal calls per analysed step of a rank of its program."""

    program: int
    name: str
    steps: int
    """Number of analysed steps of all ranks of the program."""
    total: int
    mean: float
    severity_us: float
    stddev: float | None = None
    """Standard deviation; None, like the statistics below, where nobody knows in which steps the abnormal
    calls were: the run is of an earlier version, or imported, and not all of them are recorded.
    """
    minimum: int | None = None
    maximum: int | None = None
    skewness: float | None = None
    kurtosis: float | None = None


class FunctionRanking(msgspec.Struct, frozen=True):
    """The functions with the largest and the smallest value of one statistic of abnormal calls per step."""

    statistic: Statistic
    n: int
    functions: int
    """Number of functions of which the statistic is known."""
    top: list[FlaggedFunction]
    bottom: list[FlaggedFunction]


@dataclass(frozen=True, eq=False)
class Totals:
    """Totals and newest steps of a run at one moment. They never change, so that any thread may read them."""

    ranks: Mapping[RankKey, RankStatistics]
    functions: Mapping[tuple[int, str], FunctionStatistics]
    health: Mapping[RankKey, StreamHealth]
    recent: tuple[StepCount, ...]
    """Newest steps in the order of their arrival, which the store may not have yet."""
    version: int
    """Number that grows with each change."""
    zero_us: int | None
    """Start of the first analysed step, µs since the epoch."""
    newest_us: int | None
    """End of the newest analysed step, µs since the epoch."""
    _rankings: dict[Statistic, Ranking] = field(default_factory=dict)
    """Rankings that somebody has asked for."""

    @cached_property
    def sums(self) -> Sums:
        """Return the sums over all ranks."""
        return summed(self.ranks, self.health)

    def streams(self) -> list[StreamHealth]:
        """Return the running totals of each stream, by program and rank."""
        return [self.health[key] for key in sorted(self.health)]

    def recent_steps(self, ranks: Iterable[RankKey]) -> list[StepCount]:
        """Return the newest steps of these ranks, rank by rank."""
        return [step for rank in ranks for step in self._recent_by_rank.get(rank, ())]

    @cached_property
    def _recent_by_rank(self) -> dict[RankKey, list[StepCount]]:
        # Only where somebody asks: of 50,000 steps it takes 10 ms.
        found: defaultdict[RankKey, list[StepCount]] = defaultdict(list)
        for step in self.recent:
            found[step.program, step.rank].append(step)
        return dict(found)

    def ranking(self, statistic: Statistic, n: int) -> Ranking:
        """Return the ``n`` ranks with the largest value, and the ``n`` with the smallest; ties in order of
        rank.
        """
        held = self._rankings.get(statistic)
        if held is None or held.n < n:
            most = max(n, LEAST_RANKED)
            top, bottom = _ends(self.ranks.values(), statistic, most, lambda row: (row.program, row.rank))
            held = Ranking(statistic, most, len(self.ranks), top, bottom)
            self._rankings[statistic] = held
        return msgspec.structs.replace(held, n=n, top=held.top[:n], bottom=held.bottom[:n])

    def function_ranking(self, statistic: Statistic, n: int) -> FunctionRanking:
        """Return the ``n`` functions with the largest value, and the ``n`` with the smallest; ties by
        name.
        """
        steps = self.sums.steps_by_program
        rows = [_flagged(row, steps.get(row.program, 0)) for row in self.functions.values()]
        known = [row for row in rows if getattr(row, statistic) is not None]
        top, bottom = _ends(known, statistic, n, lambda row: (row.program, row.name))
        return FunctionRanking(statistic, n, len(known), top, bottom)

    def worst_functions(self) -> list[FunctionStatistics]:
        """Return the functions: those with anomalies first, the most time lost on top; then by number of
        calls.
        """
        return sorted(
            self.functions.values(),
            key=lambda row: (-row.severity_us, -row.anomalies, -row.calls, row.program, row.name),
        )


def _ends(
    rows: Iterable[Row], statistic: Statistic, n: int, place: Callable[[Row], Any]
) -> tuple[list[Row], list[Row]]:
    """Return the ``n`` rows with the largest value, largest first, and the ``n`` with the smallest."""
    some = list(rows)
    top = heapq.nsmallest(n, some, lambda row: (-getattr(row, statistic), place(row)))
    return top, heapq.nsmallest(n, some, lambda row: (getattr(row, statistic), place(row)))


def _flagged(function: FunctionStatistics, steps: int) -> FlaggedFunction:
    known = FlaggedFunction(
        program=function.program,
        name=function.name,
        steps=steps,
        total=function.anomalies,
        mean=function.anomalies / max(steps, 1),
        severity_us=function.severity_us,
    )
    if function.anomalies and not function.flagged_steps:
        return known
    sums = function.flagged_squares, function.flagged_cubes, function.flagged_fourths
    squares, cubes, fourths = (round(power) for power in sums)
    of = moments_per_step(
        steps,
        function.flagged_steps,
        (function.anomalies, squares, cubes, fourths),
        function.fewest_flagged,
        function.most_flagged,
    )
    return msgspec.structs.replace(
        known,
        stddev=of.stddev,
        minimum=round(of.minimum) if steps else 0,
        maximum=round(of.maximum) if steps else 0,
        skewness=of.skewness,
        kurtosis=of.kurtosis,
    )


# Live totals of a run, per rank, function and stream, and the newest steps.
#
# Totals come from the store and from frames, in any order and more than once: they only grow, so the larger
# one is the newer one.


RECENT_STEPS = 50_000
"""Most steps kept until the store has them: 5 s of 10,000 ranks at one step a second, 12 MB."""


class LiveTotals:
    """Totals and newest steps of a run, as they grow."""

    def __init__(self) -> None:
        self.progress = 0
        """Number that grows with analysed steps only: agents report also where ranks are silent."""
        self.version = 0
        """Number that grows with each change."""
        self._ranks: dict[RankKey, RankStatistics] = {}
        self._functions: dict[tuple[int, str], FunctionStatistics] = {}
        self._health: dict[RankKey, StreamHealth] = {}
        self._recent: deque[StepCount] = deque(maxlen=RECENT_STEPS)
        self._zero_us: int | None = None
        self._newest_us: int | None = None
        self._now: Totals | None = None
        """Totals as they are; None if they have changed since somebody asked."""

    def now(self) -> Totals:
        """Return the totals as they are now, which stay so."""
        if self._now is None:
            # Of 10,000 ranks the copies take less time than their sums.
            self._now = Totals(
                ranks=self._ranks.copy(),
                functions=self._functions.copy(),
                health=self._health.copy(),
                recent=tuple(self._recent),
                version=self.version,
                zero_us=self._zero_us,
                newest_us=self._newest_us,
            )
        return self._now

    def note_change(self) -> None:
        """Note that something beside the totals has changed, of which pages are to know."""
        self.version += 1
        self._now = None

    def add_frame(self, frame: Frame) -> None:
        """Add the changes in a frame."""
        self.add_totals(frame.ranks, frame.functions, frame.health)
        for step in frame.steps:
            if step.start_us:  # A step without events, before the first event, has no time.
                self.add_times(step.start_us, step.end_us)
        self._recent.extend(frame.steps)
        self.progress += len(frame.steps)
        self.note_change()

    def add_totals(
        self,
        ranks: Iterable[RankStatistics],
        functions: Iterable[FunctionStatistics],
        health: Iterable[StreamHealth],
    ) -> None:
        """Add totals of any age."""
        changed = False
        for rank in ranks:
            known = self._ranks.get((rank.program, rank.rank))
            if known is None or (rank.steps, rank.total) > (known.steps, known.total):
                self._ranks[rank.program, rank.rank] = rank
                self.progress += 1
                changed = True
        for function in functions:
            held = self._functions.get((function.program, function.name))
            if held is None or (function.calls, function.anomalies) > (held.calls, held.anomalies):
                self._functions[function.program, function.name] = function
                changed = True
        for stream in health:
            last = self._health.get((stream.program, stream.rank))
            if (
                last is None
                or (stream.steps, stream.rows) > (last.steps, last.rows)
                or _went_on(last, stream)
            ):
                self._health[stream.program, stream.rank] = stream
                changed = True
        if changed:
            self.note_change()

    def oldest_news(self, ranks: Iterable[RankStatistics]) -> int | None:
        """Return the first step that is new in totals which are not added yet; None if none is."""
        known = ((self._ranks.get((rank.program, rank.rank)), rank) for rank in ranks)
        news = [
            0 if old is None else old.last_step
            for old, rank in known
            if old is None or old.steps < rank.steps
        ]
        return min(news, default=None)

    def add_times(self, zero_us: int, newest_us: int) -> None:
        """Widen the analysed time to hold that from ``zero_us`` to ``newest_us``."""
        self._zero_us = min(zero_us, zero_us if self._zero_us is None else self._zero_us)
        self._newest_us = max(newest_us, self._newest_us or 0)
        self._now = None


def _went_on(old: StreamHealth, new: StreamHealth) -> bool:
    """Whether the totals are the same, but the stream has gone on to another state; back to reading it goes
    with a step only.
    """
    states = ("reading", SILENT)
    is_on = old.state in states and new.state not in states[: states.index(old.state) + 1]
    return (new.steps, new.rows) == (old.steps, old.rows) and is_on
