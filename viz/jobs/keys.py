"""Environment variables and keys at the broker of long questions, beside Celery's."""

from __future__ import annotations

JOBS_VARIABLE = "CHIMBUKO_JOBS_BROKER"
"""Environment variable with the URL of the broker of long questions."""
FOLDER_VARIABLE = "CHIMBUKO_JOBS_FOLDER"
"""Environment variable with the folder that a dashboard shares with workers elsewhere."""
PREFIX = "{chimbuko}:jobs:"
"""Prefix of all keys. It names no run, as workers that somebody started answer for all dashboards at their
broker.
"""
QUEUE = "questions"


WORKERS = PREFIX + "workers"
"""Key that is there as long as a worker is."""


def wanted_key(job: str) -> str:
    """Return the key that is there as long as a page waits for the answer."""
    return f"{PREFIX}wanted:{job}"


def alive_key(job: str) -> str:
    """Return the key that is there as long as a worker works on the answer."""
    return f"{PREFIX}alive:{job}"


def answered_key(digest: str) -> str:
    """Return the key with the job that answered this question last, and the time."""
    return f"{PREFIX}answered:{digest}"
