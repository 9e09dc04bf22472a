"""Files in which the C++ Chimbuko left records: where they are, and their objects one after the other.

Objects are whole when they are wanted, so ``json`` reads them from a window; ijson, which gives parts of
objects, would be another dependency for 20 lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from chimbuko.errors import ConfigError

KINDS = ("metadata", "anomalies", "normalexecs")
"""What a file's name says that it holds, in the order in which the files of a step are read."""
PROFILES = ("global_func_stats", "global_counter_stats", "ad_model")
"""Files beside these that describe the whole run."""

_NAME = re.compile(rf"(?:(?P<step>\d+)\.)?(?P<kind>{'|'.join(KINDS)})\.jsonl?")
_CHUNK = 1 << 20
_LONGEST = 1 << 26
"""Characters of one object of a list: what is longer is damaged."""
_BETWEEN = re.compile(r"[\s,]*")


@dataclass(frozen=True)
class RecordFile:
    """A file of records."""

    path: Path
    kind: str
    """One of ``KINDS``."""


@dataclass(frozen=True)
class NotJson:
    """What stands in place of an object that cannot be read."""

    reason: str


def record_files(source: Path) -> Iterator[RecordFile]:
    """Files of records in a folder and those below it, or the one file; in order of numbers in their names.

    Raises
    ------
    ConfigError
        A folder cannot be read.
    """
    if not source.is_dir():
        match = _NAME.fullmatch(source.name)
        if match is not None and source.is_file():
            yield RecordFile(source, match["kind"])
        return
    try:
        entries = sorted(source.iterdir(), key=_place)
    except OSError as error:
        raise ConfigError(f"{source}: cannot be read ({error.strerror})") from error
    for entry in entries:
        yield from record_files(entry)


def read_objects(path: Path) -> Iterator[tuple[int, object | NotJson]]:
    """Objects of a JSON list, or of lines of one object each, counted from 1; a part of the file at a time.

    Raises
    ------
    ConfigError
        The file cannot be read.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            start = file.read(1)
            while start.isspace():
                start = file.read(1)
            yield from _listed(file) if start == "[" else _lines(start, file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error


def _place(entry: Path) -> tuple[object, ...]:
    """Files before folders, those of no step first; then by number."""
    match = _NAME.fullmatch(entry.name)
    if match is not None:
        return 0, int(match["step"] or -1), KINDS.index(match["kind"])
    return (1, int(entry.name), 0) if entry.name.isdecimal() else (2, 0, 0, entry.name)


def _lines(start: str, file: IO[str]) -> Iterator[tuple[int, object | NotJson]]:
    for number, line in enumerate(file, 1):
        text, start = start + line, ""
        if text.strip():
            try:
                yield number, msgspec.json.decode(text)
            except msgspec.DecodeError as error:
                yield number, NotJson(f"not JSON ({error})")


def _listed(file: IO[str]) -> Iterator[tuple[int, object | NotJson]]:
    """What follows the bracket that opens a list."""
    decoder = json.JSONDecoder()
    text, position, number = "", 0, 1
    while True:
        position = _BETWEEN.match(text, position).end()  # type: ignore[union-attr]
        if text.startswith("]", position):
            return
        try:
            value, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            # It may go on in the next piece.
            text, position = text[position:], 0
            more = file.read(max(_CHUNK, len(text))) if len(text) < _LONGEST else ""
            if not more:
                yield number, NotJson(f"not JSON ({error.msg}); what follows in the file is left out")
                return
            text += more
        else:
            yield number, value
            number += 1
