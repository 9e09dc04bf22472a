"""The command line: one file per verb."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from chimbuko import __version__
from chimbuko.errors import ChimbukoError

VERBS = (
    *("run", "query", "show", "compare", "sql", "view", "runs", "recall", "export"),
    *("relabel", "deliver", "filter", "trace", "replay", "index"),
    *("launch", "serve", "agent", "stop", "doctor", "warmup"),
)


class _Verbs(click.Group):
    """Loads only the verb that was asked for: importing all of them costs a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"chimbuko.cli.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ChimbukoError as error:
            print(f"chimbuko: {error}", file=sys.stderr)
            ctx.exit(error.exit_code)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="chimbuko")
def main() -> None:
    """Find the abnormally slow calls of a running parallel program.

    \b
    Examples:
      chimbuko run -- mpirun -n 4 tau_exec -T mpi,pthread -adios2_trace ./app
      chimbuko run --trace 'traces/tau-metrics-*.bp'
      chimbuko query --function 'MPI_*' --limit 10
    """
