"""Flux: ``flux batch``, whose script leads an instance; ``flux exec`` starts agents, ``flux run`` ranks."""

from __future__ import annotations

import shlex

from chimbuko.launcher.jobs.job import NOTICE_S, Job, Request, Scheduler


def flux(job: Job, request: Request | None) -> Scheduler:
    """Return the scheduler for the batch script of a request, or for an instance that is there already."""
    ranks = f'flux run --nodes="$nodes" --ntasks={job.ranks}'
    if job.is_dedicated:
        ranks += ' --requires="ranks:1-$nodes"'
    return Scheduler(
        by="flux batch, on the job's first node",
        directives=_directives(request) if request else (),
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


def _directives(request: Request) -> tuple[str, ...]:
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
