"""Workflows: several programs that run one after the other or side by side, as dependent tasks.

May import monitor.procfs, observe.namespaces.client, observe.namespaces.exchange, runtime.process,
runtime.protocol and runtime.runs.

With ``task_started`` and ``task_ended`` a user's own workflow engine reports what ``chimbuko workflow``
reports of its tasks.
"""

from chimbuko.observe.workflow.record import task_ended, task_started

__all__ = ["task_ended", "task_started"]
