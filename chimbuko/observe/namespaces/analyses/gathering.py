"""Data of charts, gathered observation by observation. No I/O.

Memory is bounded: the number of things is limited, and of each thing a limited number of points is
kept, the peaks among them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress

from chimbuko.observe.namespaces.analyses.standard import MpiTimes, Ticks, of_rank, percent, sample_of
from chimbuko.observe.namespaces.analyses.views import Line, NodeView, QuantityView, RankTime, TaskView, Views
from chimbuko.observe.namespaces.exchange.leaves import Leaf, elements
from chimbuko.observe.namespaces.exchange.namespacereader import Observation
from chimbuko.observe.namespaces.exchange.paths import Path, format_path

MOST_POINTS = 256
_Point = tuple[int, float]


class Points:
    """Curve with a bounded number of points: times and values in the order in which they came.

    Where there are too many, the least and the largest of each four successive points stay, so that
    no peak is lost. What is not a number stands out more than any number.
    """

    def __init__(self) -> None:
        self._points: list[_Point] = []

    def add(self, time_us: int, value: float) -> None:
        """Add a point."""
        if len(self._points) == MOST_POINTS:
            self._points = _thinned(self._points)
        self._points.append((time_us, value))

    @property
    def times_us(self) -> list[int]:
        """Return the times of the points, in µs since the epoch."""
        return [time_us for time_us, _ in self._points]

    @property
    def values(self) -> list[float | None]:
        """Return the values of the points; None stands for a value that is no finite number."""
        return [value if math.isfinite(value) else None for _, value in self._points]


def _thinned(points: Sequence[_Point]) -> list[_Point]:
    fours = (points[at : at + 4] for at in range(0, len(points), 4))
    return [point for four in fours for point in _extremes(four)]


def _extremes(points: Sequence[_Point]) -> list[_Point]:
    if len(points) <= 2:
        return list(points)
    at = range(len(points))
    most = max(at, key=lambda place: _height(points[place][1]))
    least = min((place for place in at if place != most), key=lambda place: _height(points[place][1]))
    return [points[place] for place in sorted((least, most))]


def _height(value: float) -> float:
    return math.inf if math.isnan(value) else value


MOST_TASKS = 2000
MOST_NODES = 500
MOST_LINES = 2000
"""Most lines of charts, over all quantities of a namespace."""
MOST_STATES = 64
"""Most states kept of one task, the newest ones, as a task may be tried again and again."""
BEGUN = "EXECUTING"
"""State of a running task; RADICAL-Pilot's event ``rank_start`` gives its beginning more exactly."""


class Gathered:
    """Data of charts, from the observations taken so far."""

    def __init__(self) -> None:
        self._tasks: dict[str, _Task] = {}
        self._ticks: dict[str, Ticks] = {}
        self._nodes: dict[str, Points] = {}
        self._mpi = MpiTimes()
        self._lines: dict[tuple[str, Path], dict[int, Points]] = defaultdict(dict)
        self._line_counts: Counter[str] = Counter()
        self._left_out = 0

    def take(self, observation: Observation) -> None:
        """Add an observation; those of one leaf come in the order of time."""
        for path, leaf in observation.change.put.items():
            match observation.namespace:
                case "workflow":
                    self._take_task(path, leaf)
                case "hardware":
                    self._take_sample(path, leaf, observation.time_us)
                case "performance":
                    self._mpi.take(path, leaf)
            self._take_number(observation, path, leaf)

    @property
    def views(self) -> Views:
        """Return the data of all charts as of now."""
        return Views(
            [task.view(name) for name, task in self._tasks.items() if task.states],
            [NodeView(node, points.times_us, points.values) for node, points in sorted(self._nodes.items())],
            [
                RankTime(program, rank, time_us)
                for program, of_ranks in self._mpi.of_programs.items()
                for rank, time_us in of_ranks.items()
            ],
            [
                QuantityView(
                    namespace,
                    format_path(path),
                    [Line(rank, points.times_us, points.values) for rank, points in sorted(ranks.items())],
                )
                for (namespace, path), ranks in sorted(self._lines.items())
            ],
            self._left_out,
        )

    def _take_task(self, path: Path, leaf: Leaf) -> None:
        if len(path) < 2:
            return
        if path[0] not in self._tasks and len(self._tasks) == MOST_TASKS:
            self._left_out += 1
            return
        self._tasks.setdefault(path[0], _Task()).take(path[1:], leaf)

    def _take_sample(self, path: Path, leaf: Leaf, time_us: int) -> None:
        sample = sample_of(path, leaf)
        if sample is None:
            return
        node, ticks = sample
        before = self._ticks.get(node)
        self._ticks[node] = ticks
        # Fewer ticks than before: the machine was booted anew.
        if before is not None and ticks[0] > before[0]:
            if node not in self._nodes and len(self._nodes) == MOST_NODES:
                self._left_out += 1
                return
            self._nodes.setdefault(node, Points()).add(time_us, percent(before, ticks))

    def _take_number(self, observation: Observation, path: Path, leaf: Leaf) -> None:
        if isinstance(leaf, str) or elements(leaf).size != 1:
            return
        rank, rest = of_rank(path, observation.rank)
        points = self._lines.get((observation.namespace, rest), {}).get(rank)
        if points is None:
            if self._line_counts[observation.namespace] == MOST_LINES:
                self._left_out += 1
                return
            self._line_counts[observation.namespace] += 1
            points = self._lines[observation.namespace, rest].setdefault(rank, Points())
        points.add(observation.time_us, float(elements(leaf).ravel()[0]))


class _Task:
    def __init__(self) -> None:
        self.states: dict[int, str] = {}
        self._facts: dict[str, Leaf] = {}

    def take(self, path: Path, leaf: Leaf) -> None:
        match path:
            case ("states", time) if isinstance(leaf, str):
                self._enter(time, leaf)
            case ("events", time) if leaf in ("rank_start", "exec_start"):
                self._enter(time, BEGUN)
            case ("program" | "nodes" | "ranks" | "cores" | "attempt" | "exit_code" | "reason" as name,):
                self._facts[name] = leaf

    def view(self, name: str) -> TaskView:
        nodes = self._text("nodes")
        code = self._facts.get("exit_code")
        return TaskView(
            name,
            sorted(self.states.items()),
            self._text("program"),
            nodes.split(",") if nodes else [],
            self._number("ranks"),
            self._number("cores"),
            self._number("attempt"),
            None if code is None else self._number("exit_code"),
            self._text("reason"),
        )

    def _enter(self, time: str, state: str) -> None:
        with suppress(ValueError, OverflowError):
            time_us = round(float(time) * 1e6)
            # Each of a thousand ranks reports its beginning: the earliest counts, in whatever order they
            # arrive.
            before_us = max((one for one in self.states if one <= time_us), default=time_us)
            if self.states.get(before_us) == state:
                return
            after_us = min((one for one in self.states if one > time_us), default=time_us)
            if self.states.get(after_us) == state:
                del self.states[after_us]
            self.states[time_us] = state
            while len(self.states) > MOST_STATES:
                del self.states[min(self.states)]

    def _text(self, name: str) -> str:
        found = self._facts.get(name, "")
        return found if isinstance(found, str) else ""

    def _number(self, name: str) -> int:
        found = self._facts.get(name, 0)
        return 0 if isinstance(found, str) or elements(found).size != 1 else int(elements(found).ravel()[0])
