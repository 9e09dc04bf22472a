"""Runs a program, and publishes what its processes write.

Lines that programs in C write, as publications. No I/O.

Fields are separated by tabs. An update is a mode (``=`` or ``+``), a key, a type and a value; a line that
begins with ``!`` publishes those before it: namespace, rank, number of commits, and how many publications are
lost.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from chimbuko.core.errors import ChimbukoError
from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.namespaces.client.pending import Mode
from chimbuko.observe.namespaces.exchange.place import Place, find_place
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.process.usercommand import run_beside

_MOST_COMMITS = 1_000_000
_ESCAPED = re.compile(r"\\(.)")
_MEANINGS = {"t": "\t", "n": "\n"}
_MODES = {"=": Mode.OVERWRITE, "+": Mode.APPEND}
_TYPES: dict[str, Callable[[str], Any]] = {
    "d": float.fromhex,
    "i": int,
    "b": lambda text: text == "1",
    "s": lambda text: _ESCAPED.sub(lambda found: _MEANINGS.get(found[1], found[1]), text),
    "D": lambda text: np.array([float.fromhex(word) for word in text.split()]),
}


@dataclass
class Publication:
    """What a program published at once."""

    namespace: str
    rank: int
    commits: int
    lost: int
    """Publications before it that could not be written."""
    updates: list[tuple[Mode, str, Any]] = field(default_factory=list)


class LineReader:
    """Publications of one file, as it grows."""

    def __init__(self) -> None:
        self._rest = b""
        self._updates: list[tuple[Mode, str, Any]] = []
        self.damaged = 0
        """Lines that are none: a file system that was full breaks them off."""

    def take(self, data: bytes) -> list[Publication]:
        """What has been published with these bytes, the next ones of the file."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        found = []
        for line in lines:
            try:
                publication = self._read(line.decode().split("\t"))
            except (ValueError, KeyError, OverflowError):
                self.damaged += 1
                continue
            if publication is not None:
                found.append(publication)
        return found

    def _read(self, fields: list[str]) -> Publication | None:
        if fields[0] == "!":
            _, namespace, rank, commits, lost = fields
            publication = Publication(namespace, int(rank), int(commits), int(lost), self._updates)
            if publication.rank < 0 or not 0 < publication.commits <= _MOST_COMMITS:
                raise ValueError(fields)
            self._updates = []
            return publication
        mode, key, kind, value = fields
        self._updates.append((_MODES[mode], _TYPES["s"](key), _TYPES[kind](value)))
        return None


RELAY_VARIABLE = "CHIMBUKO_RELAY"
"""Environment variable with the folder in which processes write."""
LOOK_S = 0.05
READ_BYTES = 1 << 20
_MEMORY = Path("/dev/shm")
_KEEP_SIZE_AND_PUNCH_HOLE = 0x01 | 0x02
_libc = ctypes.CDLL(None, use_errno=True)


def relay(command: Sequence[str], place: str | Path | Place | None = None) -> int:
    """Run a program to its end, and publish for all of its processes on this node; its exit code.

    Raises
    ------
    ConfigError, ServiceError
        There is no service.
    CommandError
        The program cannot be run.
    """
    # A place that does not answer is said before the program runs.
    found = place if isinstance(place, Place) else find_place(place)
    with found.connect() as connection:
        found.about(connection)
    folder = Path(tempfile.mkdtemp(prefix="chimbuko-relay-", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        relaying = Relay(folder, found)
        code = run_beside(command, {RELAY_VARIABLE: str(folder)}, relaying.look, LOOK_S)
        relaying.close()
        return code
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Relay:
    """Reads the files of a folder, and publishes what is new in them."""

    def __init__(self, folder: Path, place: Place) -> None:
        self._folder = folder
        self._place = place
        self._files: dict[str, _File] = {}
        self._clients: dict[tuple[str, int], Client] = {}
        """By file and rank: what one process publishes is one client's."""
        self._said: set[str] = set()

    def look(self) -> None:
        """Publish what is new."""
        with suppress(OSError):
            for name in os.listdir(self._folder):
                if name not in self._files:
                    self._files[name] = _File(self._folder / name)
        for name, file in self._files.items():
            for publication in file.new():
                self._publish(name, publication)

    def close(self) -> None:
        """Wait until all has arrived, and say what has not."""
        for client in self._clients.values():
            try:
                client.close()
            except ChimbukoError as error:
                self._say(str(error))
        damaged = sum(file.lines.damaged for file in self._files.values())
        if damaged:
            self._say(f"{damaged} updates of the program are damaged and left out")
        for file in self._files.values():
            file.close()

    def _publish(self, name: str, publication: Publication) -> None:
        if publication.lost:
            self._say(f"{publication.lost} publications of the program are lost: too many waited")
        try:
            key = name, publication.rank
            if key not in self._clients:
                self._clients[key] = Client(self._place, publication.rank)
            namespace = self._clients[key].create(publication.namespace)
        except ChimbukoError as error:
            self._say(str(error))
            return
        for mode, path, value in publication.updates:
            try:
                namespace.update(path, value, mode)
            except ChimbukoError as error:
                # One value that does not fit does not keep others from being published.
                self._say(str(error))
        # So that as many commits are counted as there were.
        namespace.set_publish_frequency(publication.commits)
        for _ in range(publication.commits):
            namespace.commit_async()

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            log(line)


class _File:
    """What one process writes."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._read_to = 0
        self.lines = LineReader()

    def new(self) -> list[Publication]:
        """What it has published since the last call; the memory of what was read is given back."""
        found: list[Publication] = []
        begin = self._read_to
        while data := os.pread(self._descriptor, READ_BYTES, self._read_to):
            self._read_to += len(data)
            found += self.lines.take(data)
        if self._read_to > begin:
            # Where that cannot be done the file only grows.
            _libc.fallocate(
                self._descriptor,
                _KEEP_SIZE_AND_PUNCH_HOLE,
                ctypes.c_long(0),
                ctypes.c_long(self._read_to & ~0xFFF),
            )
        return found

    def close(self) -> None:
        os.close(self._descriptor)
