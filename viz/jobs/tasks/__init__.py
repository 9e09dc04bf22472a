"""All long questions."""

from __future__ import annotations

from chimbuko.viz.jobs.tasks import comparison, exports, traceindex

TASKS = {task.name: task for task in (comparison.comparison, exports.exported, traceindex.trace_index)}
