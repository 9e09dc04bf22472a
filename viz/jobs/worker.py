"""Answering of long questions in a worker; for ``celery -A chimbuko.viz.jobs.worker worker``.

The broker's URL comes by the environment, because other users see command lines.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import redis
from celery import Celery
from celery.exceptions import Ignore, SoftTimeLimitExceeded
from celery.signals import worker_process_init, worker_ready
from flask_socketio import SocketIO
from socketio import RedisManager

from chimbuko.core.errors import ChimbukoError, ConfigError
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.process.lifetime import die_with_parent
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.viz.jobs.celeryapp import (
    ALIVE_S,
    ANSWER,
    KEPT_S,
    LARGEST_EVENT_BYTES,
    TOO_LONG,
    Question,
    Reply,
    Reporter,
    jobs_app,
)
from chimbuko.viz.jobs.messagequeue import JOBS_VARIABLE, WORKERS, answered_key
from chimbuko.viz.jobs.tasks import TASKS, AnswerFile, JobRun, Task

BROKER = os.environ.get(JOBS_VARIABLE, "")
if not BROKER:
    raise ConfigError(f"{JOBS_VARIABLE} is not set; it names the broker of long questions, as a redis:// URL")

app: Celery = jobs_app(BROKER)
PRESENCE_S = 2.0


@worker_process_init.connect  # type: ignore[untyped-decorator]
def _die_with_worker(**_: Any) -> None:
    die_with_parent(signal.SIGKILL)


@worker_ready.connect  # type: ignore[untyped-decorator]
def _show_presence(**_: Any) -> None:
    """Show servers from now on that a worker is there, even while it works on something else."""
    threading.Thread(target=_keep_shown, name="presence", daemon=True).start()


def _keep_shown() -> None:
    with redis.Redis.from_url(BROKER, socket_timeout=5, socket_connect_timeout=5) as client:
        while True:
            # A broker that is away may come back.
            with suppress(redis.RedisError):
                client.set(WORKERS, 1, ex=2 * ALIVE_S)
            time.sleep(PRESENCE_S)


@app.task(name=ANSWER, bind=True)  # type: ignore[untyped-decorator]
def answer(self: Any, asked: dict[str, Any]) -> Reply:
    """Answer a ``Question``, and inform the pages that wait."""
    question, job = msgspec.convert(asked, Question), self.request.id
    folder = Path(question.folder) / job
    client = redis.Redis.from_url(BROKER, socket_timeout=5, socket_connect_timeout=5)
    sockets = SocketIO()
    # By the URL of a socket Flask-SocketIO would not know which queue it is.
    sockets.init_app(None, client_manager=RedisManager(BROKER, question.channel, write_only=True))
    with client, Reporter(job, client, sockets, folder) as reporter:
        reply = _known(client, question) or _worked_out(question, job, folder, reporter)
        if reply["sentence"] is not None:
            shutil.rmtree(folder, ignore_errors=True)
        if reporter.is_unwanted:
            # It may be asked again, by the same id.
            self.backend.forget(job)
            raise Ignore
        if reply["sentence"] is None:
            found = msgspec.json.encode((reply, time.time()))
            client.set(answered_key(question.digest), found, ex=KEPT_S)
        reporter.end(reply)
    return reply


def _known(client: redis.Redis, question: Question) -> Reply | None:
    """Return the answer to the same question, if it was given after this one was asked."""
    found = client.get(answered_key(question.digest))
    if found is None:
        return None
    reply, answered_s = msgspec.json.decode(found, type=tuple[Reply, float])
    return reply if answered_s >= question.asked_s else None


def _worked_out(question: Question, job: str, folder: Path, reporter: Reporter) -> Reply:
    """Return the answer, or an error in one sentence, whatever goes wrong."""
    sentence = TOO_LONG
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        task = TASKS[question.name]
        with _opened(question, folder / "work") as run:
            found = task.work(run, task.read(question.parameters), reporter.progress)
            return Reply(answer=_put_away(task, found, run.folder, folder), sentence=None, job=job)
    except SoftTimeLimitExceeded:
        pass
    except ChimbukoError as error:
        sentence = str(error)
    except OSError as error:
        sentence = f"{folder}: cannot be written ({error.strerror or error}); make room there, and ask again"
    except MemoryError:
        sentence = "There is not enough memory for this; narrow the question, or use the terminal."
    except Exception:
        logging.getLogger("chimbuko.viz").exception("%s failed", question.name)
        sentence = "This failed; the worker's log says why."
    return Reply(answer=None, sentence=sentence, job=job)


@contextmanager
def _opened(question: Question, folder: Path) -> Iterator[JobRun]:
    directory = RunDirectory(Path(question.run))
    folder.mkdir()
    try:
        with open_run(directory) as provenance:
            yield JobRun(directory, provenance, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _put_away(task: Task, found: Any, work: Path, folder: Path) -> str | None:
    """Return the answer as JSON; None if it is in the job's folder."""
    if isinstance(found, AnswerFile):
        place = folder / "file"
        place.mkdir()
        (work / found.name).rename(place / found.name)
        size = (place / found.name).stat().st_size
        reported = {"name": found.name, "bytes": size, "address": f"answers/{folder.name}"}
        return msgspec.json.encode(reported).decode()
    text = task.encoded(found)
    if len(text) <= LARGEST_EVENT_BYTES:
        return text.decode()
    (folder / "answer.json").write_bytes(text)
    return None
