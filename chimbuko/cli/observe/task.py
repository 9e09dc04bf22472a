"""``chimbuko task``: what a workflow engine of the user's own reports of its tasks."""

from __future__ import annotations

import click

from chimbuko.cli.shared.services import service_option

LOOK_S = 1.0


@click.group("task", short_help="Report tasks of your own workflow engine.")
def command() -> None:
    """Report in the namespace 'workflow' what a workflow engine does with its tasks.

    \b
    Examples:
      chimbuko task started simulate-17 --program heat --nodes node7,node8 --cores 16
      chimbuko task ended simulate-17 --exit-code 0
      chimbuko task read 'rp.session.*/*.prof' 'pilot.0000/*.prof' 'pilot.0000/task.*/*.prof'
    """


@command.command("started", short_help="A task runs from now on.")
@click.argument("name")
@click.option("--program", help="Program that the task runs.")
@click.option(
    "--nodes", default="", metavar="NAMES", help="Nodes on which it runs, with commas between them."
)
@click.option("--ranks", type=click.IntRange(min=1), help="Number of its processes.")
@click.option("--cores", type=click.IntRange(min=1), help="Number of its cores, over all nodes.")
@click.option(
    "--attempt",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of the attempt, from 1 on.",
)
@service_option
def started(
    name: str,
    program: str | None,
    nodes: str,
    ranks: int | None,
    cores: int | None,
    attempt: int,
    service: str | None,
) -> None:
    """Report that the task NAME runs from now on.

    \b
    Examples:
      chimbuko task started simulate-17 --program heat --nodes node7,node8 --cores 16
    """
    from chimbuko.observe.workflow.record import task_started

    names = [node for node in nodes.split(",") if node]
    task_started(name, program=program, nodes=names, ranks=ranks, cores=cores, attempt=attempt, place=service)


@command.command("ended", short_help="A task has ended.")
@click.argument("name")
@click.option(
    "--exit-code",
    type=int,
    default=0,
    show_default=True,
    help="Exit code of the task: 0 if it is done, else it has failed.",
)
@service_option
def ended(name: str, exit_code: int, service: str | None) -> None:
    """Report that the task NAME has ended.

    \b
    Examples:
      chimbuko task ended simulate-17 --exit-code $?
    """
    from chimbuko.observe.workflow.record import task_ended

    task_ended(name, exit_code, place=service)


@command.command("read", short_help="Publish RADICAL-Pilot's profiles.")
@click.argument("patterns", metavar="PATTERN...", nargs=-1, required=True)
@click.option("--follow", is_flag=True, help="Go on with what is written later, until Ctrl-C.")
@service_option
def read(patterns: tuple[str, ...], follow: bool, service: str | None) -> None:
    """Publish what RADICAL-Pilot has written of its tasks into files that match PATTERN.

    \b
    Examples:
      chimbuko task read 'rp.session.*/*.prof' 'pilot.0000/*.prof' 'pilot.0000/task.*/*.prof'
      chimbuko task read --follow 'rp.session.*/*.prof' 'pilot.0000/*.prof' 'pilot.0000/task.*/*.prof'
    """
    from chimbuko.observe.workflow.profiles import publish_profiles

    number = publish_profiles(patterns, service, LOOK_S if follow else None)
    print(f"{number} lines of tasks were published")
