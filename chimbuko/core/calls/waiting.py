"""Waiting in MPI, in OpenMP and for the GPU, and other kinds of time, by the names of functions."""

from __future__ import annotations

import re
from enum import Enum, IntEnum
from functools import lru_cache


class Waits(Enum):
    """Partners for which a call may wait."""

    NOT = "not"
    RECEIVE = "receive"
    """Senders of messages."""
    SEND = "send"
    """Receiver of a message, or target of a one-sided operation."""
    COLLECTIVE = "collective"
    """All other ranks, or one that has what they need."""
    THREADS = "threads"
    """Other threads of the same rank."""


_MPI = {
    name: waits
    for waits, names in {
        Waits.RECEIVE: """
            Recv Mrecv Probe Mprobe Sendrecv Sendrecv_replace Wait Waitall Waitany Waitsome
            Test Testall Testany Testsome Win_wait
        """,
        # One-sided operations end when the other side has come to them, too.
        Waits.SEND: """
            Send Ssend Rsend Bsend Win_start Win_complete Win_lock Win_lock_all Win_unlock Win_unlock_all
            Win_flush Win_flush_all Win_flush_local Win_flush_local_all
        """,
        Waits.COLLECTIVE: """
            Barrier Bcast Gather Gatherv Scatter Scatterv Reduce Reduce_scatter Reduce_scatter_block Scan
            Exscan Allgather Allgatherv Allreduce Alltoall Alltoallv Alltoallw
            Neighbor_allgather Neighbor_allgatherv Neighbor_alltoall Neighbor_alltoallv Neighbor_alltoallw
            Cart_create Cart_sub Graph_create Dist_graph_create Dist_graph_create_adjacent
            Comm_create Comm_create_from_group Comm_create_group Comm_dup Comm_dup_with_info Comm_split
            Comm_split_type Comm_free Comm_disconnect Comm_accept Comm_connect Comm_spawn Comm_spawn_multiple
            Intercomm_create Intercomm_merge
            Win_create Win_create_dynamic Win_allocate Win_allocate_shared Win_fence Win_free
            File_open File_close File_read_all File_read_all_begin File_read_all_end File_read_at_all
            File_read_at_all_begin File_read_at_all_end File_write_all File_write_all_begin File_write_all_end
            File_write_at_all File_write_at_all_begin File_write_at_all_end
            Finalize
        """,
    }.items()
    for name in names.split()
}
"""Functions of MPI that wait, without ``MPI_``; a test holds the recorder's table of MPI to this one."""
_MPI_NAME = re.compile(r"P?MPI_(\w+?)(?:_c)?\b")
_ENDS_BY_ITSELF = frozenset(["Test", "Testall", "Testany", "Testsome", "Bsend"])
_RECEIVE_ONLY = frozenset(["Recv", "Mrecv"])
_FOR_ALL = frozenset(name for name in _MPI if name.startswith(("Barrier", "All", "Reduce_scatter")))

_OTHERS = (
    (re.compile(r"MPI Collective Sync\b"), Waits.COLLECTIVE),
    # PyTorch's names of what its communication libraries do.
    # ``c10d::`` functions only call these.
    (re.compile(r"(gloo|nccl|ucc|mpi|xccl):recv"), Waits.RECEIVE),
    (re.compile(r"(gloo|nccl|ucc|mpi|xccl):send"), Waits.SEND),
    (re.compile(r"(gloo|nccl|ucc|mpi|xccl):\w|nccl(Dev)?Kernel_"), Waits.COLLECTIVE),
    (re.compile(r"_c10d_functional::wait_tensor"), Waits.COLLECTIVE),
    # Our recorder's names, and TAU's.
    (re.compile(r"OpenMP (barrier|taskwait)\b|OpenMP_Sync_Region_(Barrier|Taskwait)"), Waits.THREADS),
)


