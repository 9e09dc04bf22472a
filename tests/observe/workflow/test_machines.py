"""Where tasks run, as the environment says, and the words that start them."""

from __future__ import annotations

import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.observe.workflow.machines import cpu_counts, machine_of
from chimbuko.observe.workflow.scheduler import Launch
from chimbuko.observe.workflow.task import Resources

JOB = {"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_JOB_CPUS_PER_NODE": "4(x2),8", "SLURMD_NODENAME": "n1"}


@pytest.mark.parametrize(
    ("text", "counts"), [("4", [4]), ("4(x2),8", [4, 4, 8]), ("72(x100)", [72] * 100), ("", [])]
)
def test_cpus_of_nodes_are_read_as_slurm_writes_them(text: str, counts: list[int]) -> None:
    assert cpu_counts(text) == counts


def test_a_job_has_all_of_its_nodes_or_those_without_services() -> None:
    shared, exclusive = (machine_of(JOB, ["mpirun"], is_exclusive) for is_exclusive in (False, True))
    assert [(node.name, len(node.cores)) for node in shared.nodes] == [("n1", 4), ("n2", 4), ("n3", 8)]
    assert [node.name for node in exclusive.nodes] == ["n2", "n3"]
    assert "--nodelist=n2,n3" in exclusive.start_on_each_node(["x"])
    launch = Launch("t", 1, ("a", "b"), {}, Resources(4, 2, 2), {"n2": (0, 1, 2, 3), "n3": (0, 1, 2, 3)})
    words = exclusive.start_task(launch, ["wrapper"])
    assert {"--nodes=2", "--nodelist=n2,n3", "--ntasks=4", "--cpus-per-task=2"} <= set(words)
    assert words[-3:] == ["wrapper", "a", "b"]


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, "no other node is there"),
        ({**JOB, "SLURM_JOB_NODELIST": "n1", "SLURM_JOB_CPUS_PER_NODE": "4"}, "no other node is there"),
        ({**JOB, "SLURM_JOB_CPUS_PER_NODE": "4"}, "has the CPUs of 1 node, and the job has"),
    ],
)
def test_what_cannot_be_is_said(environment: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        machine_of(environment, ["mpirun"], True)


def test_ranks_on_one_machine_are_started_by_mpirun() -> None:
    machine = machine_of({}, ["mpirun.mpich", "-l"], False)
    (node,) = machine.nodes
    one, two = (
        Launch("t", 1, ("a",), {}, Resources(ranks), {node.name: node.cores[:ranks]}) for ranks in (1, 2)
    )
    assert machine.start_task(one, ["w"]) == ["w", "a"]
    assert machine.start_task(two, ["w"]) == ["mpirun.mpich", "-l", "-n", "2", "w", "a"]
    assert machine.cores_of(two) == set(node.cores[:2])
