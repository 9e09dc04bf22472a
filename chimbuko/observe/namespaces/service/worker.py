"""Celery worker that runs analyses for the programs of a job.

An analysis runs in a process of its own, so that one which hangs, or brings its process down, fails alone.
What a worker was at that was killed is done by another one, or by the same when it is there again.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from celery import Celery
from celery.exceptions import TimeLimitExceeded, WorkerLostError
from celery.signals import task_failure, worker_process_init, worker_ready
from celery.worker import state

from chimbuko.core.errors import ChimbukoError, ConfigError
from chimbuko.observe.namespaces.client.asking import TASK, Progress, analyses_app
from chimbuko.observe.namespaces.client.client import Client, report
from chimbuko.observe.namespaces.exchange.jobaddress import WRITER, JobAddress
from chimbuko.observe.namespaces.service.folder import ServiceFolder
from chimbuko.runtime.process.lifetime import die_with_parent, end_within, log, say_ready
from chimbuko.runtime.process.signals import END, FROM_OTHERS, heed

LIMIT_S = 600.0
"""Default time limit of an analysis, in seconds."""
MARGIN_S = 10.0
"""Time after the limit at which an analysis that a worker has begun counts as lost, and is given to another
one.
"""
LOST_LOOK_S = 5
"""Interval between two looks for analyses that were lost in that way."""
END_S = 5.0
"""Time in which a worker hands its analysis back and ends."""
LITTLE_TALK = ("--without-mingle", "--without-gossip", "--without-heartbeat")
"""Options of Celery that switch off messages between workers."""
NICENESS = 10
"""Niceness of the worker: the application comes first."""


def work(folder: ServiceFolder, job: str, at_once: int, limit_s: float, on_ready: Callable[[], None]) -> None:
    """Run analyses of a job until the process is asked to end.

    Raises
    ------
    ConfigError, ServiceError
        There is no such job, or its broker cannot be used.
    """
    folder.settings()
    if job not in folder.jobs():
        raise ConfigError(f"{job!r}: no job of this service, which has {', '.join(folder.jobs()) or 'none'}")
    folder.connect().close()
    app = _make_app(folder, job, limit_s)

    def begin(**_: Any) -> None:
        heed(FROM_OTHERS, _end)
        signal.signal(END, _end)
        on_ready()

    worker_ready.connect(begin, weak=False)
    worker_process_init.connect(_follow_worker, weak=False)
    os.nice(NICENESS)
    name = f"chimbuko-{os.getpid()}@%h"
    words = ["--quiet", "worker", "--loglevel", "WARNING", "--hostname", name, "--concurrency", str(at_once)]
    with suppress(SystemExit):
        app.worker_main([*words, *LITTLE_TALK])


def _make_app(folder: ServiceFolder, job: str, limit_s: float) -> Celery:
    place = folder.place(job, WRITER)
    # Only the owner has all rights: programs can ask for analyses, and not take away what others have asked
    # for.
    url = folder.broker_path.read_text()
    app = analyses_app(url, place, task_acks_late=True, task_time_limit=limit_s)
    app.conf.broker_transport_options |= {
        "visibility_timeout": limit_s + MARGIN_S,
        "unacked_restore_interval": LOST_LOOK_S,
        "unacked_restore_throttle": 1,
    }

    @app.task(name=TASK)  # type: ignore[untyped-decorator]
    def analyse(namespace: str, analysis: str, into: str) -> None:
        # Celery's way to end it, SystemExit in the analysis, would look like a failure of that.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with Client(place, rank=0) as client:
            one = client.create(namespace)
            report(one, analysis, into, Progress.EXECUTING)
            try:
                one.analyse(analysis, into)
                report(one, analysis, into, Progress.DONE)
            except ChimbukoError as error:
                report(one, analysis, into, Progress.FAILED, str(error))

    def note_failure(exception: BaseException, kwargs: dict[str, str], **_: Any) -> None:
        why = _why(exception, kwargs["analysis"], limit_s)
        # The analysis that this worker was running when it was asked to end is left to another one.
        is_left = isinstance(exception, WorkerLostError) and state.should_terminate is not None
        _note_failure(place, "" if is_left else why, **kwargs)

    task_failure.connect(note_failure, weak=False)
    return app


def _note_failure(place: JobAddress, why: str, namespace: str, analysis: str, into: str) -> None:
    try:
        with Client(place, rank=0) as client:
            one = client.create(namespace)
            if why:
                log(why)
                report(one, analysis, into, Progress.FAILED, why)
            else:
                one.analyse_async(analysis, into)
    except ChimbukoError as error:
        log(f"the progress of analysis {analysis} cannot be published: {error}")


def _why(exception: BaseException, analysis: str, limit_s: float) -> str:
    if isinstance(exception, TimeLimitExceeded):
        return f"analysis {analysis} took longer than {limit_s:g} s, and was ended"
    if isinstance(exception, WorkerLostError):
        return f"analysis {analysis} brought its process down: {exception}"
    return f"analysis {analysis} failed: {type(exception).__name__}: {exception}"


def _follow_worker(**_: Any) -> None:
    die_with_parent(signal.SIGKILL)


def _end(*_: object) -> None:
    """End at once: another worker does the analysis."""
    state.should_terminate = os.EX_OK
    # While its broker is away Celery only looks for that.
    end_within(END_S)


def main() -> None:
    """Run the worker that a service starts."""
    folder, job, at_once = sys.argv[1:]
    ready_output = os.dup(1)
    # Other messages go into the log.
    os.dup2(2, 1)

    def on_ready() -> None:
        os.dup2(ready_output, 1)
        say_ready(job=job)
        os.dup2(2, 1)

    try:
        work(ServiceFolder(Path(folder)), job, int(at_once), LIMIT_S, on_ready)
    except ChimbukoError as error:
        log(str(error))
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
