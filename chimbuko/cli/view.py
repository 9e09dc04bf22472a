"""``chimbuko view``: the dashboard over a run that has ended, or goes on."""

from __future__ import annotations

import secrets
import signal
import threading
from pathlib import Path

import click

from chimbuko.rundir import find_run


@click.command("view")
@click.argument("run_dir", required=False, type=click.Path(path_type=Path))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Port on the loopback; 0 takes any that is free.",
)
@click.option("--open", "path", default="/", help="Page to start at, as in the address of another dashboard.")
def command(run_dir: Path | None, port: int, path: str) -> None:
    """Show a run in the browser; Ctrl-C ends it.

    RUN_DIR is the folder of a run, by default the newest under ./chimbuko-runs. The address that is
    printed holds a secret: who has it can see the run.

    \b
    Examples:
      chimbuko view
      chimbuko view chimbuko-runs/heat --port 8080
      chimbuko view chimbuko-runs/heat --open '/r/heat?sel=0:1,0:3'
    """
    # Loaded here: 'chimbuko view --help' need not wait for a web server.
    from chimbuko.viz.server import serving

    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    with serving(find_run(run_dir), port, secrets.token_urlsafe(24), None) as url:
        print(starting_at(url, path), flush=True)
        stopping.wait()


def starting_at(url: str, path: str) -> str:
    """``url`` of a dashboard, with its token, at the page ``path``, which may have a query of its own."""
    root, _, token = url.partition("/?")
    page, _, query = path.partition("?")
    return f"{root}/{page.lstrip('/')}?{query + '&' if query else ''}{token}"
