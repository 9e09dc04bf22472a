"""An allocation that is held already, as the environment describes it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from chimbuko.core.errors import ConfigError
from chimbuko.launcher.jobs.flux import flux
from chimbuko.launcher.jobs.job import Job, Request, Scheduler
from chimbuko.launcher.jobs.lsf import lsf
from chimbuko.launcher.jobs.pbs import pbs
from chimbuko.launcher.jobs.slurm import slurm
from chimbuko.runtime.process import hostlists

Maker = Callable[[Job, Request | None], Scheduler]
SCHEDULERS: Mapping[str, Maker] = {"slurm": slurm, "pbs": pbs, "flux": flux, "lsf": lsf}
"""Schedulers by the name of their option."""


@dataclass(frozen=True)
class Allocation:
    """Nodes that are held."""

    scheduler: str
    """Name of the scheduler, from ``SCHEDULERS``."""
    hosts: list[str]
    """Names of the hosts, each once and in the scheduler's order: the first has the services."""


def allocation(environment: Mapping[str, str]) -> Allocation:
    """Read an allocation from the environment; of several the innermost, as a Flux in a Slurm job.

    Raises
    ------
    ConfigError
        It says nothing, or what it says cannot be read.
    """
    if "FLUX_URI" in environment:
        return Allocation("flux", hostlists.expand(_flux_hostlist()))
    if nodes := environment.get("SLURM_JOB_NODELIST"):
        return Allocation("slurm", hostlists.expand(nodes))
    if path := environment.get("PBS_NODEFILE"):
        return Allocation("pbs", hostlists.of_slots(_lines(path)))
    if path := environment.get("LSB_DJOB_HOSTFILE"):
        return Allocation("lsf", hostlists.of_slots(_lines(path)))
    if pairs := environment.get("LSB_MCPU_HOSTS"):
        return Allocation("lsf", hostlists.of_pairs(pairs))
    if names := environment.get("LSB_HOSTS"):
        return Allocation("lsf", hostlists.of_slots(names.split()))
    raise ConfigError(
        "--inside: no allocation is held here: none of FLUX_URI, SLURM_JOB_NODELIST, PBS_NODEFILE and "
        "LSB_MCPU_HOSTS is set; ask for one, such as by salloc, or give --slurm NODES"
    )


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
