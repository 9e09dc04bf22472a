"""Where long questions are: variables of the environment, and keys at the broker beside Celery's."""

from __future__ import annotations

from chimbuko.protocol.keys import JOBS

JOBS_VARIABLE = "CHIMBUKO_JOBS_BROKER"
"""Environment variable with the URL of the broker of long questions."""
FOLDER_VARIABLE = "CHIMBUKO_JOBS_FOLDER"
"""Environment variable with the folder that a dashboard shares with workers elsewhere."""
PREFIX = JOBS
QUEUE = "questions"
LEFT_BEHIND = tuple(
    PREFIX + key
    for key in (
        QUEUE,
        f"_kombu.binding.{QUEUE}",
        f"_kombu.binding_permanent.{QUEUE}",
        "_kombu.binding_deadlines",
        "unacked",
        "unacked_index",
        "unacked_mutex",
    )
)
"""Keys that do not lapse by themselves."""


def wanted_key(job: str) -> str:
    """Key that is there as long as a page waits for the answer."""
    return f"{PREFIX}wanted:{job}"


def alive_key(job: str) -> str:
    """Key that is there as long as a worker works on the answer."""
    return f"{PREFIX}alive:{job}"


def answered_key(digest: str) -> str:
    """Key with the job that answered this question last, and when."""
    return f"{PREFIX}answered:{digest}"
