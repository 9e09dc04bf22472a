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

TRAINING_RANK, TRAINING_SIZE = "RANK", "WORLD_SIZE"
"""Environment variables of ``torchrun`` and other launchers of training, which start all processes of a node
within one task of a scheduler: so they come before its variables.
"""
_OF_TRAINING = (TRAINING_RANK, TRAINING_SIZE, "LOCAL_RANK", "MASTER_ADDR")
"""Names that only such a launcher sets together; each may mean anything alone."""


def stated_rank(environment: Mapping[str, str]) -> int | None:
    """Return a process's rank, None where no launcher gives it."""
    ours, *launchers = RANK_VARIABLES
    names = (ours, TRAINING_RANK, *launchers) if is_training(environment) else RANK_VARIABLES
    values = (environment.get(variable, "") for variable in names)
    return next((int(value) for value in values if value.isdecimal()), None)


def rank_from(environment: Mapping[str, str]) -> int:
    """Return a process's rank, 0 where no launcher gives it."""
    return stated_rank(environment) or 0


def size_from(environment: Mapping[str, str]) -> int:
    """Return the number of ranks of the program, 1 where no launcher gives it."""
    for variable in (TRAINING_SIZE, *SIZE_VARIABLES) if is_training(environment) else SIZE_VARIABLES:
        value = environment.get(variable, "")
        if value.isdecimal() and int(value) > 0:
            return int(value)
    return 1


def is_training(environment: Mapping[str, str]) -> bool:
    """Whether a launcher of training has started the process."""
    return all(environment.get(variable) for variable in _OF_TRAINING)
