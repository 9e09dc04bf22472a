"""Relay: runs a program, and publishes the lines that its processes write to files.

Programs in C write lines whose fields are separated by tabs. An update is a mode (``=`` or ``+``),
a key, a type and a value; a line that begins with ``!`` publishes the lines before it: namespace,
rank, number of commits, and how many publications are lost.
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
from chimbuko.observe.namespaces.client.outbox import Mode
from chimbuko.observe.namespaces.exchange.jobaddress import JobAddress, find_address
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
    """Values that a program published at once."""

    namespace: str
    rank: int
    commits: int
    lost: int
    """Number of publications before this one that could not be written."""
    updates: list[tuple[Mode, str, Any]] = field(default_factory=list)


class LineReader:
    """Parser of the publications in one file, as it grows."""

    def __init__(self) -> None:
        self._rest = b""
        self._updates: list[tuple[Mode, str, Any]] = []
        self.damaged = 0
        """Number of damaged lines: a file system that was full breaks them off."""

    def take(self, data: bytes) -> list[Publication]:
        """Return the publications that these bytes, the next ones of the file, complete."""
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
"""Environment variable with the folder to which processes write."""
LOOK_S = 0.05
READ_BYTES = 1 << 20
_MEMORY = Path("/dev/shm")
_KEEP_SIZE_AND_PUNCH_HOLE = 0x01 | 0x02
_libc = ctypes.CDLL(None, use_errno=True)


def relay(command: Sequence[str], place: str | Path | JobAddress | None = None) -> int:
    """Run a program to its end, publish for all of its processes on this node, and return its exit code.

    Raises
    ------
    ConfigError, ServiceError
        There is no service.
    CommandError
        The program cannot be run.
    """
    # A service that does not answer is reported before the program runs.
    found = place if isinstance(place, JobAddress) else find_address(place)
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
    """Reader of the files of a folder, which publishes new lines in them."""

    def __init__(self, folder: Path, place: JobAddress) -> None:
        self._folder = folder
        self._place = place
        self._files: dict[str, _File] = {}
        self._clients: dict[tuple[str, int], Client] = {}
        """Client of each file and rank, as each process counts as a client."""
        self._said: set[str] = set()

    def look(self) -> None:
        """Publish new lines."""
        with suppress(OSError):
            for name in os.listdir(self._folder):
                if name not in self._files:
                    self._files[name] = _File(self._folder / name)
        for name, file in self._files.items():
            for publication in file.new():
                self._publish(name, publication)

    def close(self) -> None:
        """Wait until everything has arrived, and report what has not."""
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
    """File to which one process writes."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._read_to = 0
        self.lines = LineReader()

    def new(self) -> list[Publication]:
        """Return the publications since the last call, and free the memory of what was read."""
        found: list[Publication] = []
        begin = self._read_to
        while data := os.pread(self._descriptor, READ_BYTES, self._read_to):
            self._read_to += len(data)
            found += self.lines.take(data)
        if self._read_to > begin:
            # If that is not possible the file only grows.
            _libc.fallocate(
                self._descriptor,
                _KEEP_SIZE_AND_PUNCH_HOLE,
                ctypes.c_long(0),
                ctypes.c_long(self._read_to & ~0xFFF),
            )
        return found

    def close(self) -> None:
        os.close(self._descriptor)
