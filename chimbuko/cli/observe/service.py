"""Verbs of ``chimbuko namespaces`` that serve others: the service, its jobs, and workers for analyses."""

from __future__ import annotations

from pathlib import Path

import click

from chimbuko.cli.shared.services import bind_option
from chimbuko.core.units import parse_duration_us, parse_size
from chimbuko.observe.namespaces.exchange.keys import STANDING
from chimbuko.runtime.process.lifetime import log as say
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE, listening_place


@click.command("serve", short_help="Run the service until Ctrl-C.")
@click.argument("folder", type=click.Path(path_type=Path))
@bind_option
@click.option(
    "--broker",
    metavar="URL",
    envvar=BROKER_VARIABLE,
    help="Redis, Valkey or a cluster of them, whose user may give rights to others; default our own.",
)
@click.option(
    "--name", default="namespaces", show_default=True, help="Name of the service, at a broker with others."
)
@click.option(
    "--namespace", "more", multiple=True, metavar="NAME", help="A further namespace; may be given again."
)
@click.option(
    "--instances",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Instances of each namespace; ranks publish to them by turns, and they stand in for each other.",
)
@click.option(
    "--keep",
    default="64MB",
    show_default=True,
    metavar="SIZE",
    help="Size of what each instance keeps of each job: of publications, and of the values that are known.",
)
@click.option("--cores", default="", metavar="LIST", help="Keep to these cores, such as 0,2-5; default all.")
@click.option(
    "--workers",
    type=click.IntRange(0, 256),
    default=0,
    show_default=True,
    help="Number of analyses that are run at once for programs of the job 'default' that ask for it.",
)
def serve_namespaces(
    folder: Path,
    bind: str,
    broker: str | None,
    name: str,
    more: tuple[str, ...],
    instances: int,
    keep: str,
    cores: str,
    workers: int,
) -> None:
    """Serve namespaces until Ctrl-C or SIGTERM; FOLDER is a new one, or that of a service that goes on.

    What is published outlives the programs, the service and our own broker: it is kept in FOLDER. Who has the
    file FOLDER/jobs/JOB/writer may publish and read as that job, and who has .../reader may read. The job
    'default' is there from the beginning, 'chimbuko namespaces admit' makes others.

    \b
    Examples:
      chimbuko namespaces serve observations
      chimbuko namespaces serve observations --bind ib0 --instances 4 --cores 60-63
    """
    from chimbuko.observe.namespaces.exchange.keys import check_name
    from chimbuko.observe.namespaces.service.folder import ServiceSettings
    from chimbuko.observe.namespaces.service.serving import ServeOptions, serve

    namespaces = tuple(dict.fromkeys((*STANDING, *(check_name(one, "namespace") for one in more))))
    settings = ServiceSettings(check_name(name, "service"), namespaces, instances, parse_size(keep))
    options = ServeOptions(settings, broker, listening_place(bind), cores, workers)
    problems = serve(folder, options, say)
    for problem in problems:
        say(problem)


@click.command("admit", short_help="Let a further job use the service.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("job")
def admit(folder: Path, job: str) -> None:
    """Let JOB use the service in FOLDER, with namespaces of its own; prints the file of its place.

    \b
    Examples:
      chimbuko namespaces admit observations heat
      export CHIMBUKO_NAMESPACES=$(chimbuko namespaces admit observations heat)
    """
    from chimbuko.observe.namespaces.exchange.jobaddress import WRITER
    from chimbuko.observe.namespaces.service.folder import ServiceFolder
    from chimbuko.observe.namespaces.service.serving import await_admitted

    service = ServiceFolder(folder)
    service.settings()
    service.admit(job)
    await_admitted(service, job)
    print(service.place_path(job, WRITER).resolve())


@click.command("dismiss", short_help="Remove a job with all that it published.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("job")
def dismiss(folder: Path, job: str) -> None:
    """Take the rights of JOB away, and remove all that it has published.

    \b
    Examples:
      chimbuko namespaces dismiss observations heat
    """
    from chimbuko.observe.namespaces.service.folder import ServiceFolder

    service = ServiceFolder(folder)
    service.settings()
    service.dismiss(job)


@click.command("work", short_help="Run analyses for programs that ask for it.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--job", default="default", show_default=True, help="Name of the job whose analyses are run.")
@click.option(
    "--at-once",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Number of analyses at the same time.",
)
@click.option(
    "--limit",
    default="600s",
    show_default=True,
    metavar="DURATION",
    help="Longest time of an analysis.",
)
def work_for(folder: Path, job: str, at_once: int, limit: str) -> None:
    """Run analyses of a job of the service in FOLDER for those who ask for it, until Ctrl-C or SIGTERM.

    It is a Celery worker at the broker of the service. Those who ask are 'chimbuko namespaces analyse
    --worker' and the method analyse_async of a program. Several workers share what there is to do.

    \b
    Examples:
      chimbuko namespaces work observations
      chimbuko namespaces work observations --job heat --at-once 4 --limit 3600s
    """
    from chimbuko.observe.namespaces.service.folder import ServiceFolder
    from chimbuko.observe.namespaces.service.worker import work

    limit_s = parse_duration_us(limit) / 1e6
    work(ServiceFolder(folder), job, at_once, limit_s, lambda: say(f"it works for job {job}; Ctrl-C ends it"))


VERBS = (serve_namespaces, admit, dismiss, work_for)
