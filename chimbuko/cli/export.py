"""``chimbuko export``: writes what a run kept, in the format of other tools."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from chimbuko.provenance.exports import export_version2
from chimbuko.provenance.queries import open_run
from chimbuko.rundir import find_run

FORMATS = {"v2": export_version2}


@click.command("export", short_help="Write a run as JSON of Chimbuko's version 2.")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default="v2",
    show_default=True,
    help="v2: JSON as Chimbuko's version 2 writes it, PROGRAM/RANK/STEP.anomalies.json and so on.",
)
@click.option(
    "-o",
    "--output",
    "folder",
    required=True,
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="New or empty.",
)
@click.option("--json", "as_json", is_flag=True, help="What was written, as JSON.")
def command(run: Path | None, form: str, folder: Path, as_json: bool) -> None:
    """Write all calls of RUN, a run's folder; by default of the newest under ./chimbuko-runs.

    \b
    Examples:
      chimbuko export -o records
      chimbuko export chimbuko-runs/heat --format v2 -o heat-records
      jq '.[].func' records/0/*/*.anomalies.json
    """
    with open_run(find_run(run)) as provenance:
        exported = FORMATS[form](provenance, folder)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(exported)))
    else:
        print(
            f"{exported.anomalies:,} abnormal and {exported.normal_calls:,} normal calls: {exported.folder}",
            file=sys.stderr,
        )
