"""``chimbuko export``: writes what a run kept, in the format of other tools."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from chimbuko.cli.shared.analysis import PluginChoice
from chimbuko.cli.shared.calls import CallChoice, call_options
from chimbuko.cli.shared.table import print_json
from chimbuko.launcher.outcome.reach import reachable_run
from chimbuko.provenance.export.registry import FORMATS, export
from chimbuko.provenance.query.run import open_run


@click.command("export", short_help="Write a run for Perfetto, speedscope, notebooks and other tools.")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=PluginChoice(FORMATS, "exporters"),
    required=True,
    help="; ".join(f"{name}: {form.purpose}" for name, form in FORMATS.items()) + ".",
)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="PATH",
    type=click.Path(path_type=Path),
    help=f"A new file; for {' and '.join(name for name, form in FORMATS.items() if form.is_folder)} "
    "a new or empty folder.",
)
@call_options(label="any")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def command(run: Path | None, form: str, output: Path, choice: CallChoice, as_json: bool) -> None:
    """Write recorded calls of RUN, a run's folder; by default all of the newest under ./chimbuko-runs.

    The calls around those that are chosen, messages and counters come along.

    \b
    Examples:
      chimbuko export --format perfetto -o heat.pftrace
      chimbuko export chimbuko-runs/heat --format speedscope --rank 3 --label anomaly -o heat.speedscope.json
      chimbuko export --format parquet -o heat-tables
      chimbuko export --format v2 -o records
    """
    with open_run(reachable_run(run)) as provenance:
        exported = export(provenance, form, output, choice.filter(provenance))
    if as_json:
        print_json(exported)
    else:
        print(
            f"{exported.anomalies:,} abnormal and {exported.normal_calls:,} normal calls: {exported.path}",
            file=sys.stderr,
        )
