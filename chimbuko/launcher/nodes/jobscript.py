"""Job scripts that bring services, agents and an application onto many nodes. They are text, and nothing here
runs them.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from chimbuko.errors import ConfigError

NOTICE_S = 120
"""How long before its time is over Slurm tells a job, so that what was found still gets into the store."""


@dataclass(frozen=True)
class Job:
    """What a job script shall do."""

    program: list[str]
    """What each rank runs."""
    ranks: int
    chimbuko: list[str]
    """The command, on all nodes."""
    run: Path | None = None
    """Folder of the run, on a file system that all nodes share; None for one under ``chimbuko-runs``."""
    is_dedicated: bool = False
    """The first node has the services alone, and neither agent nor ranks."""
    bind: str = ""
    """What the broker listens on; empty for the name of the services' node."""
    streams: Path | None = None
    cores: str = ""
    """To which each agent keeps."""
    config: Path | None = None
    mpirun: list[str] | None = None
    """What starts the ranks, in place of what is usual."""


def slurm_script(job: Job, nodes: int) -> str:
    """For ``sbatch``: services on the node that runs the script, the first of ``nodes``."""
    where = f"--nodes={nodes - 1} --relative=1" if job.is_dedicated else f"--nodes={nodes}"
    readers = nodes - job.is_dedicated
    agents = f"""\
# Agents take no cores or memory from the ranks' share (--overlap), and no core is chosen for them.
srun {where} --ntasks={readers} --ntasks-per-node=1 --overlap --cpu-bind=none \\
    "${{agent[@]}}" &
agents+=($!)"""
    ranks = shlex.join(job.mpirun) if job.mpirun else f"srun {where} --ntasks={job.ranks}"
    head = f"""\
#SBATCH --nodes={nodes}
#SBATCH --exclusive
#SBATCH --signal=B:TERM@{NOTICE_S}"""
    folder = '"$PWD"/chimbuko-runs/job-"$SLURM_JOB_ID"'
    return _script(job, "sbatch, on the job's first node", head, folder, '"$SLURMD_NODENAME"', agents, ranks)


def hosts_script(job: Job, hosts: list[str]) -> str:
    """For ``mpirun`` and ``ssh``: to be run on the first of ``hosts``, which has the services.

    Raises
    ------
    ConfigError
        A host's name cannot be one.
    """
    for host in hosts:
        if not re.fullmatch(r"[\w.-]+", host):
            raise ConfigError(f"--hosts: {host!r} is no host; give a list like node1,node2")
    readers = hosts[job.is_dedicated :]
    per_host = -(-job.ranks // len(readers))
    agents = f"""\
printf -v agent_there '%q ' "${{agent[@]}}"
hosts=({" ".join(readers)})
for host in "${{hosts[@]}}"; do
    # What it shall run is put together here, and quoted for the shell there.
    # shellcheck disable=SC2029
    ssh -n -o BatchMode=yes "$host" "exec $agent_there" &
    agents+=($!)
done"""
    if job.mpirun:
        ranks = shlex.join(job.mpirun)
    else:
        agents += f"""
case $(mpirun --version) in
    *"Open MPI"*) on_hosts=(--host "{",".join(f"{host}:{per_host}" for host in readers)}") ;;
    *) on_hosts=(-hosts "{",".join(readers)}" -ppn {per_host}) ;;
esac"""
        ranks = f'mpirun -n {job.ranks} "${{on_hosts[@]}}"'
    folder = '"$PWD"/chimbuko-runs/"$(date +%Y%m%d-%H%M%S)"'
    return _script(job, f"bash, on {hosts[0]}", "", folder, shlex.quote(hosts[0]), agents, ranks)


def _script(job: Job, by: str, head: str, folder: str, host: str, agents: str, ranks: str) -> str:
    serve = ["--bind", shlex.quote(job.bind) if job.bind else host]
    if job.streams is not None:
        serve += ["--streams", shlex.quote(str(job.streams))]
    if job.config is not None:
        serve += ["--config", shlex.quote(str(job.config.absolute()))]
    pinned = f' --cores "{job.cores}"' if job.cores else ""
    head = f"{head}\n" if head else ""
    return f"""#!/bin/bash
{head}# Made by 'chimbuko launch', for {by}.
# All nodes have to see the folder of the run. Passwords are in files of it that only you can read.
set -u
run={shlex.quote(str(job.run.absolute())) if job.run else folder}
chimbuko=({shlex.join(job.chimbuko)})

"${{chimbuko[@]}}" serve "$run" {" ".join(serve)} &
services=$!
until [ -e "$run/broker" ]; do
    if ! kill -0 "$services" 2>/dev/null; then
        wait "$services"
        exit
    fi
    sleep 0.2
done

# One that is killed comes again, and goes on where it was.
agent=(bash -c 'while "$@"; code=$?; [ "$code" -gt 128 ]; do sleep 1; done; exit "$code"' agent)
agent+=("${{chimbuko[@]}}" agent "$run"{pinned})
agents=()
{agents}

{ranks} \\
    "$run/settings/node" {shlex.join(job.program)} &
application=$!
trap 'kill -TERM "$application" 2>/dev/null' TERM INT
wait "$application"
code=$?
# A signal ends the waiting, but not yet the application.
while kill -0 "$application" 2>/dev/null; do
    wait "$application"
    code=$?
done

"${{chimbuko[@]}}" stop "$run" || kill "${{agents[@]}}"
wait "$services" "${{agents[@]}}"
exit "$code"
"""
