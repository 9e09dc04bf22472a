"""``chimbuko agent``: the agent of one node of a run whose services are elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from chimbuko.cli.shared.placing import advised_option
from chimbuko.core.units import parse_age_us
from chimbuko.launcher.nodeagent import attend
from chimbuko.launcher.nodescript import NODE_VARIABLE


@click.command("agent", short_help="Read the streams of this node, for a run on many nodes.")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--streams",
    type=click.Path(path_type=Path),
    help="Folder where the streams are; default that of this node in RUN.",
)
@click.option(
    "--node",
    envvar=NODE_VARIABLE,
    help=f"Name of this node; default that of the host. Also from {NODE_VARIABLE}.",
)
@advised_option("cores")
@click.option("--cores", metavar="LIST", help="Keep to these cores, such as 0,2-5; default all.")
@click.option(
    "--patience",
    default="5min",
    show_default=True,
    metavar="TIME",
    help="Longest time to read on without services that have died, and may be resumed.",
)
def command(run_dir: Path, streams: Path | None, node: str | None, cores: str | None, patience: str) -> None:
    """Read the streams of this node for RUN, the folder of 'chimbuko serve', which need not be there yet.

    It ends after 'chimbuko stop RUN' (or SIGTERM), when its streams have ended or 10 s later. With
    --streams it joins a job that runs already: what came before is a gap.

    \b
    Examples:
      chimbuko agent runs/heat --cores 0
      chimbuko agent runs/heat --streams /scratch/job-streams
      srun --overlap --ntasks-per-node=1 chimbuko agent runs/heat
    """
    patience_s = parse_age_us(patience) / 1e6
    sys.exit(attend(run_dir, streams, node, cores, patience_s))
