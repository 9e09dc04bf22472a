"""All schedulers, and an allocation of theirs that is held already, as the environment describes it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from chimbuko.core import plugins
from chimbuko.core.errors import ConfigError
from chimbuko.launcher.jobs.flux import flux
from chimbuko.launcher.jobs.job import Job, Request, Scheduler
from chimbuko.launcher.jobs.lsf import lsf
from chimbuko.launcher.jobs.pbs import pbs
from chimbuko.launcher.jobs.slurm import slurm
from chimbuko.runtime.process import hostlists

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
