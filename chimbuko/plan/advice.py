"""Placement that takes least, among all of them, predicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from chimbuko.core.errors import ConfigError
from chimbuko.plan.prediction import Prediction, interval, predict
from chimbuko.plan.workflow import Group, Placement, Workflow

MOST_GROUPS = 4
"""Most groups that take turns with the same tasks."""
MOST_PLACEMENTS = 100_000
AS_GOOD = 0.02
"""Share by which a placement may be slower than the fastest and is as good: predictions are no better."""


@dataclass(frozen=True)
class Advice:
    """All placements, the recommended one first.

    First come those that are as good as the fastest, in the order of what they take; then the others, the
    faster first.
    """

    ranked: tuple[Prediction, ...]
    interval_s: tuple[float, float] | None
    """Interval of the best placement's total in seconds, 95 %; None if no model was fitted to
    measurements.
    """

    @property
    def least_s(self) -> float:
        """Total of the fastest placement, in seconds."""
        return min(one.total_s for one in self.ranked)

    @property
    def best(self) -> Prediction:
        """The recommendation."""
        return self.ranked[0]


def advise(workflow: Workflow, sizes: Sequence[int] = ()) -> Advice:
    """Predict all placements.

    Parameters
    ----------
    sizes
        That groups may have; by default powers of two, and all that groups may take.

    Of those that are as good as the fastest, those without an inefficient side come first; of these the one
    with the fewest resources for tasks, then that which keeps tasks apart, then that with the fewest groups.

    Raises
    ------
    ConfigError
        There are too many placements, or a parameter of a model has no value.
    """
    predictions = [predict(workflow, placement) for placement in placements(workflow, sizes)]
    least_s = min(prediction.total_s for prediction in predictions)

    def order(one: Prediction) -> tuple[float, ...]:
        rounded_s = _rounded(one.total_s, least_s)
        return rounded_s, bool(one.inefficient), *_effort(one.placement), one.total_s

    ranked = sorted(predictions, key=order)
    return Advice(tuple(ranked), interval(workflow, ranked[0].placement))


def placements(workflow: Workflow, sizes: Sequence[int] = ()) -> list[Placement]:
    """Return all that there is room for, that with all tasks inside the application first.

    Raises
    ------
    ConfigError
        There are too many.
    """
    room = workflow.total - (workflow.parameter not in workflow.application_constants)
    allowed = [size for size in sorted(set(sizes or _usual_sizes(room))) if 0 < size <= room]
    shapes = [
        (size, count) for size in allowed for count in range(1, MOST_GROUPS + 1) if size * count <= room
    ]
    found: list[Placement] = []
    for blocks in _divisions([task.name for task in workflow.tasks]):
        if len(shapes) ** len(blocks) > MOST_PLACEMENTS:
            raise ConfigError(
                f"{len(workflow.tasks)} tasks with {len(allowed)} sizes of groups are too many placements; "
                "give fewer sizes (group_sizes), or fewer tasks"
            )
        for chosen in product(shapes, repeat=len(blocks)):
            groups = tuple(
                Group(tasks, size, count) for tasks, (size, count) in zip(blocks, chosen, strict=True)
            )
            if sum(group.taken for group in groups) <= room:
                found.append(Placement(groups))
    return found


def _usual_sizes(room: int) -> list[int]:
    return [2**power for power in range(room.bit_length()) if 2**power <= room] + [room] * (room > 0)


def _divisions(names: Sequence[str]) -> Iterator[list[tuple[str, ...]]]:
    """Yield each way to run some of the tasks inside, and to divide the others among groups."""
    if not names:
        yield []
        return
    for rest in _divisions(names[1:]):
        yield rest
        yield [(names[0],), *rest]
        for at, block in enumerate(rest):
            yield [*rest[:at], (names[0], *block), *rest[at + 1 :]]


def _rounded(total_s: float, least_s: float) -> float:
    """Return the least time for one that is as good."""
    return least_s if total_s <= least_s * (1 + AS_GOOD) else total_s


def _effort(placement: Placement) -> tuple[int, int, int]:
    merged = sum(len(group.tasks) - 1 for group in placement.groups)
    return placement.taken, merged, sum(group.count for group in placement.groups)
