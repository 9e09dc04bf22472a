"""All schedulers, and an allocation of theirs that is held already, as the environment describes it."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from chimbuko.core import plugins
from chimbuko.core.errors import ConfigError
from chimbuko.launcher.jobs.job import NOTICE_S, Job, Request, Scheduler, clock_of
from chimbuko.launcher.jobs.remote import HOST_COUNT, SSH, agents_by, hosts_with_ranks, mpirun
from chimbuko.runtime.process import hostlists


def flux(job: Job, request: Request | None) -> Scheduler:
    """Return the scheduler for the batch script of a request, or for an instance that is there already."""
    ranks = f'flux run --nodes="$nodes" --ntasks={job.ranks}'
    if job.is_dedicated:
        ranks += ' --requires="ranks:1-$nodes"'
    return Scheduler(
        by="flux batch, on the job's first node",
        directives=_flux_directives(request) if request else (),
        job='$(flux job id --to=dec "$(flux getattr jobid)" 2>/dev/null || date +%Y%m%d-%H%M%S)',
        here="$(uname -n)",
        submit_host="",
        hosts=f"nodes=$(($(flux getattr size) - {int(job.is_dedicated)}))",
        count="$nodes",
        agents=f"""\
# Agents take no cores or memory from the ranks' share: this asks the brokers, not the scheduler.
flux exec --noinput --rank={"1-$nodes" if job.is_dedicated else "all"} "${{agent[@]}}" &
agents+=($!)""",
        ranks=shlex.join(job.mpirun) if job.mpirun else ranks,
    )


def _flux_directives(request: Request) -> tuple[str, ...]:
    options = {
        "nodes": str(request.nodes),
        "time-limit": "" if request.time_s is None else f"{request.time_s}s",
        "bank": request.account,
        "queue": request.queue,
        "job-name": request.name,
        "signal": f"TERM@{NOTICE_S}s",
    }
    lines = [f"#flux: --{name}={value}" for name, value in options.items() if value]
    return (*lines, "#flux: --exclusive")


_LSF_NOTICE = "URG"
"""LSF sends it to all processes of the job. This one does nothing to those that do not ask for it."""


def lsf(job: Job, request: Request | None) -> Scheduler:
    """Return the scheduler for the batch script of a request, or for an allocation that is held already."""
    placed, ranks = mpirun(job)
    # Pairs of a host and its slots.
    listed = (
        "mapfile -t hosts < <(awk '{ for (i = 1; i < NF; i += 2) if (!seen[$i]++) print $i }' "
        '<<<"$LSB_MCPU_HOSTS")'
    )
    return Scheduler(
        by="bsub, on the job's first node",
        directives=_lsf_directives(request) if request else (),
        job="$LSB_JOBID",
        here="$first",
        submit_host="${LSB_SUB_HOST:-}",
        hosts=hosts_with_ranks(job, listed),
        count=HOST_COUNT,
        # Without -no-shell a shell there would read its words once more.
        agents=agents_by('blaunch -n -no-shell "$host" "${agent[@]}"') + placed,
        ranks=ranks,
        signals=("TERM", "INT", _LSF_NOTICE),
    )


def _lsf_directives(request: Request) -> tuple[str, ...]:
    options = {
        "n": str(request.nodes * request.per_node),
        "R": f'"span[ptile={request.per_node}]"',
        "o": "%J.out",
        "P": request.account,
        "q": request.queue,
        "J": request.name,
    }
    lines = [f"#BSUB -{name} {value}" for name, value in options.items() if value]
    if request.time_s is not None:
        minutes = -(-request.time_s // 60)
        lines.append(f"#BSUB -W {minutes // 60}:{minutes % 60:02}")
    return (*lines, "#BSUB -x", f"#BSUB -wa '{_LSF_NOTICE}'", f"#BSUB -wt '{NOTICE_S // 60}'")


def pbs(job: Job, request: Request | None) -> Scheduler:
    """Return the scheduler for the batch script of a request, or for an allocation that is held already."""
    placed, ranks = mpirun(job)
    return Scheduler(
        by="qsub, on the job's first node",
        directives=_pbs_directives(request) if request else (),
        job="${PBS_JOBID%%.*}",
        here="$first",
        submit_host="${PBS_O_HOST:-}",
        hosts=hosts_with_ranks(job, "mapfile -t hosts < <(awk '!seen[$0]++' \"$PBS_NODEFILE\")"),
        count=HOST_COUNT,
        agents=_PBS_AGENTS + placed,
        ranks=ranks,
        gives_notice=False,
        folder="$PBS_O_WORKDIR" if request else "",
    )


# ``pbs_tmrsh`` needs no keys, as ssh does.
_PBS_AGENTS = f"""\
settings=${{PBS_CONF_FILE:-/etc/pbs.conf}}
tmrsh=$(command -v pbs_tmrsh || sed -n 's|^PBS_EXEC=\\(.*\\)|\\1/bin/pbs_tmrsh|p' "$settings" 2>/dev/null)
start_agent() {{
    if [ -n "$tmrsh" ]; then
        exec "$tmrsh" "$host" "${{agent[@]}}"
    fi
    exec {SSH}
}}
{agents_by("start_agent")}"""


def _pbs_directives(request: Request) -> tuple[str, ...]:
    select = f"{request.nodes}:ncpus={request.per_node}:mpiprocs={request.per_node}"
    options = {
        "A": request.account,
        "q": request.queue,
        "N": request.name,
        "l walltime": "" if request.time_s is None else clock_of(request.time_s),
    }
    lines = [f"#PBS -{_pbs_option(name, value)}" for name, value in options.items() if value]
    return (f"#PBS -l select={select}", "#PBS -l place=scatter:excl", "#PBS -j oe", *lines)


def _pbs_option(name: str, value: str) -> str:
    return f"{name}={value}" if " " in name else f"{name} {value}"


def slurm(job: Job, request: Request | None) -> Scheduler:
    """Return the scheduler for the batch script of a request, or for an allocation that is held already."""
    relative = " --relative=1" if job.is_dedicated else ""
    nodes = "$((SLURM_JOB_NUM_NODES - 1))" if job.is_dedicated else "$SLURM_JOB_NUM_NODES"
    where = f'--nodes="$nodes"{relative}'
    return Scheduler(
        by="sbatch, on the job's first node",
        directives=_slurm_directives(request) if request else (),
        job="$SLURM_JOB_ID",
        here="${SLURMD_NODENAME:-$(uname -n)}",
        submit_host="${SLURM_SUBMIT_HOST:-}",
        hosts=f"nodes={nodes}",
        count="$nodes",
        agents=f"""\
