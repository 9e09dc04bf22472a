"""Reading of the library's files, during the program and after its end. Nothing in these files is trusted."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from chimbuko.core.errors import TraceFormatError
from chimbuko.instrument.recorder.layout import (
    EVENT,
    LARGEST_RING_EVENTS,
    LEFT_EARLIER,
    PROCESS,
    PROCESS_MAGIC,
    RING,
    RING_MAGIC,
    VERSION,
    Kind,
)

Events = npt.NDArray[np.void]
"""Array of the dtype ``EVENT``."""


def _mapped(path: Path, least: int) -> mmap.mmap:
    try:
        with open(path, "r+b") as file:
            size = os.fstat(file.fileno()).st_size
            if size >= least:
                return mmap.mmap(file.fileno(), 0)
    except OSError as error:
        raise TraceFormatError(f"{path}: not readable ({error.strerror})") from error
    raise TraceFormatError(f"{path}: damaged: it is too short")


def _check(path: Path, head: npt.NDArray[np.void], magic: bytes) -> None:
    if head["magic"][0] != magic:
        raise TraceFormatError(f"{path}: damaged: it does not begin as it should")
    if head["version"][0] != VERSION:
        raise TraceFormatError(
            f"{path}: its version is {head['version'][0]}, and {VERSION} is known; use one Chimbuko for all"
        )


class ProcessFile:
    """File in which the library describes its process.

    Raises
    ------
    TraceFormatError
        The file is damaged, or of another version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._head = np.frombuffer(_mapped(path, PROCESS.itemsize), PROCESS, 1)
        _check(path, self._head, PROCESS_MAGIC)

    def number(self, field: str) -> int:
        """Return a field that is a number."""
        return int(self._head[field][0])

    def set_number(self, field: str, value: int) -> None:
        """Write a field that belongs to the drain."""
        self._head[field][0] = value

    @property
    def overhead(self) -> float:
        """Part of the program's time that recording may cost."""
        return float(self._head["overhead"][0])

    def text(self, field: str) -> str:
        """Return a field that is a text."""
        return bytes(self._head[field][0]).partition(b"\0")[0].decode(errors="replace")

    def name(self, number: int) -> str:
        """Return a name by its number; empty if there is none."""
        if number >= min(self.number("name_count"), len(self._head["names"][0])):
            return ""
        return bytes(self._head["names"][0][number]).partition(b"\0")[0].decode(errors="replace")

    def field(self, name: str) -> npt.NDArray[Any]:
        """Return a field that is an array or a structure."""
        found: npt.NDArray[Any] = self._head[name][0]
        return found


class Ring:
    """Ring of the events that one thread has recorded and nobody has taken yet.

    Raises
    ------
    TraceFormatError
        The file is damaged, or of another version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        memory = _mapped(path, RING.itemsize + EVENT.itemsize)
        self._head = np.frombuffer(memory, RING, 1)
        _check(path, self._head, RING_MAGIC)
        capacity = self.number("capacity")
        is_possible = 0 < capacity <= LARGEST_RING_EVENTS and capacity & (capacity - 1) == 0
        is_here = self.number("header_bytes") == RING.itemsize and self.number("thread") >= 0
        if not is_possible or not is_here or len(memory) < RING.itemsize + capacity * EVENT.itemsize:
            raise TraceFormatError(f"{path}: damaged: its sizes cannot be true")
        self._events: Events = np.frombuffer(memory, EVENT, capacity, RING.itemsize)
        self._read = self.number("read")
        self.thread = self.number("thread")
        if not self._is_in_order(self.number("written")):
            raise TraceFormatError(f"{path}: damaged: its positions cannot be true")

    def number(self, field: str) -> int:
        """Return a field that is a number."""
        return int(self._head[field][0])

    def left_out(self) -> npt.NDArray[np.uint64]:
        """Return the number of calls left out, by the row of their function in the file of the process."""
        found: npt.NDArray[np.uint64] = self._head["left_out"][0]
        return found

    def dropped(self) -> npt.NDArray[np.uint64]:
        """Return the number of calls for which there was no room, or too deep a stack, in the same order."""
        found: npt.NDArray[np.uint64] = self._head["dropped"][0]
        return found

    def stack(self) -> list[int]:
        """Return the keys of the open calls, the outermost first; behind them stand keys of earlier calls."""
        return [int(key) for key in self._head["stack"][0]]

    @property
    def fill(self) -> float:
        """Fill level, from 0 to 1."""
        return (self.number("written") - self._read) / len(self._events)

    def take(self) -> Events:
        """Take all complete events; from then on the library may write over them.

        Raises
        ------
        TraceFormatError
            The ring holds what the library cannot have written. Nothing more can be taken.
        """
        written = self.number("written")
        if not self._is_in_order(written):
            raise TraceFormatError(f"{self.path}: damaged: its positions cannot be true")
        first, count = self._read % len(self._events), written - self._read
        until_end = self._events[first : first + count]
        # As bytes: numpy joins rows field by field, which takes ten times as long.
        parts = until_end, self._events[: count - len(until_end)]
        taken: Events = np.concatenate([part.view(np.uint8) for part in parts]).view(EVENT)
        if count and not _are_possible(taken):
            raise TraceFormatError(f"{self.path}: damaged: it holds what is no event")
        self._read = written
        self._head["read"][0] = written
        return taken

    def _is_in_order(self, written: int) -> bool:
        return self._read <= written <= self._read + len(self._events)


def _are_possible(events: Events) -> bool:
    kinds, times = events["kind"], events["time_ns"]
    if kinds.min() < Kind.ENTRY or kinds.max() > Kind.LANE:
        return False
    if not _are_in_order(times):
        times = times[(kinds != Kind.EXIT) | (events["request"] != LEFT_EARLIER)]
    return bool((times[:1] >= 0).all()) and _are_in_order(times)


def _are_in_order(times: npt.NDArray[np.int64]) -> bool:
    return bool((times[1:] >= times[:-1]).all())
