"""Message queue by which workers reach pages, whichever server process these are connected to,
and keys at the broker beside Celery's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import redis
import socketio

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


PERIOD_S = 0.5
EVENTS = "/events"
"""Socket.IO's namespace of all events between pages and servers."""


class MessageQueue(socketio.RedisManager):  # type: ignore[misc]
    """Message queue of Flask-SocketIO on Redis, which a server joins when it has asked its first question.

    Before there is nothing to hear, and maybe no broker. Only workers speak here: each server process follows
    the run by itself, so what it sends to its pages is not repeated to those of others.
    """

    def __init__(self, channel: str) -> None:
        super().__init__(channel=channel, write_only=True)
        self._has_joined = False
        self._has_left = threading.Event()

    def join(self, url: str) -> None:
        """Receive workers' messages at this broker from now on."""
        if not self._has_joined:
            self._has_joined = True
            self.redis_url = url
            self.thread = self.server.start_background_task(self._thread)

    def leave(self) -> None:
        """Receive no more messages."""
        self._has_left.set()
        if self._has_joined:
            self.thread.join()

    def emit(self, *arguments: Any, **settings: Any) -> None:
        """Send an event to the pages that are connected to this process."""
        super().emit(*arguments, **{**settings, "ignore_queue": True})

    def _listen(self) -> Iterator[bytes]:
        """Yield workers' messages. A broker that is away is looked for again; the queue informs pages."""
        is_subscribed = False
        while not self._has_left.is_set():
            try:
                if not is_subscribed:
                    self._redis_connect()
                    self.pubsub.subscribe(self.channel)
                    is_subscribed = True
                message = self.pubsub.get_message(timeout=PERIOD_S)
            except redis.RedisError:
                is_subscribed = False
                self._has_left.wait(PERIOD_S)
            else:
                if message is not None:
                    yield message["data"]
        self.redis.close()
        raise SystemExit