# Agents take no cores or memory from the ranks' share (--overlap), and no core is chosen for them.
srun {where} --ntasks="$nodes" --ntasks-per-node=1 --overlap --cpu-bind=none \\
    "${{agent[@]}}" &
agents+=($!)""",
        ranks=_slurm_ranks(job.mpirun or ["srun"], "" if job.mpirun else f" {where} --ntasks={job.ranks}"),
        end=_SLURM_END,
        send=_SLURM_SEND,
    )


_SLURM_SEND = """\
# From node to node, as a tree: the shared file system is read once. It goes where no file is, hence no
# --force, by a name that nobody foresees: what a stranger had put there would be run.
sent=$(mktemp -u "/tmp/chimbuko-$SLURM_JOB_ID-XXXXXXXX.tar.gz")
if sbcast "$archive" "$sent"; then
    archive=$sent
fi"""
_SLURM_STEP = '--job-name="chimbuko-$$"'
_SLURM_END = """\
# SIGTERM to srun itself would kill its ranks at once.
    local steps
    steps=$(squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format='%i %j' |
        awk -v name="chimbuko-$$" '$2 == name { print $1 }')
    if [ -n "$steps" ]; then
        scancel --quiet --signal=TERM "$steps"
    else
        kill -TERM "$application" 2>/dev/null
    fi"""


def _slurm_ranks(words: list[str], options: str) -> str:
    """Return the words that start the ranks; ``srun`` by its name, so that its step is found again."""
    command, *others = words
    named = f" {_SLURM_STEP}" if command == "srun" else ""
    return f"{shlex.quote(command)}{named}{options}" + "".join(f" {shlex.quote(word)}" for word in others)


def _slurm_directives(request: Request) -> tuple[str, ...]:
    options = {
        "nodes": str(request.nodes),
        "time": "" if request.time_s is None else clock_of(request.time_s),
        "account": request.account,
        "partition": request.queue,
        "job-name": request.name,
        "signal": f"B:TERM@{NOTICE_S}",
    }
    lines = [f"#SBATCH --{name}={value}" for name, value in options.items() if value]
    return (*lines, "#SBATCH --exclusive")


Maker = Callable[[Job, Request | None], Scheduler]


@dataclass(frozen=True)
class SchedulerKind:
    """One scheduler: how its job script is made, and how an allocation of it is known."""

    make: Maker
    """Returns the scheduler for a job: for the batch script of a request, or without one for an allocation
    that is held already.
    """
    hosts: Callable[[Mapping[str, str]], list[str] | None] = lambda environment: None
    """Returns the hosts of the allocation that an environment describes, the first of which has the services;
    None if it describes none.
    """


@dataclass(frozen=True)
class Allocation:
    """Nodes that are held."""

    scheduler: str
    """Name of the scheduler."""
    hosts: list[str]
    """Names of the hosts, each once and in the scheduler's order: the first has the services."""


