"""Celery application between servers and workers, with its questions and replies."""

from __future__ import annotations

import hashlib
from typing import TypedDict

import msgspec
from celery import Celery

from chimbuko.runtime.protocol.celeryapp import celery_app, celery_url
from chimbuko.viz.jobs.keys import PREFIX, QUEUE

ANSWER = "chimbuko.answer"
"""Name of the one Celery task, which answers a ``Question``."""

LARGEST_EVENT_BYTES = 65_536
"""Largest answer that is sent as an event; larger ones, which would hold up the frames that share a page's
link, are fetched.
"""
LONGEST_S = 600
"""Longest time in seconds for a question; longer ones are better asked in the terminal."""
TOO_LONG = f"Stopped after {LONGEST_S // 60} min. Narrow the question, or use the terminal."
KEPT_S = 60
"""Time in seconds for which answers are kept, for a page whose link was lost."""
WANTED_S = 10
"""Time in seconds after the last sign of a waiting page at which a question is given up."""
ALIVE_S = 5
"""Time in seconds of silence after which a worker counts as dead. While it works it speaks four times a
second, but for moments in which compiled code lets no other thread run.
"""


class Question(msgspec.Struct, frozen=True):
    """Question to a worker."""

    name: str
    """Name of the task."""
    parameters: dict[str, object]
    run: str
    """Folder of the run."""
    folder: str
    """Folder that contains the jobs' folders, which server and workers share."""
    channel: str
    """Channel of the message queue on which pages get progress and answer."""
    asked_s: float
    """Time of the question, in seconds since the epoch."""

    @property
    def digest(self) -> str:
        """Digest of the question, the same for the same question."""
        asked = (self.name, self.parameters, self.run, self.folder)
        return hashlib.sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()


class Reply(TypedDict):
    """End of a question, as Celery keeps it."""

    answer: str | None
    """Answer as JSON; None if it is too large for an event, and is fetched by HTTP."""
    sentence: str | None
    """Error in one sentence for the user."""
    job: str
    """Id of the job whose folder holds the answer; it may be another job with the same question."""


def jobs_app(url: str) -> Celery:
    """Return the Celery application over a broker, which also keeps results: one question at a time."""
    return celery_app(
        "chimbuko.jobs",
        url,
        PREFIX,
        QUEUE,
        result_backend=celery_url(url),
        result_backend_transport_options={"global_keyprefix": PREFIX},
        result_serializer="json",
        result_expires=KEPT_S,
        task_track_started=True,
        task_soft_time_limit=LONGEST_S,
        task_time_limit=LONGEST_S + ALIVE_S,
    )
