"""``chimbuko launch``: the job script of a run on many nodes."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from chimbuko.capture.trace.discovery import Transport
from chimbuko.cli.shared.placing import advised_option
from chimbuko.core.errors import ConfigError
from chimbuko.launcher.jobs.archive import write_archive
from chimbuko.launcher.jobs.job import Job, Request, parse_time_s
from chimbuko.launcher.jobs.remote import hosts as on_hosts
from chimbuko.launcher.jobs.schedulers import Allocation, allocation, scheduler_named
from chimbuko.launcher.jobs.script import job_script
from chimbuko.launcher.kernels import await_kernels
from chimbuko.launcher.outcome.progress import say
from chimbuko.runtime.process.cores import core_numbers

_NODES = click.IntRange(min=1)


@click.command(
    "launch",
    short_help="Print the job script of a run on many nodes.",
    context_settings={"allow_interspersed_args": False},
)
@click.option("--slurm", type=_NODES, metavar="NODES", help="Print a script for sbatch.")
@click.option(
    "--pbs", type=_NODES, metavar="NODES", help="Print a script for qsub of PBS Professional or OpenPBS."
)
@click.option("--flux", type=_NODES, metavar="NODES", help="Print a script for flux batch.")
@click.option("--lsf", type=_NODES, metavar="NODES", help="Print a script for bsub.")
@click.option(
    "--scheduler",
    "plugin",
    metavar="NAME:NODES",
    help="Print a script for the scheduler of a plugin.",
)
@click.option(
    "--hosts",
    metavar="LIST",
    help="Print a script for mpirun and ssh on these hosts, with commas between them.",
)
@click.option("--inside", is_flag=True, help="Run the script at once on the nodes that are held here.")
@click.option(
    "-n",
    "--ranks",
    type=click.IntRange(min=1),
    help="Ranks of the program; with --trace cores to ask for, default one of each node.",
)
@click.option(
    "--trace",
    "traces",
    multiple=True,
    metavar="PATTERN",
    help="Run nothing: analyse recorded traces, of which each node's agent takes a share. Repeatable.",
)
@click.option("--time", metavar="TIME", help="The job's time limit, such as 90min, 2h or 1:30:00.")
@click.option("--account", default="", help="Account, project or bank that pays.")
@click.option("--queue", "--partition", default="", help="Queue or partition.")
@click.option("--job-name", default="", metavar="NAME", help="Name of the job.")
@click.option(
    "--module",
    "modules",
    multiple=True,
    metavar="MODULE",
    help="Environment module to load first. Repeatable.",
)
@click.option(
    "--archive",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Archive of this installation, which each node unpacks for itself; made if it is not there.",
)
@click.option(
    "--container", type=click.Path(path_type=Path), metavar="IMAGE", help="Apptainer image with Chimbuko."
)
@click.option("--dedicated", is_flag=True, help="Keep the first node for the services alone.")
@click.option(
    "--bind", default="", metavar="WHERE", help="Address that the broker listens on; default the first node."
)
@click.option(
    "--cores", default="", metavar="LIST", help="Cores that each agent keeps to, such as 0 or 0,2-5."
)
@click.option("--period", type=float, help="Seconds between two steps of the trace; default 1.")
@click.option(
    "--transport",
    type=click.Choice([Transport.FILES.value, Transport.SST.value]),
    help="How the trace reaches its readers; default files.",
)
@advised_option("cores", "period", "transport")
@click.option("--run", type=click.Path(path_type=Path), help="Folder of the run, which all nodes see.")
@click.option("--streams", type=click.Path(path_type=Path), help="Folder for streams on each node's storage.")
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings of the analysis.")
@click.option("--mpirun", metavar="WORDS", help="Words that start the ranks, in place of srun or mpirun.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write the script to.")
@click.argument("program", metavar="[--] PROGRAM...", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(
    context: click.Context,
    slurm: int | None,
    pbs: int | None,
    flux: int | None,
    lsf: int | None,
    plugin: str | None,
    hosts: str | None,
    inside: bool,
    ranks: int | None,
    traces: tuple[str, ...],
    time: str | None,
    account: str,
    queue: str,
    job_name: str,
    modules: tuple[str, ...],
    archive: Path | None,
    container: Path | None,
    dedicated: bool,
    bind: str,
    cores: str,
    period: float | None,
    transport: str | None,
    run: Path | None,
    streams: Path | None,
    config: Path | None,
    mpirun: str | None,
    output: Path | None,
    program: tuple[str, ...],
) -> None:
    """Print a script that runs PROGRAM on many nodes: services on the first, and an agent on each.

    Nothing is started here, but with --inside. Read the script and change it as you like; then give it to
    the scheduler, or run it with bash on the first of the hosts, from which ssh to all of them has to work
    without a password. With --inside it is run at once on the nodes that salloc, qsub -I, flux alloc or
    bsub -I has given. With --trace there is no PROGRAM: the agents share what was recorded of one.

    \b
    Examples:
      chimbuko launch --slurm 4 -n 160 --cores 0 -o job.sh -- tau_exec -T mpi,pthread -adios2_trace ./app
      chimbuko launch --pbs 4 -n 160 --time 2h --account physics --queue normal -o job.sh -- ./app
      chimbuko launch --hosts node1,node2 -n 8 -o job.sh -- chimbuko trace solver.py
      chimbuko launch --slurm 4 -n 160 --advised chimbuko-runs/job-77 -o job.sh -- chimbuko trace solver.py
      chimbuko launch --slurm 900 -n 7200 --archive ~/chimbuko.tar.gz -o job.sh -- chimbuko trace ./app
      chimbuko launch --slurm 4 --trace 'traces/*.bp' -o again.sh
      chimbuko launch --inside -n 32 --mpirun 'srun -n 32 -c 4' -- chimbuko trace solver.py
    """
    asked = {"slurm": slurm, "pbs": pbs, "flux": flux, "lsf": lsf}
    nodes = {name: number for name, number in asked.items() if number is not None}
    if plugin is not None:
        name, _, text = plugin.partition(":")
        nodes[name] = _nodes(text)
    if len(nodes) + (hosts is not None) + inside != 1:
        raise ConfigError(
            "give one of: --slurm, --pbs, --flux or --lsf NODES, --scheduler NAME:NODES, --hosts LIST, "
            "--inside"
        )
    of_job = {"--time": time, "--account": account, "--queue": queue, "--job-name": job_name}
    given = [option for option, value in of_job.items() if value]
    if given and not nodes:
        raise ConfigError(f"{given[0]}: nothing is asked of a scheduler with --hosts or --inside")
    if cores:
        core_numbers(cores)
    _check_what(context, program, ranks, traces)
    job = Job(
        program=list(program),
        ranks=ranks or 1,
        traces=traces,
        chimbuko=_this_command(),
        run=run,
        is_dedicated=dedicated,
        bind=bind,
        streams=streams,
        cores=cores,
        period_s=period,
        transport=None if traces else transport,
        config=config,
        mpirun=_words(mpirun),
        modules=modules,
        archive=_archived(archive, container),
        container=container,
    )
    request = None
    if hosts is not None:
        names = hosts.split(",")
        per_node = _per_node(job, len(names))
        scheduler = on_hosts(job, names)
    elif inside:
        held = allocation(os.environ)
        _per_node(job, len(held.hosts))
        _explain(held)
        scheduler = scheduler_named(held.scheduler)(job, None)
    else:
        ((name, number),) = nodes.items()
        per_node = _per_node(job, number)
        request = Request(number, per_node, parse_time_s(time) if time else None, account, queue, job_name)
        scheduler = scheduler_named(name)(job, request)
    script = job_script(job, scheduler, request)
    if output is not None:
        _write(output, script)
    elif inside:
        os.execvp("bash", ["bash", *(["-l"] if modules else []), "-c", script])
    else:
        click.echo(script, nl=False)


def _nodes(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ConfigError(f"--scheduler: {text!r} is no number of nodes; give NAME:NODES, such as oar:4")
    return int(text)


def _check_what(
    context: click.Context, program: Sequence[str], ranks: int | None, traces: Sequence[str]
) -> None:
    """See that there is a program with ranks, or else what was recorded of one."""
    if bool(program) == bool(traces):
        raise ConfigError("give a PROGRAM, or with --trace what was recorded of one")
    if program and ranks is None:
        raise ConfigError("-n: how many ranks does the program have?")
    of_line = click.core.ParameterSource.COMMANDLINE
    for name in ("streams", "transport", "mpirun"):
        if traces and context.get_parameter_source(name) is of_line:
            raise ConfigError(f"--{name}: with --trace no program is run")


def _per_node(job: Job, nodes: int) -> int:
    """Return the ranks on each node that has ranks."""
    with_ranks = nodes - job.is_dedicated
    if with_ranks == 0:
        raise ConfigError("--dedicated: there is no second node for the program")
    return -(-job.ranks // with_ranks)


def _explain(held: Allocation) -> None:
    here, names = platform.node().partition(".")[0], [host.partition(".")[0] for host in held.hosts]
    say(f"inside a job of {held.scheduler} with {', '.join(held.hosts)}")
    if here not in names:
        say(f"{here} is none of them: the services run here, where the nodes have to reach them")


def _archived(archive: Path | None, container: Path | None) -> Path | None:
    """Return the archive, made if it is not there yet."""
    if archive is None:
        return None
    if container is not None:
        raise ConfigError("--archive or --container: give one of them, as each has the whole installation")
    if archive.exists():
        say(f"{archive} is taken as it is; remove it to have it made of this installation")
    else:
        # What is not compiled here, each node would compile for itself.
        await_kernels()
        say(f"making {archive}; that takes a minute")
        say(f"{archive} has {write_archive(archive) / 1e6:.0f} MB")
    return archive


def _write(output: Path, script: str) -> None:
    try:
        output.write_text(script)
        output.chmod(0o755)
    except OSError as error:
        raise ConfigError(f"{output}: cannot be written ({error.strerror})") from error


def _this_command() -> list[str]:
    """Return the command by which nodes call this installation."""
    script = Path(sys.executable).with_name("chimbuko")
    return [str(script)] if script.exists() else [sys.executable, "-m", "chimbuko"]


def _words(text: str | None) -> list[str] | None:
    try:
        return None if text is None else shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"--mpirun {text!r}: {error}") from error
