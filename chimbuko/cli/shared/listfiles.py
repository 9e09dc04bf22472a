"""Lists that an option takes from a file, ``@FILE``, in the forms that the C++ Chimbuko has them.

Names of functions stand in lines, or in a JSON list; thresholds are a JSON list of objects with ``fname`` and
``threshold``; watched counters are a JSON list of pairs, of a counter and its field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from chimbuko.core.errors import ConfigError

Item = TypeVar("Item")


class FunctionThreshold(msgspec.Struct, frozen=True):
    """Threshold of one function."""

    fname: str
    threshold: float


def names_of(words: Iterable[str]) -> list[str]:
    """Return names of functions, with those of files in their places.

    Raises
    ------
    ConfigError
        A file cannot be read, or has no names.
    """
    return _expanded(words, lambda word: word, _names)


def thresholds_of(words: Iterable[str]) -> list[tuple[str, float]]:
    """Return thresholds of functions, ``NAME=VALUE`` or those of a file.

    Raises
    ------
    ConfigError
        A word or a file has none.
    """
    return _expanded(words, _threshold, _thresholds)


def counters_of(words: Iterable[str]) -> list[tuple[str, str]]:
    """Return watched counters with their fields, ``COUNTER``, ``COUNTER=FIELD`` or those of a file; the field
    is empty where none is given.

    Raises
    ------
    ConfigError
        A file cannot be read, or has none.
    """
    return _expanded(words, _counter, _counters)


def _expanded(
    words: Iterable[str], one: Callable[[str], Item], many: Callable[[str, str], Sequence[Item]]
) -> list[Item]:
    found: list[Item] = []
    for word in words:
        if not word.startswith("@"):
            found.append(one(word))
            continue
        try:
            text = Path(word[1:]).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "no text in UTF-8"
            raise ConfigError(f"{word[1:]}: it cannot be read ({reason})") from error
        found += many(text, word[1:])
    return found


def _names(text: str, path: str) -> list[str]:
    if text.lstrip().startswith("["):
        return _decoded(text, path, list[str], '["main", "MPI_Init()"]')
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _thresholds(text: str, path: str) -> list[tuple[str, float]]:
    found = _decoded(text, path, list[FunctionThreshold], '[{"fname": "main", "threshold": 0.995}]')
    return [(one.fname, one.threshold) for one in found]


def _counters(text: str, path: str) -> list[tuple[str, str]]:
    return _decoded(text, path, list[tuple[str, str]], '[["monitoring: CPU user", "cpu_user"]]')


def _decoded(text: str, path: str, kind: type[list[Item]], example: str) -> list[Item]:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: not a list like {example} ({error})") from error


def _threshold(text: str) -> tuple[str, float]:
    # Names hold "=" too, as in operator==.
    name, _, value = text.rpartition("=")
    try:
        if name:
            return name, float(value)
    except ValueError:
        pass
    raise ConfigError(f"--threshold-of {text!r}: not NAME=VALUE; give one like 'MPI_*=8'")


def _counter(text: str) -> tuple[str, str]:
    name, _, field = text.partition("=")
    return name, field
