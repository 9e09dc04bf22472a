"""Reports of a worker while it answers a question, and the check whether anybody still waits for it."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Self

import redis
from celery.exceptions import Ignore
from flask_socketio import SocketIO

from chimbuko.viz.jobs.celeryapp import ALIVE_S, Reply
from chimbuko.viz.jobs.keys import alive_key, wanted_key
from chimbuko.viz.jobs.messagequeue import EVENTS

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
