"""``chimbuko runs relabel``: judges the recorded calls of a run again, by what it knew at its end."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from chimbuko.cli.shared.table import print_json
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.explain.relabelling import relabel_run, relabelled_line
from chimbuko.runtime.runs.finding import find_run


@click.command("relabel", short_help="Judge the recorded calls again, by the final model.")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--delete", "is_deleting", is_flag=True, help="Remove calls that are abnormal no longer.")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
def command(run: Path | None, is_deleting: bool, as_json: bool) -> None:
    """Judge the recorded calls of RUN again; by default of the newest run under ./chimbuko-runs.

    A call is judged while the run goes on, by what is known then. This judges them all by the model that the
    run ended with, and its own thresholds: labels, scores, severities and expected runtimes are replaced, and
    counts per step, rank and function and incidents follow. Calls that were never recorded are not there to
    be judged.

    \b
    Examples:
      chimbuko runs relabel
      chimbuko runs relabel chimbuko-runs/heat --delete
    """
    found = find_run(run)
    if found.read_info().state == "running":
        raise ConfigError(f"{found.path}: the run goes on; relabel it when it has ended")
    relabelled = relabel_run(found, is_deleting)
    if as_json:
        print_json(relabelled)
    else:
        print(relabelled_line(relabelled), file=sys.stderr)
