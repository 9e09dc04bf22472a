"""The options of the services, which several verbs start.

The option that says what a service's own broker listens on.

The option that says where a service of namespaces is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from chimbuko.core.errors import ConfigError
from chimbuko.core.units import parse_duration_us
from chimbuko.launcher.services.choices import AlertOptions, ServiceChoices
from chimbuko.observe.namespaces.exchange.keys import PLACE_VARIABLE
from chimbuko.provenance.alerts.sinks import SINKS, sinks_of
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE, LOOPBACK, TOKEN_VARIABLE, metrics_place
from chimbuko.runtime.runs.namedstores import STORE_VARIABLE
from chimbuko.viz.http.listening import Front

bind_option = click.option(
    "--bind",
    default=LOOPBACK,
    show_default=True,
    metavar="WHERE[:PORT]",
    help="What the broker listens on: a network interface, an address, or a name of this host.",
)


service_option = click.option(
    "--service",
    metavar="PLACE",
    help="Folder of the service of namespaces, or file of a job's place in it; default: CHIMBUKO_NAMESPACES.",
)


def service_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of the services; it gets them as ``services``, a ``ServiceChoices``, and
    ``as_json``.
    """

    @functools.wraps(command)
    def with_services(
        alert: str | None,
        metrics: str | None,
        dashboard_bind: str,
        dashboard_certificate: Path | None,
        dashboard_key: Path | None,
        dashboard_url: str,
        as_json: bool,
        **values: Any,
    ) -> None:
        names = ("store", "broker", "port", "dashboard_processes", "dashboard", "is_opened", "namespaces")
        given = {name: values.pop(name) for name in names}
        if given["is_opened"] and given["dashboard"] is False:
            raise ConfigError("--open: there is no dashboard to open; leave out --no-dashboard")
        given["dashboard"] = given["is_opened"] or given["dashboard"]
        alerts = _alerts(alert, {kind.variable: values.pop(kind.parameter) or "" for kind in SINKS})
        if metrics is not None:
            metrics_place(metrics)
        if given["namespaces"]:
            # Here because it loads what reads namespaces, which takes 0.1 s.
            from chimbuko.observe.namespaces.exchange.jobaddress import find_address

            find_address(given["namespaces"])
        front = Front(dashboard_bind, dashboard_certificate, dashboard_key, dashboard_url)
        choices = ServiceChoices(**given, front=front, metrics=metrics, alerts=alerts)
        command(services=choices, as_json=as_json, **values)

    wrapped: Callable[..., Any] = with_services
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def _alerts(severity: str | None, sinks: dict[str, str]) -> AlertOptions | None:
    if severity is None:
        # The variables may be there for other runs.
        return None
    if not sinks_of(sinks):
        raise ConfigError(
            "--alert: there is nobody to alert; give "
            + " or ".join(f"{kind.option} (or set {kind.variable})" for kind in SINKS)
        )
    return AlertOptions(parse_duration_us(severity), sinks)


_OPTIONS = (
    click.option(
        "--store",
        metavar="URL",
        envvar=STORE_VARIABLE,
        help="PostgreSQL database for the provenance; default SQLite in the run's folder. Better set in "
        f"{STORE_VARIABLE}, which other users cannot read.",
    ),
    click.option(
        "--broker",
        metavar="URL",
        envvar=BROKER_VARIABLE,
        help="Redis, Valkey or a cluster to use as the broker; default a private one. "
        f"Also set by {BROKER_VARIABLE}.",
    ),
    click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=0,
        help="Port of the dashboard; default any free one.",
    ),
    click.option(
        "--dashboard-processes",
        type=click.IntRange(1, 64),
        default=1,
        show_default=True,
        help="Server processes of the dashboard, for many browsers, which need WebSocket with more than one.",
    ),
    click.option(
        "--dashboard/--no-dashboard",
        default=None,
        help="Whether the run has a dashboard; by default it has, unless --trace is given.",
    ),
    click.option(
        "--open",
        "is_opened",
        is_flag=True,
        help="Show the dashboard in the browser of this desktop.",
    ),
    click.option(
        "--dashboard-bind",
        default=LOOPBACK,
        show_default=True,
        metavar="WHERE",
        help="What the dashboard listens on: an address, a network interface, a name of this host; "
        "0.0.0.0 for all.",
    ),
    click.option(
        "--dashboard-certificate",
        metavar="FILE",
        type=click.Path(path_type=Path, resolve_path=True),
        help="Certificates in PEM: the dashboard speaks TLS.",
    ),
    click.option(
        "--dashboard-key",
        metavar="FILE",
        type=click.Path(path_type=Path, resolve_path=True),
        help="Key of the certificate; default in the same file.",
    ),
    click.option(
        "--dashboard-url",
        metavar="URL",
        default="",
        help="Address at which browsers reach the dashboard, through a proxy or the port of a container.",
    ),
    click.option(
        "--metrics",
        metavar="[WHERE:]PORT",
        help="Serve metrics for Prometheus on this port, of the loopback where no address or interface is "
        "given. Prometheus has to send the token in the file metrics-token of the run's folder: the one in "
        f"{TOKEN_VARIABLE}, or a new one.",
    ),
    click.option(
        "--alert",
        metavar="SEVERITY",
        help="Send an alert for each call that lost at least this much time: 200us, 5ms, 2s.",
    ),
    *(
        click.option(kind.option, metavar=kind.metavar, envvar=kind.variable, help=kind.help)
        for kind in SINKS
    ),
    click.option(
        "--namespaces",
        metavar="PLACE",
        envvar=PLACE_VARIABLE,
        help="Service of namespaces to which the programs publish quantities that they compute; wrong ones "
        "are reported with the run. Folder of the service, or file of a job's place in it. Also set by "
        f"{PLACE_VARIABLE}.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON."),
)
