"""``chimbuko plugins``: lists what installed packages add."""

from __future__ import annotations

from collections.abc import Callable

import click
import msgspec

from chimbuko.capture.formats.readers.registry import Format as TraceFormat
from chimbuko.causes.kinds.cause import Cause
from chimbuko.cli.shared.table import Column, Output, print_json
from chimbuko.core import plugins
from chimbuko.core.config import DetectorEntry
from chimbuko.core.errors import ConfigError
from chimbuko.launcher.jobs.schedulers import SchedulerKind
from chimbuko.provenance.export.registry import Format as ExportFormat

TYPES: dict[str, type[object] | None] = {
    "detectors": DetectorEntry,
    "causes": Cause,
    "sinks": None,
    "exporters": ExportFormat,
    "readers": TraceFormat,
    "schedulers": SchedulerKind,
    "analyses": None,
}
"""Type of the values of each kind; None for a function."""


class Plugin(msgspec.Struct, frozen=True):
    """One plugin."""

    kind: str
    name: str
    package: str
    """Package that declares it, with its version."""
    place: str
    """Place of its value, as ``module:name``."""
    problem: str
    """Reason why it cannot be used; empty if it can."""


@click.command("plugins", short_help="List what installed packages add to Chimbuko.")
@click.option("--json", "as_json", is_flag=True, help="Print all fields as JSON.")
def command(as_json: bool) -> None:
    """List the detectors, causes, alert sinks, export formats, readers of traces, schedulers and analyses of
    installed packages. Each is loaded; what is broken is named, and left out everywhere.

    \b
    Examples:
      chimbuko plugins
      chimbuko plugins --json | jq '.plugins[].name'
    """
    found = [_plugin(kind, name) for kind in plugins.KINDS for name in plugins.declared(kind)]
    if as_json:
        print_json({"plugins": found})
        return
    if not found:
        click.echo("no installed package adds any; docs/howto/plugins.md says how one does", err=True)
        return
    columns = [Column(title) for title in ("KIND", "NAME", "PACKAGE", "PLACE")]
    rows = [[one.kind, one.name, one.package, one.place, one.problem or "works"] for one in found]
    Output().table([*columns, Column("STATE", may_shrink=True)], rows)


def _plugin(kind: str, name: str) -> Plugin:
    entry = plugins.declared(kind)[name]
    problem = ""
    load: Callable[..., object] = plugins.load
    try:
        load(kind, name, TYPES[kind])
    except ConfigError as error:
        problem = str(error)
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else ""
    return Plugin(kind, name, package, entry.value, problem)
