"""``chimbuko doctor``: what of a machine could get in the way of a run, and the last steps of a run."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from chimbuko.cli.shared.table import print_json
from chimbuko.core.errors import ChimbukoError
from chimbuko.core.names import visible
from chimbuko.launcher.checkup import Finding, check_node, check_up
from chimbuko.runtime.process.storyfile import last_steps
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE, LOOPBACK
from chimbuko.runtime.runs.directory import RUNS_FOLDER
from chimbuko.runtime.runs.finding import find_run
from chimbuko.runtime.runs.namedstores import STORE_VARIABLE

MOST_STEPS = 20
"""Maximum number of steps that are shown of a process; its file has more."""


@click.command("doctor", short_help="Check this machine before a run.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=RUNS_FOLDER,
    help="Folder that runs will go to.",
)
@click.option(
    "--bind", default=LOOPBACK, metavar="WHERE", help="Address to listen on, as of 'chimbuko serve'."
)
@click.option(
    "--broker", envvar=BROKER_VARIABLE, metavar="URL", help=f"Broker; also set by {BROKER_VARIABLE}."
)
@click.option(
    "--store", envvar=STORE_VARIABLE, metavar="URL", help=f"Database; also set by {STORE_VARIABLE}."
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    help="Folder of a good run ('chimbuko monitor --csv'), to compare this node with.",
)
@click.option(
    "--run",
    "run_dir",
    metavar="RUN",
    type=click.Path(path_type=Path),
    help="Check nothing; print what the processes of a run noted of their last steps.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
def command(
    output: Path,
    bind: str,
    broker: str | None,
    store: str | None,
    baseline: Path | None,
    run_dir: Path | None,
    as_json: bool,
) -> None:
    """Check this machine: a line for each thing, with what to do about it.

    Everything is tried out: a stream over ADIOS2, a database in the folder, the broker. Run it on a compute
    node, under the conditions of the job. The exit code is 1 where something will not work, and 0 with
    warnings.

    \b
    Examples:
      chimbuko doctor
      srun -N 1 chimbuko doctor --bind ib0 --output /lustre/project/runs
      chimbuko doctor --baseline samples
      chimbuko doctor --json | jq '.[] | select(.state != "ok")'
      chimbuko doctor --run chimbuko-runs/heat
    """
    if run_dir is not None:
        _tell_stories(find_run(run_dir).logs, as_json)
        return
    findings = [
        *check_up(output, Path(tempfile.gettempdir()), bind, broker, store),
        *check_node(baseline),
    ]
    if as_json:
        print_json(findings)
    else:
        for finding in findings:
            click.echo(visible(_line(finding)))
    if any(finding.state == "problem" for finding in findings):
        sys.exit(ChimbukoError.exit_code)


def _tell_stories(logs: Path, as_json: bool) -> None:
    stories = last_steps(logs, MOST_STEPS)
    if as_json:
        print_json(stories)
        return
    for name, lines in stories.items():
        click.echo(f"{visible(name)}, in seconds of its node's clock:")
        for line in lines:
            click.echo(f"  {visible(line)}")
    if not stories:
        click.echo(f"{logs}: no stories yet; a process writes one when it ends, or the broker fails")


def _line(finding: Finding) -> str:
    line = f"{finding.state:<8} {finding.about}: {finding.text}"
    return f"{line}; {finding.advice}" if finding.advice else line