_GPU_QUEUED = re.compile(
    r"(cuda|hip|cu)((Ext)?(Module)?Launch\w+|(Memcpy|Memset)\w*Async|GraphLaunch)|clEnqueue[A-Z]"
    r"|ze[A-Z]\w*(Append|Execute)[A-Z]"
)
_GPU_AWAITED = re.compile(
    r"(cuda|hip|cu|ze)[A-Z]\w*Synchronize|(cuda|hip|cu)(Memcpy|Memset)|cl(Finish|WaitForEvents)\b"
)


@lru_cache(maxsize=4096)
def puts_into_gpu_queue(function: str) -> bool:
    """Return whether a call of the function gives a GPU something to do, and returns before that is done."""
    return _GPU_QUEUED.match(function) is not None


@lru_cache(maxsize=4096)
def waits_for_gpu(function: str) -> bool:
    """Return whether a call of the function ends when the GPU has done what it had been given."""
    return _GPU_AWAITED.match(function) is not None and not puts_into_gpu_queue(function)


@lru_cache(maxsize=4096)
def waits_in(function: str) -> Waits:
    """Return for whom a call of the function may wait, by its name."""
    name = _mpi_name(function)
    if name:
        return _MPI.get(name, Waits.NOT)
    return next((waits for pattern, waits in _OTHERS if pattern.match(function)), Waits.NOT)


def ends_by_another_rank(function: str) -> bool:
    """Return whether a call of the function of MPI ends only when another rank has done something."""
    name = _mpi_name(function)
    return name in _MPI and name not in _ENDS_BY_ITSELF


def is_start(function: str) -> bool:
    """Return whether it is the function of MPI with which ranks begin: where the first wait for the last."""
    return _mpi_name(function) in ("Init", "Init_thread")


def is_receive_only(function: str) -> bool:
    """Return whether a call of the function waits for messages that it receives, and for nothing else."""
    return _mpi_name(function) in _RECEIVE_ONLY


def is_over_for_all(function: str) -> bool:
    """Return whether no rank leaves a call of the function before all have come."""
    return _mpi_name(function) in _FOR_ALL


def _mpi_name(function: str) -> str:
    """Return the name of a function of MPI, without ``MPI_``, and without the ``_c`` of large counts; empty
    for others.
    """
    found = _MPI_NAME.match(function)
    return found[1] if found else ""


def is_communication(function: str) -> bool:
    """Return whether it is a function of MPI, a part that a tool adds to one, or PyTorch's communication."""
    is_of_mpi = function.startswith(("MPI_", "PMPI_", "MPI "))
    return is_of_mpi or waits_in(function) not in (Waits.NOT, Waits.THREADS)


# Kind of time: what a thread did, by the name of the function in which it was.


AWAIT = "await "
"""Beginning of the names under which coroutines that await are recorded."""
_IO = re.compile(
    r"(MPI_File_\w+|p?(read|write)v?(64)?|open(64)?|close|f(data)?sync|f(open(64)?|close|read|write|flush|puts|gets))"
    r"( ?\(\))?$"
)
"""Names of functions that read and write files, as libraries have them: those of a program have a place."""


class TimeKind(IntEnum):
    """Kind of what a function does with its own time; the numbers are the order in which steps have them."""

    COMPUTING = 0
    """Computing, or asleep where nothing else says so."""
    MPI = 1
    IO = 2
    GPU = 3
    """Waiting for a GPU."""
    AWAITING = 4
    """Awaiting, of a coroutine, or of a thread for others of its team."""


@lru_cache(maxsize=4096)
def time_kind(function: str) -> TimeKind:
    """Return the kind of the time that is spent in a function's own code."""
    if function.startswith(AWAIT) or waits_in(function) is Waits.THREADS:
        return TimeKind.AWAITING
    if _IO.match(function):
        return TimeKind.IO
    if is_communication(function):
        return TimeKind.MPI
    return TimeKind.GPU if waits_for_gpu(function) else TimeKind.COMPUTING
