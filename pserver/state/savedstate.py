"""State of the server as it is saved, in one file; it contains all deltas that were acknowledged as saved."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.errors import ServiceError
from chimbuko.core.files import write_atomically
from chimbuko.core.statistics.schema import PackedTable
from chimbuko.pserver.state.functions import SavedFunctions
from chimbuko.pserver.state.rankstatistics import SavedRanks
from chimbuko.pserver.state.runtelemetry import SavedTelemetry

VERSIONS_PER_SAVE = 1_000_000
"""Distance in version numbers from one save to the next, more than are ever published in between."""


class SavedAgent(msgspec.Struct, frozen=True, array_like=True):
    """Saved state of one agent."""

    incarnation: int
    sequence: int
    numbers: bytes
    """Global number of each of the agent's function numbers, int64[n]."""
    is_leaf: bool = False


class SavedState(msgspec.Struct, frozen=True, array_like=True):
    """Saved state of a server."""

    lockstep_streams: int
    programs: dict[int, str]
    agents: dict[str, SavedAgent]
    functions: SavedFunctions
    closed: dict[str, int]
    published_epoch: int
    published: dict[int, PackedTable]
    version: int
    ranks: SavedRanks
    health: list[StreamHealth]
    telemetry: SavedTelemetry
    tick: int
    lost_deltas: int


def write_state(path: Path, state: SavedState) -> None:
    """Write the state atomically: a reader finds the old state or the new one.

    Raises
    ------
    OSError
        It cannot be written.
    """
    write_atomically(path, msgspec.msgpack.encode(state))


def read_state(path: Path) -> SavedState | None:
    """Return the state that an earlier process has saved, or None.

    Raises
    ------
    ServiceError
        The file cannot be read.
    """
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=SavedState)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise ServiceError(f"{path}: the saved state cannot be read ({error}); remove it") from error
