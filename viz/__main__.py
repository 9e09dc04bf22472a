"""Server process of the dashboard: ``python -m chimbuko.viz --run-dir DIR --port P``.

Secrets come by the environment, because other users see command lines: ``CHIMBUKO_TOKEN``, and
``CHIMBUKO_BROKER`` with the broker's URL. When the dashboard answers, one line of JSON with its
address goes to stdout.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
from pathlib import Path

import click

from chimbuko.core.errors import ChimbukoError
from chimbuko.runtime.process.lifetime import say_ready
from chimbuko.runtime.process.signals import END, FROM_OTHERS, heed
from chimbuko.runtime.process.wakeup import Ending
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE, LOOPBACK
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.viz.http.listening import Front
from chimbuko.viz.http.multiprocess import serving_together
from chimbuko.viz.http.server import serving
from chimbuko.viz.jobs.messagequeue import FOLDER_VARIABLE, JOBS_VARIABLE
from chimbuko.viz.jobs.workerpool import WorkerPool

PROCESSES = click.IntRange(1, 64)


def load() -> None:
    """Load this module before forking: forks of one process share its imports."""


@click.command()
@click.option("--run-dir", required=True, type=click.Path(path_type=Path), help="Folder of the run.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Port on the loopback; 0 takes any that is free.",
)
@click.option(
    "--broker",
    envvar=BROKER_VARIABLE,
    help="URL of the run's broker; without one the store alone is followed.",
)
@click.option(
    "--jobs-broker",
    envvar=JOBS_VARIABLE,
    help="URL of a broker where Celery workers that you started answer long questions; else one is started.",
)
@click.option(
    "--jobs-folder",
    type=click.Path(path_type=Path),
    envvar=FOLDER_VARIABLE,
    help="Folder for their files, which dashboard and workers share; by default a temporary one.",
)
@click.option(
    "--processes", type=PROCESSES, default=1, show_default=True, help="Server processes on the port."
)
@click.option("--listening", type=int, hidden=True, help="A socket that listens, in place of --port.")
@click.option("--shared", type=int, hidden=True, help="A socket that other processes serve, too.")
@click.option(
    "--sweep", is_flag=True, hidden=True, help="Remove --jobs-folder if the parent process did not."
)
@click.option("--own-worker", is_flag=True, hidden=True, help="Start a worker at --jobs-broker.")
@click.option("--bind", default=LOOPBACK, show_default=True, help="Address on which the server listens.")
@click.option("--certificate", type=click.Path(path_type=Path), help="Certificates in PEM, for TLS.")
@click.option("--key", type=click.Path(path_type=Path), help="Key of the certificate, in PEM.")
@click.option("--public-url", default="", help="URL by which browsers reach the server.")
@click.option("--host", "hosts", multiple=True, help="A further name by which browsers may call this server.")
def main(
    run_dir: Path,
    port: int,
    broker: str | None,
    jobs_broker: str | None,
    jobs_folder: Path | None,
    processes: int,
    listening: int | None,
    shared: int | None,
    sweep: bool,
    own_worker: bool,
    bind: str,
    certificate: Path | None,
    key: Path | None,
    public_url: str,
    hosts: tuple[str, ...],
) -> None:
    """Serve the dashboard of one run until it is asked to end."""
    stopping = Ending()
    signal.signal(END, stopping.set)
    # If a user has started it, it has no parent to follow.
    heed(FROM_OTHERS, stopping.set)
    front = Front(bind, certificate, key, public_url)
    parent = os.getppid()
    run, names = RunDirectory(run_dir.absolute()), frozenset(hosts)
    handed = next((number for number in (listening, shared) if number is not None), None)
    given = None if handed is None else socket.socket(fileno=handed)
    try:
        token = front.token(run.page_token_path)
        if processes > 1:
            place = serving_together(
                run, port, token, broker, names, processes, stopping, jobs_broker, jobs_folder, given, front
            )
        else:
            logs = run.logs if broker else None
            worker_pool = WorkerPool(jobs_broker, own_worker or not jobs_broker, jobs_folder, logs)
            place = serving(run, port, token, broker, names, worker_pool, given, shared is None, front)
        with place as url:
            say_ready(url=url)
            stopping.wait()
        if sweep and jobs_folder and os.getppid() != parent:
            shutil.rmtree(jobs_folder, ignore_errors=True)
    except ChimbukoError as error:
        print(f"chimbuko: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
