"""Slurm: ``sbatch``; what starts agents and ranks is ``srun``."""

from __future__ import annotations

import shlex

from chimbuko.launcher.jobs.job import NOTICE_S, Job, Request, Scheduler, clock_of


def slurm(job: Job, request: Request | None) -> Scheduler:
    """Return the scheduler for the batch script of a request, or for an allocation that is held already."""
    relative = " --relative=1" if job.is_dedicated else ""
    nodes = "$((SLURM_JOB_NUM_NODES - 1))" if job.is_dedicated else "$SLURM_JOB_NUM_NODES"
    where = f'--nodes="$nodes"{relative}'
    return Scheduler(
        by="sbatch, on the job's first node",
        directives=_directives(request) if request else (),
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
        ranks=_ranks(job.mpirun or ["srun"], "" if job.mpirun else f" {where} --ntasks={job.ranks}"),
        end=_END,
        send=_SEND,
    )


_SEND = """\
# From node to node, as a tree: the shared file system is read once. It goes where no file is, hence no
# --force, by a name that nobody foresees: what a stranger had put there would be run.
sent=$(mktemp -u "/tmp/chimbuko-$SLURM_JOB_ID-XXXXXXXX.tar.gz")
if sbcast "$archive" "$sent"; then
    archive=$sent
fi"""
_NAMED = '--job-name="chimbuko-$$"'
_END = """\
# SIGTERM to srun itself would kill its ranks at once.
    local steps
    steps=$(squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format='%i %j' |
        awk -v name="chimbuko-$$" '$2 == name { print $1 }')
    if [ -n "$steps" ]; then
        scancel --quiet --signal=TERM "$steps"
    else
        kill -TERM "$application" 2>/dev/null
    fi"""


def _ranks(words: list[str], options: str) -> str:
    """Return the words that start the ranks; ``srun`` by its name, so that its step is found again."""
    command, *others = words
    named = f" {_NAMED}" if command == "srun" else ""
    return f"{shlex.quote(command)}{named}{options}" + "".join(f" {shlex.quote(word)}" for word in others)


def _directives(request: Request) -> tuple[str, ...]:
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
