"""Data of charts about everything published in a run, and the file that holds it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec

from chimbuko.core.errors import ConfigError
from chimbuko.core.files import contents


class TaskView(msgspec.Struct, frozen=True):
    """One task of a workflow."""

    name: str
    states: list[tuple[int, str]]
    """Times in µs since the epoch, each with the state that began then, in order of time."""
    program: str
    """Name of the program; empty if nobody gave it."""
    nodes: list[str]
    """Nodes on which the task ran last."""
    ranks: int
    """Number of the task's processes; 0 if that is not known."""
    cores: int
    """Number of cores over all nodes; 0 if that is not known."""
    attempt: int
    """Number of the newest attempt to run the task, from 1 on; 0 if it was never tried."""
    exit_code: int | None
    reason: str
    """Reason of the task's failure; empty if it did not fail."""


class NodeView(msgspec.Struct, frozen=True):
    """Utilisation of one node over time."""

    node: str
    times_us: list[int]
    """Times of the samples, in µs since the epoch."""
    utilisation_percent: list[float | None]
    """Utilisation of all cores since the sample before, in per cent."""


class RankTime(msgspec.Struct, frozen=True):
    """Time that one rank spent in MPI."""

    program: str
    """Name of the program; empty if nobody gave it."""
    rank: int
    time_us: float


class Line(msgspec.Struct, frozen=True):
    """Values of a quantity that one rank published."""

    rank: int
    times_us: list[int]
    """Times of the values, in µs since the epoch."""
    values: list[float | None]
    """Values; None stands for one that is no finite number."""


class QuantityView(msgspec.Struct, frozen=True):
    """One numeric quantity, as all ranks published it."""

    namespace: str
    quantity: str
    """Path of the leaf, without ``Rank N``."""
    lines: list[Line]
    """Values of each rank, in the order of ranks."""


class Views(msgspec.Struct, frozen=True):
    """Data of all charts about everything published until now."""

    tasks: list[TaskView] = []
    nodes: list[NodeView] = []
    mpi: list[RankTime] = []
    quantities: list[QuantityView] = []
    left_out: int = 0
    """Number of values of quantities and tasks for which there was no room."""


_decoder = msgspec.msgpack.Decoder(Views)


def encode(views: Views) -> bytes:
    """Return the content of the file."""
    return msgspec.msgpack.encode(views)


def read_views(path: Path) -> Views:
    """Read the file; without one there is nothing to show.

    Raises
    ------
    ConfigError
        It cannot be read.
    """
    try:
        about = path.stat()
    except FileNotFoundError:
        return Views()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    return _read(path, (about.st_mtime_ns, about.st_ino, about.st_size))


@lru_cache(maxsize=4)
def _read(path: Path, version: tuple[int, int, int]) -> Views:
    """Read the file once for all panels of a page, which ask for it at the same time."""
    try:
        return _decoder.decode(contents(path))
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from error
