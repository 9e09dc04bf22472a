"""Specification of the process that analyses a recorded trace, and the news that it gives of it."""

from __future__ import annotations

import msgspec

from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.config import AnalysisConfig

UNDELIVERED_CODE = 79
"""Exit code of a process that has come to its end, and has left in files what it could not store."""


class RecordedStreamSpec(msgspec.Struct, frozen=True):
    """A recorded stream to analyse."""

    path: str
    program: int
    """Number of its program."""
    rank: int
    first_rank: int


class OfflineSpec(msgspec.Struct, frozen=True):
    """Specification of the process at its start."""

    run: str
    """Folder of the run."""
    config: AnalysisConfig
    node: str
    programs: list[str]
    """Names of the programs in the order of their numbers."""
    streams: list[RecordedStreamSpec]
    has_own_store: bool
    """Whether the store is a file of the run, and no database of somebody else."""
    scratch: str
    """Folder on node-local storage for what cannot be stored."""
    load_model: str | None = None
    """File of the model that an earlier run has learned, to begin with."""
    save_models: list[str] = []
    """Files that get the final model."""
    workers: int = 1
    """Number of processes that read the streams; 1 for none beside this one."""
    is_relabelling: bool = True
    """Whether recorded calls are judged again by the final model."""


class OfflineNews(msgspec.Struct, frozen=True):
    """News of the process, one line of JSON each."""

    health: list[StreamHealth] = []
    """Streams of which something is new."""
    line: str = ""
    """A problem, for the user."""
    said: str = ""
    """Something else for the user."""
    is_read: bool = False
    """Whether the trace is read: from then on nothing can hang."""
