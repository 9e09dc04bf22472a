"""What schedulers without a launcher of their own have in common: a list of hosts, a remote shell for each
agent, and MPI's own launcher for the ranks. Each text needs those before it.
"""

from __future__ import annotations

import shlex

from chimbuko.launcher.jobs.job import Job

SSH = """ssh -n -o BatchMode=yes "$host" "exec $(printf '%q ' "${agent[@]}")\""""
"""A shell there reads the words once more."""
HOST_COUNT = "${#hosts[@]}"
"""How many hosts ``hosts_with_ranks`` has set."""


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
    """Text that finds out whose ``mpirun`` is there, and the words that start the ranks by it; nothing for
    recorded traces.
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
