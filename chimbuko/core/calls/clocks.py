"""Differences of the ranks' clocks, estimated from messages: none is received before it was sent.

Each message from one clock to another bounds their difference from one side, those in the other direction
from the other. The lines that respect all bounds form a polygon: difference at the beginning, and at the end.
Of these the one nearest to equal clocks is taken, so that nothing is corrected without need.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

Rank = tuple[int, int]
"""Program and rank."""
Clock = Rank | str
"""Clock of a node, or of a rank where all ranks are on one node."""
Point = tuple[float, float]
"""Difference of two clocks in µs at the first and at the last time."""
Bound = tuple[int, float]
"""Time in µs, and the least difference of a message's two times there."""

TOLERANCE_US = 200
"""Time in µs by which a message may be received before it was sent: times are taken near the event, not at
it.
"""
MOST_APART_US = 1_000_000
"""Difference in µs beyond which two ends are not taken for one message: clocks are never as far apart."""
MOST_DRIFT = 1e-3
"""Maximum relative error of a clock's speed."""
MOST_BOUNDS = 64
"""Maximum number of bounds kept for messages from one rank to another: the closest one of each stretch of
time.
"""
MOST_PAIRS = 20_000
"""Maximum number of pairs of ranks for which bounds are kept; 200 MB at most, and 4 kB for each pair."""
LEAST_VIOLATIONS = 2


class Bounds:
    """Closest bounds that messages from one rank to another give, a few over all of the time."""

    def __init__(self) -> None:
        self._closest: dict[int, Bound] = {}
        self._width_us = 1 << 16

    def add(self, time_us: int, difference_us: float) -> None:
        """Add a message that was received ``difference_us`` after it was sent, by the two clocks."""
        self._keep((time_us, difference_us))
        while len(self._closest) > MOST_BOUNDS:
            self._width_us *= 2
            kept, self._closest = list(self._closest.values()), {}
            for bound in kept:
                self._keep(bound)

    def _keep(self, bound: Bound) -> None:
        stretch = bound[0] // self._width_us
        if stretch not in self._closest or bound[1] < self._closest[stretch][1]:
            self._closest[stretch] = bound

    def all(self) -> list[Bound]:
        """Return all bounds in order of time."""
        return sorted(self._closest.values())


class Line(msgspec.Struct, frozen=True):
    """Offset of a clock from the reference, as it drifts."""

    begin_us: int
    end_us: int
    first_us: float
    last_us: float
    uncertain_us: float = 0.0
    """Uncertainty of the offset in µs."""

    def at(self, time_us: float) -> float:
        """Return the offset in µs at a time, also beyond the interval."""
        length_us = self.end_us - self.begin_us
        share = (time_us - self.begin_us) / length_us if length_us else 0.0
        return self.first_us + share * (self.last_us - self.first_us)


class Clocks:
    """Bounds of the clocks of all ranks, and corrections where they contradict each other."""

    def __init__(self) -> None:
        self._nodes: dict[Rank, str] = {}
        self._names: set[str] = set()
        self._bounds: dict[tuple[Rank, Rank], Bounds] = {}
        self._lines: dict[Clock, Line] = {}
        self._violations = 0

    def put_rank(self, program: int, rank: int, node: str) -> None:
        """Note that a rank is on a node, whose clock it has."""
        self._nodes[program, rank] = node
        self._names.add(node)

    def add(self, sender: Rank, sent_us: int, receiver: Rank, received_us: int) -> None:
        """Add a message, with the times of its ends on their ranks' own clocks."""
        difference_us = received_us - sent_us
        pair = sender, receiver
        if sender == receiver or difference_us < -MOST_APART_US:
            return
        if pair not in self._bounds and len(self._bounds) >= MOST_PAIRS:
            return
        self._bounds.setdefault(pair, Bounds()).add(sent_us, difference_us)
        lead_us = self.ahead_us(*receiver, received_us) - self.ahead_us(*sender, sent_us)
        self._violations += difference_us - lead_us < -TOLERANCE_US

    def ahead_us(self, program: int, rank: int, time_us: int) -> float:
        """Return by how much a rank's clock is ahead of the others', at a time that it shows."""
        line = self._lines.get(self._clock((program, rank))) if self._lines else None
        return 0.0 if line is None else line.at(time_us)

    def uncertain_us(self, program: int, rank: int) -> float:
        """Return the uncertainty of that offset in µs; 0 if nothing had to be corrected."""
        line = self._lines.get(self._clock((program, rank))) if self._lines else None
        return 0.0 if line is None else line.uncertain_us

    def update(self) -> bool:
        """Correct the clocks anew, if messages have come that contradict the corrections; return whether they
        changed.
        """
        if self._violations < LEAST_VIOLATIONS:
            return False
        self._violations = 0
        pooled: dict[tuple[Clock, Clock], list[Bound]] = defaultdict(list)
        for (sender, receiver), bounds in self._bounds.items():
            ends = self._clock(sender), self._clock(receiver)
            if ends[0] != ends[1]:
                pooled[ends] += bounds.all()
        self._lines = corrections(pooled)
        return True

    def _clock(self, rank: Rank) -> Clock:
        return self._nodes.get(rank, "") if len(self._names) > 1 else rank


