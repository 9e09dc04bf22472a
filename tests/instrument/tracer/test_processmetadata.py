"""Rank, program name and metadata."""

from __future__ import annotations

import os
import platform

import pytest

from chimbuko.instrument.tracer.processmetadata import describe_process, program_name
from chimbuko.runtime.process.ranks import rank_from, size_from

TORCHRUN = {"RANK": "6", "WORLD_SIZE": "8", "LOCAL_RANK": "2", "MASTER_ADDR": "127.0.0.1"}


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, 0),
        ({"OMPI_COMM_WORLD_RANK": "5"}, 5),
        ({"PMI_RANK": "2", "SLURM_PROCID": "0"}, 2),
        ({"SLURM_PROCID": "7"}, 7),
        # Of what a launcher within an allocation of another says, the launcher's counts.
        ({"PALS_RANKID": "3"}, 3),
        ({"FLUX_TASK_RANK": "6", "SLURM_PROCID": "0"}, 6),
        ({"JSM_NAMESPACE_RANK": "9"}, 9),
        ({"PMI_RANK": "3", "FLUX_TASK_RANK": "0"}, 3),
        ({"CHIMBUKO_RANK": "1", "PMIX_RANK": "4"}, 1),
        ({"CHIMBUKO_RANK": "", "PMIX_RANK": "4"}, 4),
        ({"PMIX_RANK": "node3"}, 0),
        # torchrun starts several processes in one task of Slurm; what else is called RANK says nothing.
        ({**TORCHRUN, "SLURM_PROCID": "0"}, 6),
        ({**TORCHRUN, "CHIMBUKO_RANK": "1"}, 1),
        ({"RANK": "6", "SLURM_PROCID": "0"}, 0),
    ],
)
def test_rank_is_what_the_launcher_says(environment: dict[str, str], rank: int) -> None:
    assert rank_from(environment) == rank


def test_size_is_what_the_launcher_says() -> None:
    assert size_from({}) == 1
    assert size_from({"PMI_SIZE": "4", "SLURM_NTASKS": "1"}) == 4
    assert size_from({"SLURM_NTASKS": "8", "PMI_SIZE": "0"}) == 8
    assert size_from({"SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "2"}) == 2
    assert size_from({**TORCHRUN, "SLURM_NTASKS": "1"}) == 8
    assert size_from({"FLUX_JOB_SIZE": "6", "SLURM_NTASKS": "1"}) == 6
    assert size_from({"JSM_NAMESPACE_SIZE": "9"}) == 9


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("/a/b/heat.py", "heat"),
        ("solver", "solver"),
        ("package.tool", "package.tool"),
        ("", "python"),
        ("-c", "python"),
    ],
)
def test_program_is_the_scripts_base_name(script: str, name: str) -> None:
    assert program_name(script) == name


def test_metadata_describes_this_process() -> None:
    described = describe_process(123)
    assert described["pid"] == str(os.getpid())
    assert described["CWD"] == os.getcwd()
    assert described["OS Name"] == platform.system()
    assert described["Starting Timestamp"] == "123"
    assert int(described["CPU Cores"]) >= 1
    assert all(described.values())
