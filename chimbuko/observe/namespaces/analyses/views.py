"""What charts show of what was published in a run, and the file in which it stands."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec

from chimbuko.core.errors import ConfigError


class TaskView(msgspec.Struct, frozen=True):
    """A task of a workflow."""

    name: str
    states: list[tuple[int, str]]
    """Times in µs since the epoch, and what it was in from then on, in order of time."""
    program: str
    """Empty where nobody said."""
    nodes: list[str]
    """Where it ran last."""
    ranks: int
    """Its processes; 0 where that is not known."""
    cores: int
    """Over all nodes; 0 where that is not known."""
    attempt: int
    """For which time it was tried; 0 for never."""
    exit_code: int | None
    reason: str
    """Why it failed; empty where it did not."""


class NodeView(msgspec.Struct, frozen=True):
    """What a node did."""

    node: str
    times_us: list[int]
    """Of samples, since the epoch."""
    utilisation_percent: list[float | None]
    """Of all cores since the sample before."""


class RankTime(msgspec.Struct, frozen=True):
    """Time that a rank spent in MPI."""

    program: str
    """Empty where nobody said."""
    rank: int
    time_us: float


class Line(msgspec.Struct, frozen=True):
    """What one rank published of a quantity."""

    rank: int
    times_us: list[int]
    """Since the epoch."""
    values: list[float | None]
    """None for what is no finite number."""


class QuantityView(msgspec.Struct, frozen=True):
    """A leaf with numbers, of all ranks."""

    namespace: str
    quantity: str
    """Its path, without ``Rank N``."""
    lines: list[Line]
    """In the order of ranks."""


class Views(msgspec.Struct, frozen=True):
    """All that charts show of what was published until now."""

    tasks: list[TaskView] = []
    nodes: list[NodeView] = []
    mpi: list[RankTime] = []
    quantities: list[QuantityView] = []
    left_out: int = 0
    """Values of quantities and tasks for which there was no room."""


_decoder = msgspec.msgpack.Decoder(Views)


def encode(views: Views) -> bytes:
    """The content of the file."""
    return msgspec.msgpack.encode(views)


def read_views(path: Path) -> Views:
    """What stands in the file; nothing where there is none.

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
    """All panels of a page ask for the same file."""
    try:
        return _decoder.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from error
