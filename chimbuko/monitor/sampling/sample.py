"""Sample of a node: counters as they stand at one moment, and the kinds of its threads."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

import msgspec

from chimbuko.monitor.procfs.gpuspan import GpuReading
from chimbuko.monitor.procfs.system import CoreTicks, NodeMemory
from chimbuko.monitor.procfs.task import ProcessIO, ProcessMemory

MAIN, OPENMP, SAMPLER, OURS, OTHER = "Main", "OpenMP", "Sampler", "Chimbuko", "Other"
NAMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("MPI", ("async_progress*", "opal*", "orte*", "pmix*", "prte*", "ucx*", "ucp*", "cxi*", "mpich*")),
    ("ADIOS2", ("adios2*", "sst_*", "evpath*", "cmcontrol*")),
    ("TAU", ("tau_*", "tau-*")),
    (OURS, ("chimbuko*",)),
    ("GPU", ("cuda-*", "cuda0*", "hsa*", "rocr*", "nvidia*")),
    (OPENMP, ("omp*", "openmp*", "libomp*", "iomp*")),
)
"""Names that libraries give to their threads, as patterns in small letters; the first that matches counts."""


def kind_of(pid: int, tid: int, name: str, process_name: str, openmp: bool) -> str:
    """Return the kind of a thread.

    OpenMP's libraries give their threads no name, so that these carry their process's: where such a
    library is loaded they count as OpenMP's, which is a guess.
    """
    return MAIN if tid == pid else _kind_of_name(name, process_name, openmp)


@lru_cache(maxsize=4096)
def _kind_of_name(name: str, process_name: str, openmp: bool) -> str:
    small = name.lower()
    for kind, patterns in NAMES:
        if any(fnmatchcase(small, pattern) for pattern in patterns):
            return kind
    is_python = process_name.startswith("python")
    if name == process_name and openmp and not is_python:
        return OPENMP
    return "Python" if is_python and name == process_name else OTHER


BLOCKED = "D"
"""State of a thread that waits for storage."""
ASLEEP = "SDTtI"
"""States of a thread that neither runs nor waits for a core."""


class ThreadCounters(NamedTuple):
    """One thread at one moment."""

    pid: int
    tid: int
    name: str
    state: str
    start_ticks: int
    user_ticks: int
    system_ticks: int
    minor_faults: int
    major_faults: int
    processor: int
    voluntary: int
    """Voluntary switches. Like the next number, it may be a few samples old."""
    involuntary: int
    cpus: str
    """CPUs on which the thread may run, as the kernel lists them."""
    ran_ns: int | None
    """Time in ns for which the thread ran; None if the kernel does not count it."""
    waited_ns: int | None
    slices: int | None
    """Number of times that the thread was put on a core; None if the kernel does not count it."""


class ProcessCounters(NamedTuple):
    """One process at one moment."""

    memory: ProcessMemory
    io: ProcessIO | None
    cpu_ticks: int = 0
    """CPU time of all its threads, also of those that have ended."""
    nice: int = 0
    thread_count: int = 1


class GroupCounters(NamedTuple):
    """The control group of a process at one moment."""

    used_bytes: int
    limit_bytes: int | None
    throttled_us: int | None
    """Time in µs for which the group was kept from its cores so far; None if that is not counted."""


class GroupKills(NamedTuple):
    """Processes of a control group that the kernel killed for memory."""

    processes: int
    peak_bytes: int = 0
    """Most memory that the group used; 0 if that is not counted, or nobody was killed."""
    limit_bytes: int | None = None
    """Limit of the group's own memory; None if only a group around it, or the node, limits it."""


class Sample(msgspec.Struct):
    """A node at one moment. It is never changed; see ``ThreadSpan``."""

    time_us: int
    """Time of a clock that never goes back."""
    wall_us: int
    """Time of day, in µs since 1970."""
    boot_ticks: int
    """Time since the node was booted, in the unit of threads' ``start_ticks``."""
    threads: dict[int, ThreadCounters]
    processes: dict[int, ProcessCounters]
    cores: dict[int, CoreTicks]
    memory: NodeMemory | None = None
    pressure_us: dict[str, int] = msgspec.field(default_factory=dict)
    """Time in µs for which some task waited for ``cpu``, ``memory`` and ``io`` so far."""
    groups: dict[int, GroupCounters] = msgspec.field(default_factory=dict)
    """Counters of control groups by process; processes of one group have the same."""
    kills: dict[str, GroupKills] = msgspec.field(default_factory=dict)
    """Kills by control group, also of groups whose processes have ended."""
    gpus: dict[int, GpuReading] = msgspec.field(default_factory=dict)
    """Readings of GPUs by their numbers."""
    cost_us: int = 0
    """CPU time that taking the sample took."""
