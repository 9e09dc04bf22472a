"""Specifications of a node's processes, which they get at their start, and the claim of a stream by one
process at a time.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

import msgspec

from chimbuko.capture.follow.guard import Options as GuardOptions
from chimbuko.capture.trace.discovery import Transport
from chimbuko.core.config import AnalysisConfig

READER = "reader"
"""Name of the file in a stream's folder with the id of the process that reads it."""


def claim(folder: Path) -> int:
    """Wait until no other process reads the stream, and keep others from it; the file has the id of the one
    that does.

    A predecessor that cannot end at once holds the claim until it has left its stream in order.
    """
    file = os.open(folder / READER, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.lockf(file, fcntl.LOCK_EX)
    os.ftruncate(file, 0)
    # The lock is what counts; who holds it is for people, and on a full disk they go without.
    with suppress(OSError):
        os.pwrite(file, str(os.getpid()).encode(), 0)
    return file


NO_MEMORY = 77
"""Exit code of a stream's process for which there was no memory: another one would fare no better."""


class RecordedStream(msgspec.Struct, frozen=True):
    """A recorded stream to analyse."""

    path: str
    program: str
    rank: int
    first_rank: int


class AgentSpec(msgspec.Struct, frozen=True):
    """Specification of an agent at its start."""

    agent: str
    run: str
    """Id of the run."""
    index: int
    count: int
    """Number of agents on this node: the ranks are dealt out among them."""
    node: str
    scratch: str
    """Folder on node-local storage for spools and exchange."""
    config: AnalysisConfig
    live_folder: str = ""
    """Folder where streams, or their SST contact files, appear; empty if all streams are recorded."""
    kept_trace: str = ""
    """Folder that gets copies of followed files; empty for none."""
    is_ours: bool = True
    """Whether followed files were made for this run: what was read of them is deleted."""
    guard: GuardOptions | None = None
    """Options of the guard of the streams; None if all are recorded."""
    recorded: list[RecordedStream] = []
    broker_file: str = ""
    """File with the URL of the broker, which may come back elsewhere; empty if it does not."""
    is_revived: bool = False
    """Whether another agent continues where this one was when its supervisor is killed: it then ends at once,
    and not as if nobody wrote streams any more.
    """


class StreamProcessSpec(msgspec.Struct, frozen=True):
    """Specification of the process of one stream at its start."""

    key: str
    """Key of the stream, ``program:rank``."""
    path: str
    transport: Transport
    program: int
    rank: int
    node: str
    box: str
    spool: str
    names: str
    open_calls: str
    looks: str
    recorder: str
    config: AnalysisConfig
    first_rank: int = 0
    """Rank in the run of what the stream's rows call rank 0."""
    is_ours: bool = True
    """Whether followed files were made for this run: what was read of them is deleted."""
    guarded: str = ""
    """Folder in which the process registers with the guard; empty for none."""
    kept_trace: str = ""
    """Folder of a copy of followed files; empty for none."""
    contact: str = ""
    """Identity of the contact file (``arrivals.contact_of``); empty if there is none."""
