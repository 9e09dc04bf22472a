"""Queue of the long questions of pages, which has each of them answered or ended, and serves the answers.

A question ends when no page wants it any more. Celery's ``revoke`` would need its remote control, with keys
for each worker on a broker that may be the run's, and a server that lives to send it. Answers too large for
an event, and files to be saved, are fetched by HTTP.
"""

from __future__ import annotations

import logging
import re
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import msgspec
import redis
from celery.exceptions import TimeLimitExceeded
from flask import Blueprint, Response, request, send_file
from flask_socketio import SocketIO, join_room
from kombu.exceptions import OperationalError

from chimbuko.core.errors import ChimbukoError, ConfigError
from chimbuko.viz.api.endpoint import Missing
from chimbuko.viz.api.openapi import ROOT
from chimbuko.viz.jobs.celeryapp import (
    ALIVE_S,
    ANSWER,
    KEPT_S,
    LONGEST_S,
    TOO_LONG,
    WANTED_S,
    Question,
    Reply,
    publish_end,
)
from chimbuko.viz.jobs.messagequeue import EVENTS, WORKERS, MessageQueue, alive_key, wanted_key
from chimbuko.viz.jobs.tasks import TASKS
from chimbuko.viz.jobs.workerpool import WorkerPool

LOOK_S = 0.5
"""Interval in seconds at which jobs are looked after, while there are any."""
MOST_OF_PAGE = 4
"""Most questions that one page may have under way."""
JOB = re.compile("[0-9a-f]{32}")

LOST = "The worker that was at this has ended. Ask again."
FAILED = "This failed; the server's log says why."
WAITED = "Other questions took too long. Ask again later."
NO_WORKER = (
    "No worker answers at the broker of long questions. Start one, with the dashboard's CHIMBUKO_JOBS_BROKER "
    "and CHIMBUKO_JOBS_FOLDER: celery -A chimbuko.viz.jobs.worker worker"
)
NO_WORKER_S = 8.0
NO_BROKER = "The broker of long questions cannot be reached. Ask again in a moment."
TOO_MANY = f"{MOST_OF_PAGE} questions are under way already: wait for one, or cancel it."
NOT_UNDERSTOOD = "The question is not understood; load the page again."


@dataclass
class _Job:
    id: str
    page: str
    """Page that asked the question."""
    question: Question
    asked_s: float
    """Time of the question, by ``time.monotonic``."""
    heard_s: float
    """Time of the last sign of the job's worker, by ``time.monotonic``; before it has begun, the present
    time.
    """


