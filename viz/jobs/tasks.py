"""All long questions."""

from __future__ import annotations

from chimbuko.viz.jobs.task import Task

_ALL: tuple[Task, ...] = ()

TASKS = {task.name: task for task in _ALL}
