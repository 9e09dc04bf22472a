"""Hosts without a scheduler: agents by ``ssh``, ranks by ``mpirun``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from chimbuko.core.errors import ConfigError
from chimbuko.launcher.jobs.job import Job
from chimbuko.launcher.jobs.remote import HOST_COUNT, SSH, agents_by, hosts_with_ranks, mpirun
from chimbuko.launcher.jobs.scheduler import Scheduler

_HOST = re.compile(r"\w[\w.-]*")


def hosts(job: Job, names: Sequence[str]) -> Scheduler:
    """For a script that is run on the first of the hosts, which has the services.

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
