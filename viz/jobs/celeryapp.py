"""How servers and workers speak: a Celery application, what it is asked, and what it answers."""

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
"""Larger answers, which would hold up the frames that share a page's link, are fetched."""
LONGEST_S = 600
"""A question that takes longer is better put in the terminal."""
TOO_LONG = f"Stopped after {LONGEST_S // 60} min. Narrow the question, or use the terminal."
KEPT_S = 60
"""Answers stay so long, for a page whose link was lost."""
WANTED_S = 10
"""A question is given up so long after the last page was seen that waits for it."""
ALIVE_S = 5
"""A worker that is silent for so long has died. While it works it speaks four times a second, but for moments
in which compiled code lets no other thread run."""


class Question(msgspec.Struct, frozen=True):
    """What a worker is asked."""

    name: str
    """Of the task."""
    parameters: dict[str, object]
    run: str
    """The run's folder."""
    folder: str
    """Where jobs have their folders, which server and workers share."""
    channel: str
    """Of the message queue on which pages hear of it."""
    asked_s: float
    """When, in s since the epoch."""

    @property
    def digest(self) -> str:
        """The same for the same question."""
        asked = (self.name, self.parameters, self.run, self.folder)
        return hashlib.sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()


class Reply(TypedDict):
    """How a question ended, as Celery keeps it."""

    answer: str | None
    """JSON; None where it is too large for an event, and is fetched by HTTP."""
    sentence: str | None
    """What went wrong, for the user."""
    job: str
    """Id of the job whose folder holds the answer; it may be another one that was asked the same."""


def jobs_app(url: str) -> Celery:
    """The Celery application over a broker, which also keeps results: one question at a time."""
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
