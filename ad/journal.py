"""The agent's last delta, in a file: if the agent dies, its successor sends it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from chimbuko.messages import Delta
from chimbuko.processes import log


class Taken(msgspec.Struct, frozen=True, array_like=True):
    """What of one stream's outbox is in the delta."""

    generation: int
    timers: bytes
    """i8[n]"""
    has_paths: bool


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A delta, and where it is from."""

    delta: Delta
    taken: dict[str, Taken]
    """By stream key."""


class Journal:
    """One entry in one file.

    It is written before anything is removed from the outboxes: after a death in between, the
    generation of an outbox tells whether that was done.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.is_failing = False
        """Whether there was no room for one."""

    def write(self, entry: Entry) -> None:
        """Replace the last one. Where the disk is full, all goes on without."""
        temporary = self._path.with_name(self._path.name + ".tmp")
        try:
            temporary.write_bytes(msgspec.msgpack.encode(entry))
            os.replace(temporary, self._path)
        except OSError as error:
            if not self.is_failing:
                log(f"{self._path}: the last delta cannot be kept ({error.strerror})")
            self.is_failing = True
            temporary.unlink(missing_ok=True)
            self._path.unlink(missing_ok=True)

    def read(self) -> Entry | None:
        """What a predecessor has left."""
        try:
            return msgspec.msgpack.decode(self._path.read_bytes(), type=Entry)
        except (OSError, msgspec.MsgspecError):
            return None
