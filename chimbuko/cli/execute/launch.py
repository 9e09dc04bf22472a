"""``chimbuko launch``: the job script of a run on many nodes."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from chimbuko.errors import ConfigError
from chimbuko.launcher.agents import core_numbers
from chimbuko.launcher.nodes.jobscript import Job, hosts_script, slurm_script


@click.command(
    "launch",
    short_help="Print the job script of a run on many nodes.",
    context_settings={"allow_interspersed_args": False},
)
@click.option("--slurm", "nodes", type=click.IntRange(min=1), metavar="NODES", help="For sbatch.")
@click.option("--hosts", metavar="LIST", help="For mpirun and ssh: hosts, with commas between them.")
@click.option("-n", "--ranks", type=click.IntRange(min=1), required=True, help="Ranks of the program.")
@click.option("--dedicated", is_flag=True, help="The first node has the services alone.")
@click.option("--bind", metavar="WHERE", help="What the broker listens on; default the first node's name.")
@click.option("--cores", metavar="LIST", help="Cores that each node's agent keeps to, such as 0 or 0,2-5.")
@click.option("--run", type=click.Path(path_type=Path), help="Folder of the run, which all nodes see.")
@click.option("--streams", type=click.Path(path_type=Path), help="Folder for streams on each node's storage.")
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings of the analysis.")
@click.option("--mpirun", metavar="WORDS", help="What starts the ranks, in place of srun or mpirun.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write it there.")
@click.argument("program", metavar="[--] PROGRAM...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    nodes: int | None,
    hosts: str | None,
    ranks: int,
    dedicated: bool,
    bind: str | None,
    cores: str | None,
    run: Path | None,
    streams: Path | None,
    config: Path | None,
    mpirun: str | None,
    output: Path | None,
    program: tuple[str, ...],
) -> None:
    """Print a script that runs PROGRAM on many nodes: services on the first, and an agent on each.

    Nothing is started here. Read the script and change it as you like; then give it to sbatch, or run it
    with bash on the first of the hosts, from which ssh to all of them has to work without a password.

    \b
    Examples:
      chimbuko launch --slurm 4 -n 160 --cores 0 -o job.sh -- tau_exec -T mpi,pthread -adios2_trace ./app
      chimbuko launch --hosts node1,node2 -n 8 -o job.sh -- chimbuko trace solver.py
      chimbuko launch --slurm 4 -n 32 --mpirun 'srun -n 32 -c 4' -o job.sh -- chimbuko trace solver.py
    """
    if (nodes is None) == (hosts is None):
        raise ConfigError("give one of: --slurm NODES, --hosts LIST")
    names = hosts.split(",") if hosts else []
    if dedicated and 1 in (nodes, len(names)):
        raise ConfigError("--dedicated: there is no second node for the program")
    if cores:
        core_numbers(cores)
    job = Job(
        program=list(program),
        ranks=ranks,
        chimbuko=_this_command(),
        run=run,
        is_dedicated=dedicated,
        bind=bind or "",
        streams=streams,
        cores=cores or "",
        config=config,
        mpirun=_words(mpirun),
    )
    script = slurm_script(job, nodes) if nodes else hosts_script(job, names)
    if output is None:
        click.echo(script, nl=False)
        return
    try:
        output.write_text(script)
        output.chmod(0o755)
    except OSError as error:
        raise ConfigError(f"{output}: cannot be written ({error.strerror})") from error


def _this_command() -> list[str]:
    """How the nodes call what runs now."""
    script = Path(sys.executable).with_name("chimbuko")
    return [str(script)] if script.exists() else [sys.executable, "-m", "chimbuko"]


def _words(text: str | None) -> list[str] | None:
    try:
        return None if text is None else shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"--mpirun {text!r}: {error}") from error