def allocation(environment: Mapping[str, str]) -> Allocation:
    """Read an allocation from the environment; of several the innermost, as a Flux in a Slurm job.

    Raises
    ------
    ConfigError
        It says nothing, or what it says cannot be read.
    """
    for name, kind in SCHEDULERS.items():
        if (hosts := kind.hosts(environment)) is not None:
            return Allocation(name, hosts)
    for name, kind in plugins.working("schedulers", SchedulerKind):
        if (hosts := kind.hosts(environment)) is not None:
            return Allocation(name, hosts)
    raise ConfigError(
        "--inside: no allocation is held here: none of FLUX_URI, SLURM_JOB_NODELIST, PBS_NODEFILE and "
        "LSB_MCPU_HOSTS is set; ask for one, such as by salloc, or give --slurm NODES"
    )


def scheduler_named(name: str) -> Maker:
    """Return what makes the scripts of a scheduler of our own or of a plugin.

    Raises
    ------
    ConfigError
        There is none of this name, or it cannot be loaded.
    """
    if name in SCHEDULERS:
        return SCHEDULERS[name].make
    if name not in plugins.declared("schedulers"):
        known = ", ".join(plugins.declared("schedulers")) or "none"
        raise ConfigError(f"--scheduler {name!r}: no plugin has this name; there are: {known}")
    return plugins.load("schedulers", name, SchedulerKind).make


def _flux_hosts(environment: Mapping[str, str]) -> list[str] | None:
    return hostlists.expand(_flux_hostlist()) if "FLUX_URI" in environment else None


def _slurm_hosts(environment: Mapping[str, str]) -> list[str] | None:
    nodes = environment.get("SLURM_JOB_NODELIST")
    return hostlists.expand(nodes) if nodes else None


def _pbs_hosts(environment: Mapping[str, str]) -> list[str] | None:
    path = environment.get("PBS_NODEFILE")
    return hostlists.of_slots(_lines(path)) if path else None


def _lsf_hosts(environment: Mapping[str, str]) -> list[str] | None:
    if path := environment.get("LSB_DJOB_HOSTFILE"):
        return hostlists.of_slots(_lines(path))
    if pairs := environment.get("LSB_MCPU_HOSTS"):
        return hostlists.of_pairs(pairs)
    names = environment.get("LSB_HOSTS")
    return hostlists.of_slots(names.split()) if names else None


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: the list of hosts cannot be read ({error.strerror})") from error


def _flux_hostlist() -> str:
    command = ["flux", "getattr", "hostlist"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigError(f"FLUX_URI is set, but '{' '.join(command)}' fails: {error}") from error


SCHEDULERS: Mapping[str, SchedulerKind] = {
    "flux": SchedulerKind(flux, _flux_hosts),
    "slurm": SchedulerKind(slurm, _slurm_hosts),
    "pbs": SchedulerKind(pbs, _pbs_hosts),
    "lsf": SchedulerKind(lsf, _lsf_hosts),
}
"""Schedulers of our own, by the names of their options; a Flux in a job of another one is the innermost."""
