"""Machines on which tasks run: this one, or the nodes of a Slurm job; and the commands that start processes
there.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from chimbuko.core.errors import ConfigError
from chimbuko.core.units import number_of
from chimbuko.observe.workflow.scheduler import Launch
from chimbuko.observe.workflow.task import Node
from chimbuko.runtime.process.hostlists import expand
from chimbuko.runtime.protocol.brokerplace import LOOPBACK

_CPUS = re.compile(r"(\d+)(?:\(x(\d+)\))?")


class Machine(Protocol):
    """Interface of a machine on which tasks, agents and monitors run."""

    @property
    def nodes(self) -> Sequence[Node]:
        """Return all nodes on which tasks run."""

    @property
    def bind(self) -> str:
        """Address on which services listen, so that all nodes reach them."""

    def start_task(self, launch: Launch, wrapper: Sequence[str]) -> list[str]:
        """Return the command that starts the ranks of a task, each of them through ``wrapper``."""

    def start_on_each_node(self, words: Sequence[str]) -> list[str]:
        """Return the command that starts a program of Chimbuko once on each node."""

    def cores_of(self, launch: Launch) -> set[int] | None:
        """Return the cores to which the process that starts a task is bound; None if a scheduler does
        that.
        """


@dataclass(frozen=True)
class ThisMachine:
    """One node, without a scheduler."""

    node: Node
    mpirun: Sequence[str]
    bind: str = LOOPBACK

    @property
    def nodes(self) -> Sequence[Node]:
        """See ``Machine``."""
        return [self.node]

    def start_task(self, launch: Launch, wrapper: Sequence[str]) -> list[str]:
        """See ``Machine``."""
        ranks = launch.resources.ranks
        starter = [*self.mpirun, "-n", str(ranks)] if ranks > 1 else []
        return [*starter, *wrapper, *launch.words]

    def start_on_each_node(self, words: Sequence[str]) -> list[str]:
        """See ``Machine``."""
        return list(words)

    def cores_of(self, launch: Launch) -> set[int] | None:
        """See ``Machine``."""
        return set(launch.place[self.node.name])


@dataclass(frozen=True)
class SlurmJob:
    """Nodes of a Slurm job; tasks are steps of it."""

    nodes: Sequence[Node]
    bind: str

    def start_task(self, launch: Launch, wrapper: Sequence[str]) -> list[str]:
        """See ``Machine``."""
        resources = launch.resources
        # --exact: the task takes the cores that it needs, and not whole nodes. No memory is set apart for it.
        return [
            *("srun", "--exact", "--mem=0", "--kill-on-bad-exit=1", f"--job-name={launch.task}"),
            *(f"--nodes={resources.nodes}", f"--nodelist={','.join(launch.place)}"),
            *(f"--ntasks={resources.ranks}", f"--cpus-per-task={resources.cores}"),
            *wrapper,
            *launch.words,
        ]

    def start_on_each_node(self, words: Sequence[str]) -> list[str]:
        """See ``Machine``."""
        count = len(self.nodes)
        names = ",".join(node.name for node in self.nodes)
        # They take no cores or memory from the tasks' share, and no core is chosen for them.
        return [
            *("srun", f"--nodes={count}", f"--nodelist={names}"),
            *(f"--ntasks={count}", "--ntasks-per-node=1"),
            *("--overlap", "--mem=0", "--cpu-bind=none", *words),
        ]

    def cores_of(self, launch: Launch) -> set[int] | None:
        """See ``Machine``."""
        return None


def machine_of(environment: Mapping[str, str], mpirun: Sequence[str], is_exclusive: bool) -> Machine:
    """Return the machine on which this process runs.

    Parameters
    ----------
    is_exclusive
        Whether no task shall run on the node of this process, which has the services.

    Raises
    ------
    ConfigError
        It is in a job of Slurm whose nodes cannot be read, or there is no other node.
    """
    listed = environment.get("SLURM_JOB_NODELIST")
    if not listed:
        if is_exclusive:
            _check_other([])
        return ThisMachine(Node(platform.node(), tuple(sorted(os.sched_getaffinity(0)))), mpirun)
    counts = cpu_counts(environment.get("SLURM_JOB_CPUS_PER_NODE", ""))
    names = expand(listed)
    if len(counts) != len(names):
        raise ConfigError(
            f"SLURM_JOB_CPUS_PER_NODE: has the CPUs of {number_of(len(counts), 'nodes')}, and the job has "
            f"{len(names)}; start it in the job's script, or by salloc"
        )
    nodes = [Node(name, tuple(range(count))) for name, count in zip(names, counts, strict=True)]
    own = environment.get("SLURMD_NODENAME") or platform.node()
    if is_exclusive:
        nodes = [node for node in nodes if node.name != own]
        _check_other(nodes)
    return SlurmJob(nodes, own)


def _check_other(nodes: Sequence[Node]) -> None:
    if not nodes:
        raise ConfigError('placement = "exclusive": no other node is there for tasks; ask Slurm for one more')


def cpu_counts(text: str) -> list[int]:
    """Return the number of CPUs of each node of a job, from a text such as ``4(x2),8``."""
    counts: list[int] = []
    for count, times in _CPUS.findall(text):
        counts += [int(count)] * int(times or 1)
    return counts
