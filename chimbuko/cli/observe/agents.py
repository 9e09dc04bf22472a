"""``chimbuko model agents``: where the analysis of a run had best been."""

from __future__ import annotations

from pathlib import Path

import click

from chimbuko.cli.shared.result import MOST_ADVISED, as_advice, print_advice, print_intervals
from chimbuko.cli.shared.table import Output, print_json
from chimbuko.provenance.query.placing import advices
from chimbuko.runtime.runs.directory import RunDirectory


@click.command("agents", short_help="Recommend where the analysis itself runs, by an earlier run.")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON, with times in seconds.")
def command(run_dir: Path, as_json: bool) -> None:
    """Say with how many agents, on which cores, with which period and transport RUN is analysed best.

    For each of the four nodes with most events, it says how long a step takes with the analysis on all cores,
    on some of the application's, or on cores of its own. This follows from what the node's agents took for
    seconds, steps and events. It also says how well each interval of the run is predicted by the others.
    'chimbuko run' and 'chimbuko launch' follow the advice with --advised RUN.

    \b
    Examples:
      chimbuko model agents chimbuko-runs/job-77
      chimbuko model agents runs/heat --json | jq -r '.[0].cores'
    """
    found = advices(RunDirectory(run_dir), MOST_ADVISED)
    if as_json:
        print_json([as_advice(one) for one in found])
        return
    output = Output()
    for one in found:
        print_advice(one, output)
    output.heading("Intervals, each as all others predict it")
    print_intervals(found, output)
