"""``chimbuko serve``: the services of a run whose agents are on other nodes."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from chimbuko.capture.follow.space import MEMORY
from chimbuko.capture.trace.discovery import Transport
from chimbuko.cli.shared.analysis import analysis_options
from chimbuko.cli.shared.placing import advised_option
from chimbuko.cli.shared.result import show
from chimbuko.cli.shared.services import bind_option, service_options
from chimbuko.core.errors import ConfigError
from chimbuko.launcher.host import host, resume
from chimbuko.launcher.options import AnalysisOptions, HostOptions
from chimbuko.launcher.services.choices import ServiceChoices


@click.command("serve", short_help="Run the services of a run on many nodes.")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@bind_option
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
@click.option(
    "--trace",
    multiple=True,
    metavar="PATTERN",
    help="Analyse recorded traces: each agent takes a share of the files, which all nodes see. Repeatable.",
)
@click.option("--agents", type=int, default=1, show_default=True, help="Number of agents, with --trace.")
@click.option(
    "--resume",
    "is_resumed",
    is_flag=True,
    help="Go on with RUN, whose services have died or could not start, as it was begun; only --bind may "
    "differ.",
)
@advised_option("period", "transport")
@service_options
@analysis_options
@click.pass_context
def command(
    context: click.Context,
    run_dir: Path,
    bind: str,
    streams: Path | None,
    transport: str,
    trace: tuple[str, ...],
    agents: int,
    is_resumed: bool,
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
      chimbuko serve runs/heat --trace 'traces/*.bp' --agents 4
      chimbuko serve runs/heat --resume
      chimbuko stop runs/heat
    """
    shown = partial(show, as_json=as_json)
    if is_resumed:
        given = _given(context) - {"run_dir", "is_resumed", "as_json"}
        if given - {"bind"}:
            raise ConfigError("--resume goes on as the run was started; beside it only --bind can be given")
        sys.exit(resume(run_dir, bind if given else None, shown))
    options = HostOptions(
        analysis=analysis,
        services=services,
        transport=Transport(transport),
        bind=bind,
        streams=streams,
        trace=trace,
        agents=agents,
    )
    sys.exit(host(run_dir, options, shown))


def _given(context: click.Context) -> set[str]:
    """Return the names of the parameters that are on the command line."""
    of_line = click.core.ParameterSource.COMMANDLINE
    return {name for name in context.params if context.get_parameter_source(name) is of_line}
