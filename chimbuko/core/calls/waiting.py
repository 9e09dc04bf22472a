"""Waiting in MPI and for the GPU, by the names of functions: in which a rank waits, and for whom."""

from __future__ import annotations

import re
from enum import Enum
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


_PATTERNS = (
    # These only start an operation, which is completed elsewhere.
    (
        re.compile(r"P?MPI_(I[a-z]+|\w+_init|Start|Startall|(Get|Comm_get|Type|Request_free|Cart)\w*)\b"),
        Waits.NOT,
    ),
    (
        re.compile(
            r"P?MPI_(Recv|Mrecv|Probe|Mprobe|Wait|Waitall|Waitany|Waitsome|Sendrecv|Sendrecv_replace|Test\w*"
            r"|Win_wait)\b"
        ),
        Waits.RECEIVE,
    ),
    # These one-sided operations end when the other side has come to them, too.
    (
        re.compile(r"P?MPI_(Send|Ssend|Rsend|Bsend|Win_(flush|lock|unlock)\w*|Win_(start|complete))\b"),
        Waits.SEND,
    ),
    (
        re.compile(
            r"MPI Collective Sync|P?MPI_(Barrier|Bcast|Reduce|All(gather|reduce|toall)\w*"
            r"|Gather|Gatherv|Scatter|Scatterv|Scan|Exscan|Reduce_scatter\w*|Comm_(split|dup|create|free)\w*|Win_(fence|create|free|allocate)\w*|Finalize"
            r"|Neighbor_\w+|File_(open|close|write|read)_?\w*all\w*|File_open|File_close)\b"
        ),
        Waits.COLLECTIVE,
    ),
    # PyTorch's names of what its communication libraries do.
    # ``c10d::`` functions only call these.
    (re.compile(r"(gloo|nccl|ucc|mpi|xccl):recv"), Waits.RECEIVE),
    (re.compile(r"(gloo|nccl|ucc|mpi|xccl):send"), Waits.SEND),
    (re.compile(r"(gloo|nccl|ucc|mpi|xccl):\w|nccl(Dev)?Kernel_"), Waits.COLLECTIVE),
)


_RECEIVE_ONLY = re.compile(r"P?MPI_M?[Rr]ecv\b")

_FOR_ALL = re.compile(r"P?MPI_(Barrier|All(gather|reduce|toall)\w*|Reduce_scatter\w*)\b")


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
    for pattern, waits in _PATTERNS:
        if pattern.match(function):
            return waits
    return Waits.NOT


def is_receive_only(function: str) -> bool:
    """Return whether a call of the function waits for messages that it receives, and for nothing else."""
    return _RECEIVE_ONLY.match(function) is not None


def is_over_for_all(function: str) -> bool:
    """Return whether no rank leaves a call of the function before all have come."""
    return _FOR_ALL.match(function) is not None


def is_communication(function: str) -> bool:
    """Return whether it is a function of MPI, a part that a tool adds to one, or PyTorch's communication."""
    return function.startswith(("MPI_", "PMPI_", "MPI ")) or waits_in(function) is not Waits.NOT
