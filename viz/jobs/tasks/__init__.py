"""All long questions.

May import calls, process, provenance.export, provenance.query, provenance.timeline, runs, viz.api and
viz.api.endpoints.
"""

from __future__ import annotations

from chimbuko.viz.jobs.tasks import comparison, exports, traceindex

TASKS = {task.name: task for task in (comparison.comparison, exports.exported, traceindex.trace_index)}
