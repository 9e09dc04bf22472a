"""LSF: ``bsub < SCRIPT``; agents by ``blaunch``, and ranks by ``mpirun``."""

from __future__ import annotations

from chimbuko.launcher.jobs.job import NOTICE_S, Job, Request, Scheduler
from chimbuko.launcher.jobs.remote import HOST_COUNT, agents_by, hosts_with_ranks, mpirun

NOTICE = "URG"
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
        directives=_directives(request) if request else (),
        job="$LSB_JOBID",
        here="$first",
        submit_host="${LSB_SUB_HOST:-}",
        hosts=hosts_with_ranks(job, listed),
        count=HOST_COUNT,
        # Without -no-shell a shell there would read its words once more.
        agents=agents_by('blaunch -n -no-shell "$host" "${agent[@]}"') + placed,
        ranks=ranks,
        signals=("TERM", "INT", NOTICE),
    )


def _directives(request: Request) -> tuple[str, ...]:
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
    return (*lines, "#BSUB -x", f"#BSUB -wa '{NOTICE}'", f"#BSUB -wt '{NOTICE_S // 60}'")
