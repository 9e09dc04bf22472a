"""PBS (PBS Professional, OpenPBS): ``qsub``; agents by ``pbs_tmrsh``, which needs no keys as ssh does, and
ranks by ``mpirun``.
"""

from __future__ import annotations

from chimbuko.launcher.jobs.job import Job, Request, Scheduler, clock_of
from chimbuko.launcher.jobs.remote import HOST_COUNT, SSH, agents_by, hosts_with_ranks, mpirun


def pbs(job: Job, request: Request | None) -> Scheduler:
    """Return the scheduler for the batch script of a request, or for an allocation that is held already."""
    placed, ranks = mpirun(job)
    return Scheduler(
        by="qsub, on the job's first node",
        directives=_directives(request) if request else (),
        job="${PBS_JOBID%%.*}",
        here="$first",
        submit_host="${PBS_O_HOST:-}",
        hosts=hosts_with_ranks(job, "mapfile -t hosts < <(awk '!seen[$0]++' \"$PBS_NODEFILE\")"),
        count=HOST_COUNT,
        agents=_AGENTS + placed,
        ranks=ranks,
        gives_notice=False,
        folder="$PBS_O_WORKDIR" if request else "",
    )


_AGENTS = f"""\
settings=${{PBS_CONF_FILE:-/etc/pbs.conf}}
tmrsh=$(command -v pbs_tmrsh || sed -n 's|^PBS_EXEC=\\(.*\\)|\\1/bin/pbs_tmrsh|p' "$settings" 2>/dev/null)
start_agent() {{
    if [ -n "$tmrsh" ]; then
        exec "$tmrsh" "$host" "${{agent[@]}}"
    fi
    exec {SSH}
}}
{agents_by("start_agent")}"""


def _directives(request: Request) -> tuple[str, ...]:
    select = f"{request.nodes}:ncpus={request.per_node}:mpiprocs={request.per_node}"
    options = {
        "A": request.account,
        "q": request.queue,
        "N": request.name,
        "l walltime": "" if request.time_s is None else clock_of(request.time_s),
    }
    lines = [f"#PBS -{_option(name, value)}" for name, value in options.items() if value]
    return (f"#PBS -l select={select}", "#PBS -l place=scatter:excl", "#PBS -j oe", *lines)


def _option(name: str, value: str) -> str:
    return f"{name}={value}" if " " in name else f"{name} {value}"
