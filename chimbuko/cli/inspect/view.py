"""``chimbuko view``: the dashboard over a run, or over all runs of a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from chimbuko.core.errors import ConfigError
from chimbuko.launcher.outcome.progress import say
from chimbuko.launcher.outcome.reach import reach, reachable_run
from chimbuko.launcher.services.dashboard import AddressFile
from chimbuko.runtime.process.lifetime import end_within
from chimbuko.runtime.process.nameholding import HeldFolder
from chimbuko.runtime.process.signals import FROM_OTHERS, heed
from chimbuko.runtime.process.wakeup import Ending
from chimbuko.runtime.protocol.brokerplace import LOOPBACK
from chimbuko.runtime.runs.directory import PAGE_TOKEN, RUNS_FOLDER, RunDirectory
from chimbuko.runtime.runs.finding import runs_in
from chimbuko.viz.http.listening import Front
from chimbuko.viz.jobs.messagequeue import FOLDER_VARIABLE, JOBS_VARIABLE

STDOUT = 1
END_S = 10.0
"""Seconds in which pages and workers are sent away at the end."""


@click.command("view")
@click.argument("run_dir", metavar="[RUN]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Port that the server listens on; 0 takes any that is free.",
)
@click.option(
    "--bind",
    default=LOOPBACK,
    show_default=True,
    metavar="WHERE",
    help="Address that the server listens on: an IP address, a network interface, a name of this host; "
    "0.0.0.0 for all.",
)
@click.option(
    "--certificate",
    metavar="FILE",
    type=click.Path(path_type=Path, resolve_path=True),
    help="Certificates in PEM: the server speaks TLS.",
)
@click.option(
    "--key",
    metavar="FILE",
    type=click.Path(path_type=Path, resolve_path=True),
    help="Key of the certificate; default in the same file.",
)
@click.option(
    "--public-url",
    metavar="URL",
    default="",
    help="Address at which browsers reach the server, through a proxy or the port of a container.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Server processes on the port, for many browsers, which need WebSocket with more than one.",
)
@click.option(
    "--jobs-broker",
    metavar="URL",
    envvar=JOBS_VARIABLE,
    help="Redis or Valkey where Celery workers that you started answer long questions; default one worker "
    f"of its own. Better from {JOBS_VARIABLE}, which other users cannot read.",
)
@click.option(
    "--jobs-folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    envvar=FOLDER_VARIABLE,
    help="Folder that dashboard and workers share, for answers; default a temporary one.",
)
@click.option(
    "--new-token", is_flag=True, help="Forget the token that is kept in the folder: earlier addresses end."
)
@click.option("--open", "path", default="/", help="Page to start at, as in the address of another dashboard.")
def command(
    run_dir: Path | None,
    port: int,
    bind: str,
    certificate: Path | None,
    key: Path | None,
    public_url: str,
    processes: int,
    jobs_broker: str | None,
    jobs_folder: Path | None,
    new_token: bool,
    path: str,
) -> None:
    """Show runs in the browser; Ctrl-C ends it.

    RUN is the folder, name or id of a run, or a folder of runs: then there is a list of them, each is a click
    away, and two are compared by ticking them. Without RUN it is that of the runs under ./chimbuko-runs. The
    address that is printed holds a secret: who has it can see the runs. The secret is that in CHIMBUKO_TOKEN,
    or one that is kept in the run's folder, so that pages go on when the server is started again. Where
    standard output is no terminal, the name of a file that holds the address is printed.

    \b
    Examples:
      chimbuko view
      chimbuko view /scratch/runs
      chimbuko view chimbuko-runs/heat --port 8080
      chimbuko view chimbuko-runs/heat --processes 4
      chimbuko view --bind ib0 --port 8080 --certificate host.pem --public-url https://login7:8080/
      chimbuko view chimbuko-runs/heat --open '/r/heat?sel=0:1,0:3'
    """
    # Loaded here: 'chimbuko view --help' need not wait for a web server.
    from chimbuko.viz.http.multiprocess import serving_together
    from chimbuko.viz.http.server import serving, serving_folder
    from chimbuko.viz.jobs.workerpool import WorkerPool

    stopping = Ending()
    heed(FROM_OTHERS, stopping.set)
    front = Front(bind, certificate, key, public_url)
    hosts = frozenset[str]()
    folder = _folder_of_runs(run_dir)

    def make_pool() -> WorkerPool:
        return WorkerPool(jobs_broker, not jobs_broker, jobs_folder)

    def token_of(kept: Path) -> str:
        if new_token:
            kept.unlink(missing_ok=True)
        return front.token(kept)

    if folder is not None:
        if processes > 1:
            raise ConfigError(f"{folder}: --processes are for one run; name it")
        token = token_of(folder / PAGE_TOKEN)
        place = serving_folder(folder, port, token, make_pool, reach, front)
    elif processes > 1:
        run = reachable_run(run_dir)
        place = serving_together(
            run,
            port,
            token_of(run.page_token_path),
            None,
            hosts,
            processes,
            stopping,
            jobs_broker,
            jobs_folder,
            front=front,
        )
    else:
        run = reachable_run(run_dir)
        token = token_of(run.page_token_path)
        place = serving(run, port, token, None, hosts, make_pool(), front=front)
    with place as url, _address_file() as file:
        file.keep(starting_at(url, path))
        print(file.words_for(STDOUT), flush=True)
        if tunnel := file.tunnel():
            say(f"from the computer where you sit: {tunnel}")
        stopping.wait()
        # Whoever has pressed Ctrl-C waits; nothing that is stored depends on it.
        end_within(END_S)


def _folder_of_runs(path: Path | None) -> Path | None:
    """Return the folder of runs that is meant; None if it is one run, or neither."""
    folder = RUNS_FOLDER if path is None else path
    if RunDirectory(folder).info_path.exists():
        return None
    # Where runs go they will come, also if there is none yet.
    is_for_runs = folder.name == RUNS_FOLDER.name and folder.is_dir()
    return folder.absolute() if is_for_runs or runs_in(folder) else None


@contextmanager
def _address_file() -> Iterator[AddressFile]:
    """Yield a file for the address of this dashboard alone: beside it the run may have one of its own."""
    with HeldFolder("chimbuko-view-") as folder:
        yield AddressFile(folder / "address")


def starting_at(url: str, path: str) -> str:
    """``url`` of a dashboard, with its token, at the page ``path``, which may have a query of its own."""
    root, _, token = url.partition("/?")
    page, _, query = path.partition("?")
    return f"{root}/{page.lstrip('/')}?{query + '&' if query else ''}{token}"
