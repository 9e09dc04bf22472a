"""Files in which the C++ Chimbuko left records: where they are, and their objects one after the other.

A list is decoded from a window by ``json``, and lines by msgspec. For 200 MB of XGC's anomalies that is 36
MB per CPU-second of a list and 245 of lines, where ijson 3.6 (yajl2_c) gives 64 and 59. Although ijson is
faster on lists it is not used: it ends a file at integers from 2^63 on, at lone surrogates, and at bytes
that are no UTF-8, all of which are read here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from chimbuko.core.errors import ConfigError

KINDS = ("metadata", "anomalies", "normalexecs")
"""Kinds of files of records, as their names say it, in the order in which the files of a step are read."""
PROFILES = ("global_func_stats", "global_counter_stats", "ad_model")
"""Names of the files that describe the whole run."""

_NAME = re.compile(rf"(?:(?P<step>\d+)\.)?(?P<kind>{'|'.join(KINDS)})\.jsonl?")
_CHUNK = 1 << 20
_LONGEST = 1 << 26
"""Most characters of one object: what is longer is damaged."""
_BETWEEN = re.compile(r"[\s,]*")


@dataclass(frozen=True)
class RecordFile:
    """File of records."""

    path: Path
    kind: str
    """Kind, one of ``KINDS``."""


@dataclass(frozen=True)
class NotJson:
    """Marker in place of an object that cannot be read."""

    reason: str


def record_files(source: Path) -> Iterator[RecordFile]:
    """Yield the files of records in a folder and below, or the one file, by the numbers in their names.

    Links are followed, and a folder is read once, however many lead to it.

    Raises
    ------
    ConfigError
        A folder cannot be read.
    """
    waiting, read = [source], set()
    while waiting:
        entry = waiting.pop()
        try:
            if not entry.is_dir():
                match = _NAME.fullmatch(entry.name)
                if match is not None and entry.is_file():
                    yield RecordFile(entry, match["kind"])
                continue
            found = entry.stat()
            if (found.st_dev, found.st_ino) not in read:
                read.add((found.st_dev, found.st_ino))
                waiting += sorted(entry.iterdir(), key=_place, reverse=True)
        except OSError as error:
            raise ConfigError(f"{entry}: cannot be read ({error.strerror})") from error


def read_objects(path: Path) -> Iterator[tuple[int, object | NotJson]]:
    """Yield the objects of a JSON list, or of a file with one on each line, counted from 1.

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
    """Sort key: files before folders, those of no step first, then by number."""
    match = _NAME.fullmatch(entry.name)
    if match is not None:
        return 0, int(match["step"] or -1), KINDS.index(match["kind"])
    return (1, int(entry.name), 0) if entry.name.isdecimal() else (2, 0, 0, entry.name)


def _lines(start: str, file: IO[str]) -> Iterator[tuple[int, object | NotJson]]:
    number = 0
    while line := file.readline(_LONGEST):
        number += 1
        text, start = start + line, ""
        if len(line) == _LONGEST:
            yield (
                number,
                NotJson(f"longer than {_LONGEST:,} characters; what follows in the file is left out"),
            )
            return
        if text.strip():
            try:
                yield number, msgspec.json.decode(text)
            except (msgspec.DecodeError, RecursionError) as error:
                yield number, NotJson(f"not JSON ({error})")


def _storable(value: object) -> object:
    """Return a value without lone surrogates, which come from JSON's escapes, and which no store takes."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_storable(item) for item in value]
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    return value


def _listed(file: IO[str]) -> Iterator[tuple[int, object | NotJson]]:
    """Yield the objects that follow the bracket that opens a list."""
    decoder = json.JSONDecoder()
    text, position, number = "", 0, 1
    while True:
        position = _BETWEEN.match(text, position).end()  # type: ignore[union-attr]
        if text.startswith("]", position):
            return
        try:
            value, position = decoder.raw_decode(text, position)
            value = _storable(value)
        except json.JSONDecodeError as error:
            # The object may go on in the next piece.
            text, position = text[position:], 0
            more = file.read(max(_CHUNK, len(text))) if len(text) < _LONGEST else ""
            if not more:
                yield number, NotJson(f"not JSON ({error.msg}); what follows in the file is left out")
                return
            text += more
        except (ValueError, RecursionError) as error:
            # The object has a number of too many digits, or too many nested brackets.
            yield number, NotJson(f"not JSON ({error}); what follows in the file is left out")
            return
        else:
            yield number, value
            number += 1