class JobQueue:
    """Queue in which pages of one server process hand in long questions.

    Workers send progress and answer to the pages themselves; here is kept who waits for what. A job
    that nobody waits for any more ends by itself, however that came about: its page has gone, or we have.

    Parameters
    ----------
    run
        The run's folder.
    channel
        Channel of the message queue, the same for all processes of the dashboard.
    """

    def __init__(self, run: Path, worker_pool: WorkerPool, channel: str) -> None:
        self._run = run
        self._worker_pool = worker_pool
        self._channel = channel
        self.queue = MessageQueue(channel)
        """Client manager of the Socket.IO server."""
        self._sockets: SocketIO
        self._jobs: dict[str, _Job] = {}
        self._kept: list[tuple[float, str]] = []
        """Times at which folders of jobs are removed, by ``time.monotonic``."""
        self._inbox: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="jobs", daemon=True)

    def attach(self, sockets: SocketIO) -> None:
        """Accept questions from pages that are connected to a server."""
        self._sockets = sockets
        sockets.on_event("prepare", self._prepare, namespace=EVENTS)
        sockets.on_event("ask", self._ask, namespace=EVENTS)
        sockets.on_event("cancel", self._cancel, namespace=EVENTS)

    def start(self) -> None:
        """Start the queue; no process is started before the first question."""
        self._thread.start()

    def stop(self) -> None:
        """End all jobs, and all processes that were started for them."""
        self._inbox.put(None)
        self._thread.join()

    def forget_page(self, page: str) -> None:
        """End the jobs of a page that has gone, unless it comes back soon and asks again."""
        self._inbox.put(lambda: self._forget(page))

    def answers(self) -> Path | None:
        """Folder that contains the jobs' folders; None if there was none yet."""
        return self._worker_pool.answers

    def _prepare(self, *_: Any) -> None:
        """Start a worker, as a page is about to ask."""
        self._inbox.put(self._worker_pool.open)

    def _ask(self, asked: Any) -> None:
        """Accept a page's question ``{id, question, parameters}``, under an id that nobody can guess."""
        page = _page()
        job = asked.get("id") if isinstance(asked, dict) else None
        if not isinstance(job, str) or not JOB.fullmatch(job):
            return
        join_room(job)
        try:
            task = TASKS.get(str(asked.get("question")))
            if task is None:
                raise ConfigError(NOT_UNDERSTOOD)
            given = msgspec.to_builtins(task.read(asked.get("parameters")))
        except ConfigError as error:
            self._fail(job, str(error))
            return
        question = Question(
            name=task.name,
            parameters=given,
            run=str(self._run),
            folder="",
            channel=self._channel,
            asked_s=time.time(),
        )
        now_s = time.monotonic()
        self._inbox.put(lambda: self._take(_Job(job, page, question, now_s, now_s)))

    def _cancel(self, asked: Any) -> None:
        """Cancel a question that a page does not want answered any more: ``{id}``."""
        page, job = _page(), asked.get("id") if isinstance(asked, dict) else None
        self._inbox.put(lambda: self._give_up(page, job))

    # What follows is done by the queue's own thread, one thing after the other.

    def _work(self) -> None:
        looked_s = 0.0
        while True:
            is_busy = bool(self._jobs or self._kept)
            try:
                act = self._inbox.get(timeout=LOOK_S if is_busy else None)
            except Empty:
                act = _nothing
            if act is None:
                break
            try:
                act()
                if time.monotonic() - looked_s >= LOOK_S:
                    looked_s = time.monotonic()
                    self._look()
            except (redis.RedisError, OperationalError):
                self._fail_all(NO_BROKER)
            except ChimbukoError as error:
                self._fail_all(str(error))
            except Exception:
                # The thread goes on, so that the next question is answered.
                logging.getLogger("chimbuko.viz").exception("long questions failed")
                self._fail_all(FAILED)
        self._close()

    def _take(self, job: _Job) -> None:
        if sum(other.page == job.page for other in self._jobs.values()) >= MOST_OF_PAGE:
            self._fail(job.id, TOO_MANY)
            return
        self._jobs[job.id] = job
        self._worker_pool.open()
        self.queue.join(self._worker_pool.url)
        if self._status(job) not in ("PENDING", "STARTED"):
            return
        # The page may have asked before, here or at another process, and have lost its link.
        if self._worker_pool.client.set(wanted_key(job.id), 1, nx=True, ex=WANTED_S):
            asked = msgspec.structs.replace(job.question, folder=str(self._worker_pool.folder))
            self._worker_pool.app.send_task(
                ANSWER,
                [msgspec.to_builtins(asked)],
                task_id=job.id,
                expires=LONGEST_S,
                retry=False,
            )

    def _look(self) -> None:
        """Report which pages still wait, and send them the replies of jobs that have ended."""
        now_s = time.monotonic()
        due, self._kept = self._kept, [kept for kept in self._kept if kept[0] > now_s]
        for due_s, job in due:
            if due_s <= now_s:
                self._remove(job)
        if not self._jobs:
            return
        is_nobody_there = self._worker_pool.has_lost_worker()
        self._worker_pool.open()
        for under_way in list(self._jobs.values()):
            # A broker that was started again knows nothing of it.
            is_known = self._worker_pool.client.expire(wanted_key(under_way.id), WANTED_S)
            status = self._status(under_way)
            is_lost = status == "STARTED" and (is_nobody_there or self._is_silent(under_way))
            if is_lost or (status == "PENDING" and not is_known):
                self._fail(under_way.id, LOST)
                self._end(under_way.id)
            elif status == "PENDING" and self._is_without_workers(now_s - under_way.asked_s):
                self._fail(under_way.id, NO_WORKER)
                self._end(under_way.id)
            elif status == "PENDING":
                under_way.heard_s = now_s

    def _is_without_workers(self, waited_s: float) -> bool:
        """Whether the workers that somebody was to start are missing, so that nobody would ever answer."""
        is_long = not self._worker_pool.has_worker and waited_s > NO_WORKER_S
        return is_long and not self._worker_pool.client.exists(WORKERS)

    def _remove(self, job: str) -> None:
        """Remove the folder of a job, unless its page has come back, maybe to another process of ours."""
        if self._worker_pool.client.exists(wanted_key(job)):
            self._keep(job)
        else:
            shutil.rmtree(self._worker_pool.folder / job, ignore_errors=True)

    def _status(self, job: _Job) -> str:
        """Return Celery's status of a job. Its end is sent to the page from here, too: it may not have heard
        the worker.
        """
        found = self._worker_pool.app.backend.get_task_meta(job.id, cache=False)
        status: str = found["status"]
        if status in ("PENDING", "STARTED"):
            return status
        if status == "SUCCESS":
            self._worker_pool.has_answered()
            publish_end(self._sockets, job.id, found["result"])
        elif isinstance(found["result"], TimeLimitExceeded):
            self._fail(job.id, TOO_LONG)
        else:
            self._fail(job.id, WAITED if status == "REVOKED" else LOST)
        del self._jobs[job.id]
        self._keep(job.id)
        return status

    def _is_silent(self, job: _Job) -> bool:
        now_s = time.monotonic()
        if self._worker_pool.client.exists(alive_key(job.id)):
            job.heard_s = now_s
        return now_s - job.heard_s > ALIVE_S

    def _give_up(self, page: str, job: object) -> None:
        """End a job of a page."""
        if any(found.id == job and found.page == page for found in self._jobs.values()):
            self._end(str(job))

    def _end(self, job: str) -> None:
        """Withdraw the wait for a job: its worker notices within a quarter of a second."""
        del self._jobs[job]
        self._worker_pool.client.delete(wanted_key(job))
        self._worker_pool.app.backend.forget(job)
        self._keep(job)

    def _keep(self, job: str) -> None:
        self._kept.append((time.monotonic() + KEPT_S, job))

    def _forget(self, page: str) -> None:
        for job in [job for job in self._jobs.values() if job.page == page]:
            del self._jobs[job.id]
            self._keep(job.id)

    def _fail(self, job: str, sentence: str) -> None:
        publish_end(self._sockets, job, Reply(answer=None, sentence=sentence, job=job))

    def _fail_all(self, sentence: str) -> None:
        for job in list(self._jobs):
            self._fail(job, sentence)
            del self._jobs[job]
            self._keep(job)

    def _close(self) -> None:
        try:
            for job in list(self._jobs):
                self._end(job)
        except redis.RedisError:
            pass  # Its jobs end by themselves.
        self.queue.leave()
        self._worker_pool.close()


def _nothing() -> None:
    pass


def _page() -> str:
    sid: str = request.sid  # type: ignore[attr-defined]
    return sid


def make_answers(folder: Callable[[], Path | None]) -> Blueprint:
    """Return the blueprint that serves ``/api/v1/answers/<job>``: JSON, or a file under its name.

    Parameters
    ----------
    folder
        Gives the folder that jobs have their folders in; None before the first question.
    """
    answers = Blueprint("answers", __name__, url_prefix=f"{ROOT}/answers")

    @answers.get("/<job>")
    def answer(job: str) -> Response:
        place = folder()
        if place is not None and JOB.fullmatch(job):
            text = place / job / "answer.json"
            if text.is_file():
                return send_file(text, mimetype="application/json")
            for path in (place / job / "file").glob("*"):
                return send_file(path, as_attachment=True, download_name=path.name)
        raise Missing(f"answer {job[:40]!r}: not here any more; answers are kept for {KEPT_S} s. Ask again.")

    return answers
