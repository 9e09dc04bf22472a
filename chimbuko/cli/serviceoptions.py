"""The options of the services, which several verbs start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from chimbuko.broker import BROKER_VARIABLE
from chimbuko.config import AnalysisConfig
from chimbuko.provenance.service import STORE_VARIABLE
from chimbuko.provenance.store import public_url
from chimbuko.rundir import RunDirectory, new_run, write_secret


def service_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options ``store``, ``broker``, ``port``, ``dashboard``, ``metrics`` and
    ``as_json``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def run_with_store(
    folder: Path, command: list[str], config: AnalysisConfig, store: str | None
) -> RunDirectory:
    """A new run; where ``store`` is a URL, only a file that nobody else can read holds its password."""
    run = new_run(folder, command, config, None if store is None else public_url(store))
    if store is not None:
        write_secret(run.store_url_path, store)
    return run


_OPTIONS = (
    click.option(
        "--store",
        metavar="URL",
        envvar=STORE_VARIABLE,
        help="Provenance in PostgreSQL; default SQLite in the run's folder. Also from the variable "
        f"{STORE_VARIABLE}, which nobody else can read.",
    ),
    click.option(
        "--broker",
        metavar="URL",
        envvar=BROKER_VARIABLE,
        help=f"Redis, Valkey or a cluster, by URL; default a private one. Also from {BROKER_VARIABLE}.",
    ),
    click.option("--port", default=0, help="Port of the dashboard; default any that is free."),
    click.option("--dashboard/--no-dashboard", default=None, help="Default: not with --trace."),
    click.option("--metrics", type=int, metavar="PORT", help="Answer Prometheus on this port of this host."),
    click.option("--json", "as_json", is_flag=True, help="Summary as JSON on standard output."),
)
