"""Application with in-situ tasks, and the resources on which each runs: the subject of predictions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chimbuko.core.errors import ConfigError
from chimbuko.plan.normalform import ZERO, PerformanceModel

NOTHING = PerformanceModel(ZERO)
_WORD = re.compile(r"([\w.+-]+)=(?:(sync)|(?:(\d+)x)?(\d+))")


@dataclass(frozen=True)
class Phases:
    """Models of a part's time at its beginning, each time, and at its end."""

    step: PerformanceModel
    init: PerformanceModel = NOTHING
    final: PerformanceModel = NOTHING

    def replicate(self, number: int) -> Phases:
        """Return the phases with models as they could have come out as well."""
        models = (self.step, self.init, self.final)
        return Phases(*(model.replicate(number) for model in models))


@dataclass(frozen=True)
class Task:
    """An in-situ task."""

    name: str
    phases: Phases
    every: int
    """Steps of the application from one execution to the next: 1/v."""
    transfer: PerformanceModel = NOTHING
    """Model of one transfer to a group, by ``writers``, ``readers`` and constants; the application waits."""


@dataclass(frozen=True)
class Workflow:
    """An application of so many steps, its tasks, and what can be divided among them."""

    steps: int
    application: Phases
    tasks: tuple[Task, ...]
    parameter: str
    """Name of the parameter whose values are divided, such as ``ranks``."""
    total: int
    """Value of ``parameter`` for application and groups together."""
    constants: Mapping[str, float] = field(default_factory=dict)
    """Values of all other parameters."""
    application_constants: Mapping[str, float] = field(default_factory=dict)
    """Constants of the application alone. If ``parameter`` is among them, groups are on resources beside it.
    """

    def application_point(self, taken: int) -> dict[str, float]:
        """Return the point at which models of the application are asked, which has what groups leave."""
        left = {self.parameter: float(self.total - taken)}
        return {**self.constants, **left, **self.application_constants}

    @property
    def replicates(self) -> int:
        """Number of replicates of its models; 0 if all coefficients are published ones."""
        models = [self.application, *(task.phases for task in self.tasks)]
        return max(len(model.replicates) for one in models for model in (one.step, one.init, one.final))

    def replicate(self, number: int) -> Workflow:
        """Return the workflow with models as they could have come out as well."""
        tasks = tuple(
            Task(task.name, task.phases.replicate(number), task.every, task.transfer.replicate(number))
            for task in self.tasks
        )
        rest = (self.parameter, self.total, self.constants, self.application_constants)
        return Workflow(self.steps, self.application.replicate(number), tasks, *rest)


@dataclass(frozen=True)
class Group:
    """Groups of resources that take turns with the same tasks."""

    tasks: tuple[str, ...]
    size: int
    """Size of each group."""
    count: int = 1

    @property
    def taken(self) -> int:
        """Resources that all groups take together."""
        return self.size * self.count

    def __str__(self) -> str:
        times = f"{self.count}x" if self.count > 1 else ""
        return f"{'+'.join(self.tasks)}={times}{self.size}"


@dataclass(frozen=True)
class Placement:
    """Tasks that run on groups of their own; all others run inside the application, on its resources."""

    groups: tuple[Group, ...] = ()

    @property
    def taken(self) -> int:
        """Resources that the application does not have."""
        return sum(group.taken for group in self.groups)

    def synchronous(self, tasks: Sequence[Task]) -> tuple[Task, ...]:
        """Tasks inside of the application."""
        elsewhere = {name for group in self.groups for name in group.tasks}
        return tuple(task for task in tasks if task.name not in elsewhere)

    def approach(self, tasks: Sequence[Task]) -> str:
        """``synchronous``, ``asynchronous`` or ``hybrid``."""
        if not self.groups:
            return "synchronous"
        return "hybrid" if self.synchronous(tasks) else "asynchronous"

    def __str__(self) -> str:
        return " ".join(map(str, self.groups)) or "all=sync"


def parse_placement(text: str, workflow: Workflow) -> Placement:
    """Return a placement as it is written: ``images=2x48``, ``images+filter=48 statistics=sync``,
    ``all=sync``.

    Raises
    ------
    ConfigError
        It is none of this workflow, or there is no room for it.
    """
    known = {task.name for task in workflow.tasks}
    groups: list[Group] = []
    seen: list[str] = []
    for word in text.split():
        match = _WORD.fullmatch(word)
        if match is None:
            raise ConfigError(
                f"{word!r}: not a placement; give TASK=sync, TASK=48, TASK=2x48 or TASK+TASK=48"
            )
        names = tuple(match[1].split("+"))
        seen += names
        if match[2] is None:
            groups.append(Group(names, int(match[4]), int(match[3] or 1)))
    for name in seen:
        if name not in known and seen != ["all"]:
            raise ConfigError(f"placement {text!r}: no task '{name}'; tasks are {', '.join(sorted(known))}")
        if seen.count(name) > 1:
            raise ConfigError(f"placement {text!r}: '{name}' is placed twice")
    if seen == ["all"] and groups:
        groups = [Group(tuple(task.name for task in workflow.tasks), groups[0].size, groups[0].count)]
    placement = Placement(tuple(groups))
    check_room(placement, workflow)
    return placement


def check_room(placement: Placement, workflow: Workflow) -> None:
    """Raises ConfigError where groups take nothing, or more than there is."""
    if any(not group.taken for group in placement.groups):
        raise ConfigError(f"placement '{placement}': a group has 1 of '{workflow.parameter}' at least")
    room = workflow.total - (workflow.parameter not in workflow.application_constants)
    if placement.taken > room:
        raise ConfigError(
            f"placement '{placement}' takes {placement.taken} of {workflow.total} {workflow.parameter}; "
            f"there is room for {room}"
        )
