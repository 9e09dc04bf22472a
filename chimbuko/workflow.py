"""Reports of a user's own workflow engine about its tasks; see ``chimbuko.observe.workflow``."""

from chimbuko.observe.workflow import task_ended, task_started

__all__ = ["task_ended", "task_started"]
