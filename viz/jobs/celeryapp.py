"""Celery application between servers and workers, with its questions and replies, and the reports of a
worker meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Self, TypedDict

import msgspec
import redis
from celery import Celery
from celery.exceptions import Ignore
from flask_socketio import SocketIO

from chimbuko.runtime.protocol.celeryapp import celery_app, celery_url
from chimbuko.viz.jobs.messagequeue import EVENTS, PREFIX, QUEUE, alive_key, wanted_key

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


# Reports of a worker while it answers a question, and the check whether anybody still waits for it.


PERIOD_S = 0.25
GRACE_S = 0.5
"""Time in seconds for a job to end in order; compiled code that takes longer is not waited for."""


class Reporter:
    """Sender of progress to the pages that wait for a job, four times a second, while the context lasts.

    A job that nobody waits for any more is interrupted: by the signal that stands for Celery's time limit,
    which raises ``SoftTimeLimitExceeded`` in the main thread, and soon after by the end of the process. One
    that nobody waited for from the start is not begun.
    """

    def __init__(self, job: str, client: redis.Redis, sockets: SocketIO, folder: Path) -> None:
        self._job = job
        self._client = client
        self._sockets = sockets
        self._folder = folder
        self._now: tuple[float, str] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._report, name="reporter", daemon=True)
        self.is_unwanted = False
        """Whether the job was interrupted because nobody waits for it."""

    def __enter__(self) -> Self:
        if not self._is_wanted():
            raise Ignore
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._thread.join()

    def progress(self, share: float, text: str) -> None:
        """Note the progress of the job."""
        self._now = (min(max(share, 0.0), 1.0), text)

    def end(self, reply: Reply) -> None:
        """Send the end of the job to pages."""
        publish_end(self._sockets, self._job, reply)

    def _report(self) -> None:
        reported, heard_s = None, time.monotonic()
        while not self._ended.wait(PERIOD_S):
            try:
                wanted = self._is_wanted()
                heard_s = time.monotonic()
            except redis.RedisError:
                # The broker may be started again, which a job survives; it does not survive the broker's end.
                wanted = time.monotonic() - heard_s < ALIVE_S
            if not wanted:
                return self._interrupt()
            if self._now is not None and self._now is not reported:
                reported = self._now
                event = {"id": self._job, "share": reported[0], "text": reported[1]}
                self._sockets.emit("progress", event, namespace=EVENTS, to=self._job)

    def _is_wanted(self) -> bool:
        with self._client.pipeline(transaction=False) as pipeline:
            pipeline.exists(wanted_key(self._job))
            pipeline.set(alive_key(self._job), 1, ex=ALIVE_S)
            return bool(pipeline.execute()[0])

    def _interrupt(self) -> None:
        self.is_unwanted = True
        os.kill(os.getpid(), signal.SIGUSR1)
        if not self._ended.wait(GRACE_S):
            shutil.rmtree(self._folder, ignore_errors=True)
            os._exit(os.EX_SOFTWARE)


def publish_end(sockets: SocketIO, job: str, reply: Reply) -> None:
    """Send the end of a job to the pages that wait for it."""
    if reply["sentence"] is not None:
        sockets.emit("failure", {"id": job, "sentence": reply["sentence"]}, namespace=EVENTS, to=job)
    else:
        event = {"id": job, "answer": reply["answer"], "job": reply["job"]}
        sockets.emit("answer", event, namespace=EVENTS, to=job)
