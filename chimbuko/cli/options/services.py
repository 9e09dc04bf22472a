"""The options of the services, which several verbs start."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from chimbuko.config import AnalysisConfig
from chimbuko.errors import ConfigError
from chimbuko.launcher.services import AlertOptions
from chimbuko.protocol.broker import BROKER_VARIABLE
from chimbuko.provenance.alerts.sinks import COMMAND_VARIABLE, URL_VARIABLE, hooks_of
from chimbuko.provenance.store.engine import public_url
from chimbuko.provenance.write.__main__ import STORE_VARIABLE
from chimbuko.runs.directory import RunDirectory, new_run, write_secret
from chimbuko.runs.environment import surroundings
from chimbuko.units import parse_duration_us


def service_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options ``store``, ``broker``, ``port``, ``dashboard_processes``, ``dashboard``,
    ``metrics`` and ``as_json``, and those of alerts as ``alerts``, an ``AlertOptions`` or None.
    """

    @functools.wraps(command)
    def with_alerts(
        alert: str | None, alert_url: str | None, alert_command: str | None, **values: Any
    ) -> None:
        command(alerts=_alerts(alert, alert_url, alert_command), **values)

    wrapped: Callable[..., Any] = with_alerts
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def _alerts(severity: str | None, url: str | None, command: str | None) -> AlertOptions | None:
    hooks = {URL_VARIABLE: url or "", COMMAND_VARIABLE: command or ""}
    if severity is None:
        # The variables may be there for other runs.
        return None
    if not hooks_of(hooks):
        raise ConfigError(
            f"--alert: nobody is to be told; give --alert-command, or a webhook in {URL_VARIABLE}"
        )
    return AlertOptions(parse_duration_us(severity, "us"), hooks)


def run_with_store(
    folder: Path, command: list[str], config: AnalysisConfig, store: str | None
) -> RunDirectory:
    """A new run; where ``store`` is a URL, only a file that nobody else can read holds its password."""
    shown_url = None if store is None else public_url(store)
    run = new_run(folder, command, config, shown_url, surroundings())
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
    click.option(
        "--dashboard-processes",
        type=click.IntRange(1, 64),
        default=1,
        show_default=True,
        help="Server processes of the dashboard, for many browsers; they need WebSocket.",
    ),
    click.option("--dashboard/--no-dashboard", default=None, help="Default: not with --trace."),
    click.option("--metrics", type=int, metavar="PORT", help="Answer Prometheus on this port of this host."),
    click.option(
        "--alert",
        metavar="SEVERITY",
        help="Tell of each call that lost so much time: 200 (µs), 5ms, 2s; with a webhook or a command.",
    ),
    click.option(
        "--alert-url",
        metavar="URL",
        envvar=URL_VARIABLE,
        help=f"Webhook that alerts are posted to. Better from {URL_VARIABLE}, which nobody else can read.",
    ),
    click.option(
        "--alert-command",
        metavar="COMMAND",
        envvar=COMMAND_VARIABLE,
        help=f"Command that gets alerts on its standard input. Also from {COMMAND_VARIABLE}.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Summary as JSON on standard output."),
)
