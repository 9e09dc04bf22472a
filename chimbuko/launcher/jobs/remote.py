"""Start of agents by ``ssh`` and of ranks by ``mpirun``, on a list of hosts: without a scheduler, or with one
that has no launcher of its own.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from chimbuko.core.errors import ConfigError
from chimbuko.launcher.jobs.job import Job, Scheduler

SSH = """ssh -n -o BatchMode=yes "$host" "exec $(printf '%q ' "${agent[@]}")\""""
"""A shell there reads the words once more."""
HOST_COUNT = "${#hosts[@]}"
"""Expression for the number of hosts that ``hosts_with_ranks`` has set."""


def hosts_with_ranks(job: Job, listed: str) -> str:
    """Sets ``hosts`` to those with ranks, and ``first`` to that of the services.

    Parameters
    ----------
    listed
        Sets ``hosts`` to all hosts of the job, each once.
    """
    others = '\nhosts=("${hosts[@]:1}")' if job.is_dedicated else ""
    return f"{listed}\nfirst=${{hosts[0]}}{others}"


def agents_by(start: str) -> str:
    """Starts an agent on each host.

    Parameters
    ----------
    start
        Runs ``"${agent[@]}"`` on the host ``$host``.
    """
    return f"""\
# What modules and you have set goes with it.
agent=(env "PATH=$PATH" "LD_LIBRARY_PATH=${{LD_LIBRARY_PATH:-}}" "${{agent[@]}}")
for host in "${{hosts[@]}}"; do
    {start} &
    agents+=($!)
done"""


def mpirun(job: Job) -> tuple[str, str]:
    """Return the text that finds out whose ``mpirun`` is there, and the words that start the ranks by it;
    nothing for recorded traces.
    """
    if not job.program:
        return "", ""
    if job.mpirun:
        return "", shlex.join(job.mpirun)
    text = f"""
per_host=$((({job.ranks} + ${{#hosts[@]}} - 1) / ${{#hosts[@]}}))
case $(mpirun --version) in
    *"Open MPI"*)
        printf -v listed "%s:$per_host," "${{hosts[@]}}"
        on_hosts=(--host "${{listed%,}}")
        ;;
    *)
        printf -v listed '%s,' "${{hosts[@]}}"
        on_hosts=(-hosts "${{listed%,}}" -ppn "$per_host")
        ;;
esac"""
    return text, f'mpirun -n {job.ranks} "${{on_hosts[@]}}"'


_HOST = re.compile(r"\w[\w.-]*")


def hosts(job: Job, names: Sequence[str]) -> Scheduler:
    """Return the scheduler for a script that is run on the first of the hosts, which has the services.

    Raises
    ------
    ConfigError
        A host's name cannot be one.
    """
    for name in names:
        if not _HOST.fullmatch(name):
            raise ConfigError(f"--hosts: {name!r} is no host; give a list like node1,node2")
    placed, ranks = mpirun(job)
    return Scheduler(
        by=f"bash, on {names[0]}",
        directives=(),
        job="$(date +%Y%m%d-%H%M%S)",
        here="$first",
        submit_host="",
        hosts=hosts_with_ranks(job, f"hosts=({' '.join(names)})"),
        count=HOST_COUNT,
        agents=agents_by(SSH) + placed,
        ranks=ranks,
    )