def corrections(bounds: dict[tuple[Clock, Clock], list[Bound]]) -> dict[Clock, Line]:
    """Return by how much each clock is ahead, from bounds of messages from one clock to another.

    The first clock of each set that exchanged messages is right by definition. Clocks follow from each other
    along the pairs whose messages leave the least freedom.
    """
    times = [time_us for of_pair in bounds.values() for time_us, _ in of_pair]
    begin_us, end_us = min(times, default=0), max(times, default=0)
    lines: dict[Clock, dict[Clock, tuple[Line, float]]] = defaultdict(dict)
    for one, other in {(min(pair, key=str), max(pair, key=str)) for pair in bounds}:
        above, below = bounds.get((one, other), []), bounds.get((other, one), [])
        line = difference(above, below, begin_us, end_us)
        lines[one][other] = line, 1.0
        lines[other][one] = line, -1.0
    found: dict[Clock, Line] = {}
    for first in sorted(lines, key=str):
        if first not in found:
            found[first] = Line(begin_us, end_us, 0.0, 0.0)
            _follow(first, lines, found)
    return found


def _follow(
    first: Clock, lines: dict[Clock, dict[Clock, tuple[Line, float]]], found: dict[Clock, Line]
) -> None:
    def ways(clock: Clock) -> Iterable[tuple[float, str, Clock, Clock]]:
        return ((line.uncertain_us, str(to), clock, to) for to, (line, _) in lines[clock].items())

    queue = list(ways(first))
    heapq.heapify(queue)
    while queue:
        *_, clock, to = heapq.heappop(queue)
        if to in found:
            continue
        (step, sign), before = lines[clock][to], found[clock]
        found[to] = Line(
            before.begin_us,
            before.end_us,
            before.first_us + sign * step.first_us,
            before.last_us + sign * step.last_us,
            before.uncertain_us + step.uncertain_us,
        )
        for way in ways(to):
            heapq.heappush(queue, way)


def difference(above: Sequence[Bound], below: Sequence[Bound], begin_us: int, end_us: int) -> Line:
    """Return by how much one clock is ahead of another.

    Parameters
    ----------
    above
        Bounds by messages to the clock: it is ahead by no more.
    below
        Bounds by messages from it: it is behind by no more.
    begin_us, end_us
        Interval in which the difference is a straight line.
    """
    length_us = end_us - begin_us
    most_us = MOST_DRIFT * length_us
    # p * first + q * last <= most, for each bound.
    limits = [(-1.0, 1.0, most_us), (1.0, -1.0, most_us)]
    for sign, of_side in ((1.0, above), (-1.0, below)):
        for time_us, difference_us in of_side:
            share = (time_us - begin_us) / length_us if length_us else 0.0
            limits.append((sign * (1.0 - share), sign * share, difference_us))
    slack_us = float(TOLERANCE_US)
    while not (left := _left(limits, slack_us)):
        # The clocks drift unevenly, or ends of different messages were paired.
        slack_us *= 2
    first_us, last_us = _nearest(left)
    reach_us = max(max(abs(x - first_us), abs(y - last_us)) for x, y in left)
    return Line(begin_us, end_us, first_us, last_us, reach_us)


def _left(limits: Sequence[tuple[float, float, float]], slack_us: float) -> list[Point]:
    """Return the corners of the area that all limits leave; none if it is empty."""
    size = 2.0 * MOST_APART_US
    corners = [(-size, -size), (size, -size), (size, size), (-size, size)]
    for p, q, most in limits:
        corners = _cut(corners, p, q, most + slack_us)
        if not corners:
            break
    return corners


def _cut(corners: list[Point], p: float, q: float, most: float) -> list[Point]:
    """Return the part of a convex polygon where ``p x + q y <= most``."""
    kept: list[Point] = []
    over = [p * x + q * y - most for x, y in corners]
    for at, (x, y) in enumerate(corners):
        if over[at] <= 0:
            kept.append((x, y))
        following = (at + 1) % len(corners)
        if (over[at] <= 0) != (over[following] <= 0):
            share = over[at] / (over[at] - over[following])
            other_x, other_y = corners[following]
            kept.append((x + share * (other_x - x), y + share * (other_y - y)))
    return kept


def _nearest(corners: Sequence[Point]) -> Point:
    """Return the point of a convex polygon, given counter-clockwise, that is nearest to the origin."""
    sides = list(pairwise([*corners, corners[0]]))
    if all(x * (v - y) - y * (u - x) >= 0 for (x, y), (u, v) in sides):
        return 0.0, 0.0
    return min((_nearest_of_side(*side) for side in sides), key=lambda point: point[0] ** 2 + point[1] ** 2)


def _nearest_of_side(one: Point, other: Point) -> Point:
    (x, y), (u, v) = one, other
    length = (u - x) ** 2 + (v - y) ** 2
    share = min(1.0, max(0.0, -(x * (u - x) + y * (v - y)) / length)) if length else 0.0
    return x + share * (u - x), y + share * (v - y)
