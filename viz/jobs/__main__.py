"""Worker process that a dashboard starts for long questions: ``python -m chimbuko.viz.jobs``.

The broker's URL comes by the environment, in ``CHIMBUKO_JOBS_BROKER``, because other users see command lines.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from pathlib import Path

import click
from celery.worker import state

from chimbuko.core.errors import ServiceError
from chimbuko.runtime.process.nameholding import hold
from chimbuko.runtime.process.signals import END
from chimbuko.viz.jobs.worker import app
from chimbuko.viz.jobs.workerpool import worker_name

LITTLE_TALK = ("--without-mingle", "--without-gossip", "--without-heartbeat")
"""Options of Celery that switch off messages between workers."""
NICENESS = 10
"""Niceness of the worker: the application, and the analysis, come first."""


@click.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder of the jobs' folders; a second worker over it ends at once.",
)
@click.option("--idle", "idle_s", type=float, required=True, help="End after so many seconds without work.")
@click.option("--sweep", is_flag=True, help="Remove the folder if the dashboard ended without doing so.")
def main(folder: Path, idle_s: float, sweep: bool) -> None:
    """Answer long questions, one at a time, until there are none or the process is asked to end."""
    signal.signal(END, _end)
    os.nice(NICENESS)
    dashboard = os.getppid()
    # All messages go into the log.
    os.dup2(2, 1)
    try:
        claim = hold(worker_name(folder))
    except ServiceError:
        return
    threading.Thread(target=_end_when_idle, args=(idle_s,), name="idle", daemon=True).start()
    try:
        app.worker_main(["--quiet", "worker", "--loglevel", "WARNING", *LITTLE_TALK])
    finally:
        if sweep and os.getppid() != dashboard:
            shutil.rmtree(folder, ignore_errors=True)
        claim.close()


def _end_when_idle(idle_s: float) -> None:
    worked_s = time.monotonic()
    while time.monotonic() - worked_s < idle_s:
        time.sleep(1.0)
        if state.active_requests or state.reserved_requests:
            worked_s = time.monotonic()
    _end()


def _end(*_: object) -> None:
    state.should_stop = os.EX_OK


if __name__ == "__main__":
    main()
