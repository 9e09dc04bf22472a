"""Which rank of a program a process is, by what its launcher has left in its environment."""

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
"""Where launchers say which rank a process is; ours first, so that it can overrule them."""
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
"""How many ranks launchers say that there are, in the same order."""


def stated_rank(environment: Mapping[str, str]) -> int | None:
    """A process's rank, None where no launcher says."""
    values = (environment.get(variable, "") for variable in RANK_VARIABLES)
    return next((int(value) for value in values if value.isdecimal()), None)


def rank_from(environment: Mapping[str, str]) -> int:
    """A process's rank, 0 where no launcher says."""
    return stated_rank(environment) or 0


def size_from(environment: Mapping[str, str]) -> int:
    """Number of ranks of the program, 1 where no launcher says."""
    for variable in SIZE_VARIABLES:
        value = environment.get(variable, "")
        if value.isdecimal() and int(value) > 0:
            return int(value)
    return 1
