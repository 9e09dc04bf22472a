"""All long questions."""

from __future__ import annotations

from chimbuko.viz.jobs.comparisontask import comparison
from chimbuko.viz.jobs.exporttasks import exported
from chimbuko.viz.jobs.traceindextask import trace_index

TASKS = {task.name: task for task in (comparison, exported, trace_index)}
