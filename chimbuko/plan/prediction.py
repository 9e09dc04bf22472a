"""Time of a workflow with its tasks inside the application, beside it, or both (equations 3 to 9), and the
placement that takes least.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from chimbuko.core.errors import ConfigError
from chimbuko.plan.normalform import INTERVAL, PerformanceModel
from chimbuko.plan.workflow import Group, Placement, Task, Workflow

EFFICIENT = 0.8
"""Parallel efficiency that each side of a placement should have: below it, resources are better used
elsewhere.
"""


@dataclass(frozen=True)
class Side:
    """Parts that run one after the other on the same resources."""

    name: str
    """``application``, or the group."""
    step_s: float
    """Seconds for a step of the application, on average over all of its tasks."""
    init_s: float
    final_s: float
    efficiency: float
    """Parallel efficiency of the resources that it has: 1 where the model's time falls as they grow."""


@dataclass(frozen=True)
class Prediction:
    """Prediction for one placement."""

    placement: Placement
    approach: str
    step_s: float
    """Seconds per step while all goes on."""
    total_s: float
    """Seconds for the whole workflow."""
    bare_step_s: float
    """Seconds per step of the application with all resources and no task."""
    application: Side
    groups: tuple[Side, ...]
    transfer_s: float
    """All transfers together."""
    clamps: tuple[str, ...]
    """Points at which a model was asked for what it does not stand for, in words."""

    @property
    def bound_by(self) -> str:
        """The side that all others wait for."""
        return max((self.application, *self.groups), key=lambda side: side.step_s).name

    @property
    def inefficient(self) -> tuple[str, ...]:
        """Names of the sides whose parallel efficiency is below ``EFFICIENT``."""
        sides = (self.application, *self.groups)
        return tuple(side.name for side in sides if side.efficiency < EFFICIENT)


@dataclass
class _Asked:
    """Answers of models, and what was clamped."""

    clamps: dict[str, None]

    def time_s(self, about: str, model: PerformanceModel, point: Mapping[str, float]) -> float:
        estimate = model.at(point)
        self.clamps.update((f"{about}: {clamp}", None) for clamp in estimate.clamps)
        return estimate.time_s


def predict(workflow: Workflow, placement: Placement) -> Prediction:
    """Return the general equation (9), of which (4) is that without groups, (5) and (7) those with one.

    A step of the application takes what the slowest side takes: its own work with all synchronous tasks, or a
    group's tasks, which it shares with the other groups that take turns with it. Until the first data comes
    groups do nothing, after the last step each still has its last data, and a transfer holds up both sides.

    Raises
    ------
    ConfigError
        A parameter of a model has no value.
    """
    asked = _Asked({})
    point = workflow.application_point(placement.taken)
    tasks = {task.name: task for task in workflow.tasks}
    application = _application_side(workflow, placement, asked)
    sides = tuple(_group_side(workflow, group, tasks, asked) for group in placement.groups)
    step_s = max(side.step_s for side in (application, *sides))
    # Nothing runs on groups before the first data comes; the slowest of them sets how long that is.
    periods = [tasks[name].every * group.count for group in placement.groups for name in group.tasks]
    first = min(max(periods, default=0), workflow.steps)
    last_s = [_last_s(workflow, group, tasks, asked) for group in placement.groups]
    begin_s = max([application.init_s + first * application.step_s, *(side.init_s for side in sides)])
    end_s = max([application.final_s, *(a + b.final_s for a, b in zip(last_s, sides, strict=True))])
    transfer_s = sum(
        workflow.steps / tasks[name].every * _transfer_s(tasks[name], workflow, group, point, asked)
        for group in placement.groups
        for name in group.tasks
    )
    bare = workflow.application.step.at(workflow.application_point(0)).time_s
    return Prediction(
        placement,
        placement.approach(workflow.tasks),
        step_s + transfer_s / workflow.steps,
        begin_s + (workflow.steps - first) * step_s + end_s + transfer_s,
        bare,
        application,
        sides,
        transfer_s,
        tuple(asked.clamps),
    )


def interval(workflow: Workflow, placement: Placement) -> tuple[float, float] | None:
    """Interval of the whole time in seconds, 95 %, by bootstrap; None if no model was fitted to
    measurements.
    """
    if not workflow.replicates:
        return None
    totals = [predict(workflow.replicate(number), placement).total_s for number in range(workflow.replicates)]
    low, high = np.quantile(totals, INTERVAL)
    return float(low), float(high)


def _application_side(workflow: Workflow, placement: Placement, asked: _Asked) -> Side:
    point = workflow.application_point(placement.taken)
    inside = placement.synchronous(workflow.tasks)
    phases = workflow.application
    step_s = asked.time_s("application", phases.step, point) + _rates(inside, point, 1, asked)
    return Side(
        "application",
        step_s,
        asked.time_s("application at its beginning", phases.init, point)
        + sum(asked.time_s(f"{task.name} at its beginning", task.phases.init, point) for task in inside),
        asked.time_s("application at its end", phases.final, point)
        + sum(asked.time_s(f"{task.name} at its end", task.phases.final, point) for task in inside),
        _efficiency([(phases.step, 1.0)], workflow.parameter, point),
    )


def _group_side(workflow: Workflow, group: Group, tasks: Mapping[str, Task], asked: _Asked) -> Side:
    point = _group_point(workflow, group)
    own = [tasks[name] for name in group.tasks]
    return Side(
        str(group),
        _rates(own, point, group.count, asked),
        sum(asked.time_s(f"{task.name} at its beginning", task.phases.init, point) for task in own),
        sum(asked.time_s(f"{task.name} at its end", task.phases.final, point) for task in own),
        _efficiency([(task.phases.step, 1.0 / task.every) for task in own], workflow.parameter, point),
    )


def _group_point(workflow: Workflow, group: Group) -> dict[str, float]:
    return {**workflow.constants, workflow.parameter: float(group.size)}


def _rates(tasks: Sequence[Task], point: Mapping[str, float], count: int, asked: _Asked) -> float:
    """Seconds per step of the application that each of ``count`` groups spends on these tasks."""
    return sum(asked.time_s(task.name, task.phases.step, point) / (task.every * count) for task in tasks)


def _last_s(workflow: Workflow, group: Group, tasks: Mapping[str, Task], asked: _Asked) -> float:
    """Seconds that are left for the data of the last step."""
    point = _group_point(workflow, group)
    return sum(asked.time_s(name, tasks[name].phases.step, point) for name in group.tasks)


def _transfer_s(
    task: Task, workflow: Workflow, group: Group, point: Mapping[str, float], asked: _Asked
) -> float:
    both = {**point, "writers": point[workflow.parameter], "readers": float(group.size)}
    return asked.time_s(f"transfer of {task.name}", task.transfer, both)


def _efficiency(
    models: Sequence[tuple[PerformanceModel, float]], parameter: str, point: Mapping[str, float]
) -> float:
    """Return the efficiency against the fewest resources for which the models stand: T(p0)·p0 / (T(p)·p).

    Where more resources need less time together, as caches then hold more, it is 1.
    """
    lows = [model.ranges[parameter][0] for model, _ in models if parameter in model.ranges]
    fewest = min(max(lows, default=1.0), point[parameter])
    few_s = sum(share * model.at({**point, parameter: fewest}).time_s for model, share in models)
    now_s = sum(share * model.at(point).time_s for model, share in models)
    return min(1.0, few_s * fewest / (now_s * point[parameter])) if now_s else 1.0


# Placement that takes least, among all of them, predicted.


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
