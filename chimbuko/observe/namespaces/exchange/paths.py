"""Paths of leaves: their keys, from the outermost to the leaf's own.

As text a path has its keys joined by ``/``. A key that contains one itself, such as the name of a function in
a file, has ``%2F`` there, and a ``%`` that could be mistaken has ``%25``.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

from chimbuko.core.errors import ObservationError

Path = tuple[str, ...]

MOST_KEYS = 32
"""Most keys of a path: the deepest layout in use has seven."""
LONGEST_KEY_BYTES = 1024
"""Most bytes of a key in UTF-8: names of C++ templates are long."""

_MISTAKABLE = re.compile("%(?=25|2F)")
_LONGEST_SHOWN = 40
_SPARE_BYTES = 32
"""Bytes left free for an ending of a key."""


def parse_path(text: str) -> Path:
    """Return the path that a text such as ``Rank 3/step`` stands for; the empty text is the empty path.

    Raises
    ------
    ObservationError
        It is none.
    """
    if not text:
        return ()
    return checked_path([key.replace("%2F", "/").replace("%25", "%") for key in text.split("/")])


def format_path(path: Path) -> str:
    """Return a path as text, of which ``parse_path`` makes the same path again."""
    return "/".join(_MISTAKABLE.sub("%25", key).replace("/", "%2F") for key in path)


def checked_path(keys: Sequence[str]) -> Path:
    """Return the path of these keys, after checking them.

    Raises
    ------
    ObservationError
        One of them is no key, or they are too many.
    """
    if len(keys) > MOST_KEYS:
        raise ObservationError(
            f"path {_short('/'.join(map(str, keys)))}: has {len(keys)} keys, and may have {MOST_KEYS}; "
            "put fewer groups into each other"
        )
    for key in keys:
        check_key(key)
    return tuple(keys)


def check_key(key: object) -> None:
    """Raise ObservationError if this is no key."""
    if not isinstance(key, str):
        raise ObservationError(f"key {_short(str(key))}: is a {type(key).__name__}; a key is a string")
    if not key or key == "..":
        raise ObservationError(f"key {key!r}: cannot be used; give one like 'step' or 'Rank 3/step'")
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise ObservationError(f"key {_short(key)}: has halves of characters; give valid Unicode") from None
    if "\0" in key:
        raise ObservationError(f"key {_short(key)}: contains a character of number 0; leave it out")
    if size > LONGEST_KEY_BYTES:
        raise ObservationError(
            f"key {_short(key)}: has {size:,} bytes, and may have {LONGEST_KEY_BYTES:,}; shorten it"
        )


def key_of(text: str) -> str:
    """Return the key that stands for any text, such as the name of a function; it leaves room for an
    ending.
    """
    encoded = text.encode(errors="replace").replace(b"\0", b"?")
    if len(encoded) > LONGEST_KEY_BYTES - _SPARE_BYTES:
        ending = b"...%08x" % zlib.crc32(encoded)
        encoded = encoded[: LONGEST_KEY_BYTES - 2 * _SPARE_BYTES] + ending
    key = encoded.decode(errors="ignore")
    return "?" if key in ("", "..") else key


def _short(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…")
