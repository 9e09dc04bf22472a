"""The server's state as it is saved, in one file: what was acknowledged as saved is in it."""

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
"""More than are published from one save to the next."""


class SavedAgent(msgspec.Struct, frozen=True, array_like=True):
    """What is known of one agent."""

    incarnation: int
    sequence: int
    numbers: bytes
    """i8[n]: its numbers of functions to global ones."""


class SavedState(msgspec.Struct, frozen=True, array_like=True):
    """All that a server knows."""

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
    """Write atomically: who reads finds the old state or the new one.

    Raises
    ------
    OSError
        It cannot be written.
    """
    write_atomically(path, msgspec.msgpack.encode(state))


def read_state(path: Path) -> SavedState | None:
    """What an earlier process has saved, if any has.

    Raises
    ------
    ServiceError
        It cannot be read.
    """
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=SavedState)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise ServiceError(f"{path}: the saved state cannot be read ({error}); remove it") from error
