"""The options of the services, which several verbs start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from chimbuko.broker import BROKER_VARIABLE
from chimbuko.provenance.service import STORE_VARIABLE


def service_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options ``store``, ``broker``, ``port``, ``dashboard``, ``metrics`` and
    ``as_json``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


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
