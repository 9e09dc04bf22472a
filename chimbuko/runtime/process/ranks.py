"""Rank of a process in its program, and size of the program, by the environment that its launcher has
left.
"""

from __future__ import annotations

from collections.abc import Mapping

RANK_VARIABLES = (
    "CHIMBUKO_RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "PALS_RANKID",
    "FLUX_TASK_RANK",
    "JSM_NAMESPACE_RANK",
    "ALPS_APP_PE",
    "CRAY_PMI_RANK",
    "SLURM_PROCID",
)
"""Environment variables in which launchers give the rank of a process; ours first, so that it can overrule
them.
"""
SIZE_VARIABLES = (
    "OMPI_COMM_WORLD_SIZE",
    "PMIX_SIZE",
    "PMI_SIZE",
    "MV2_COMM_WORLD_SIZE",
    "PALS_SIZE",
    "FLUX_JOB_SIZE",
    "JSM_NAMESPACE_SIZE",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS",
)
"""Environment variables in which launchers give the number of ranks, in the same order."""


def stated_rank(environment: Mapping[str, str]) -> int | None:
    """Return a process's rank, None where no launcher gives it."""
    values = (environment.get(variable, "") for variable in RANK_VARIABLES)
    return next((int(value) for value in values if value.isdecimal()), None)


def rank_from(environment: Mapping[str, str]) -> int:
    """Return a process's rank, 0 where no launcher gives it."""
    return stated_rank(environment) or 0


def size_from(environment: Mapping[str, str]) -> int:
    """Return the number of ranks of the program, 1 where no launcher gives it."""
    for variable in SIZE_VARIABLES:
        value = environment.get(variable, "")
        if value.isdecimal() and int(value) > 0:
            return int(value)
    return 1
