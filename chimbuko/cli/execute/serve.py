"""``chimbuko serve``: the services of a run whose agents are on other nodes."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from chimbuko.cli.options.analysis import analysis_options
from chimbuko.cli.options.services import service_options
from chimbuko.cli.output.result import show
from chimbuko.errors import ConfigError
from chimbuko.follow.space import MEMORY
from chimbuko.launcher.nodes.host import host
from chimbuko.launcher.options import AnalysisOptions, ServiceChoices
from chimbuko.protocol.broker import LOOPBACK, address_of
from chimbuko.trace.discovery import Transport


@click.command("serve", short_help="Run the services of a run on many nodes.")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--bind",
    default=LOOPBACK,
    show_default=True,
    metavar="WHERE[:PORT]",
    help="What the broker listens on: a network interface, an address, or a name of this host.",
)
@click.option(
    "--streams",
    type=click.Path(path_type=Path),
    help=f"Folder, on each node's own storage, where streams meet their agent; default {MEMORY}, and over "
    "SST trace/ of the run.",
)
@click.option(
    "--transport",
    type=click.Choice([Transport.FILES.value, Transport.SST.value]),
    default=Transport.FILES.value,
    show_default=True,
    help="How traces come to the agent of their node: through files in its memory, or over SST.",
)
@service_options
@analysis_options
def command(
    run_dir: Path,
    bind: str,
    streams: Path | None,
    transport: str,
    services: ServiceChoices,
    as_json: bool,
    analysis: AnalysisOptions,
) -> None:
    """Run the services of RUN, a new folder on a file system that all nodes share.

    Agents join with 'chimbuko agent RUN', and programs are started with RUN/settings/node. It ends, with
    the summary, after 'chimbuko stop RUN' (or SIGTERM) when all agents have ended; a second signal ends it
    without them. Address and password of the broker are in RUN/broker, and the address of the dashboard is
    in RUN/dashboard; only you can read these.

    \b
    Examples:
      chimbuko serve runs/heat
      chimbuko serve runs/heat --bind ib0 --streams /tmp/heat
      chimbuko stop runs/heat
    """
    shown = partial(show, as_json=as_json)
    sys.exit(host(run_dir, analysis, services, Transport(transport), _address(bind), streams, shown))


def _address(bind: str) -> tuple[str, int]:
    name, colon, port = bind.partition(":")
    if colon and not (port.isdecimal() and 0 < int(port) < 1 << 16):
        raise ConfigError(f"--bind {bind}: {port!r} is no port; give one like ib0:6400")
    address = address_of(name)
    if address == "0.0.0.0":
        raise ConfigError("--bind 0.0.0.0: agents need the address of one network; name it, or its interface")
    return address, int(port or 0)
