"""``chimbuko stop``: a run on many nodes comes to an end."""

from __future__ import annotations

from pathlib import Path

import click

from chimbuko.core.errors import ConfigError
from chimbuko.runtime.protocol.membership import ask_to_end
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.runs.finding import find_run


@click.command("stop", short_help="End a run on many nodes.")
@click.argument("run_dir", metavar="[RUN]", required=False, type=click.Path(path_type=Path))
def command(run_dir: Path | None) -> None:
    """Ask agents and services of RUN to come to an end; it does not wait for that.

    RUN is the folder of 'chimbuko serve', by default the newest run under ./chimbuko-runs. Agents whose
    streams have not ended by then read them for 10 s more; the program goes on undisturbed.

    \b
    Example:
      chimbuko stop runs/heat
    """
    run = find_run(run_dir)
    if not ask_to_end(RunBroker.connect(run.read_broker_url(), run.read_info().id)):
        raise ConfigError(f"{run.path}: not a run of 'chimbuko serve'; end it with Ctrl-C")
