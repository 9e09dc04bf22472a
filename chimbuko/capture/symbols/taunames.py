"""Formats in which TAU writes the source location of a function into its name."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

import msgspec

_UNRESOLVED = re.compile(
    r"addr=<(?:0x)?(?P<address>[0-9a-f]{1,16})> \[\{(?P<path>[^{}]*)\} \{0,(?P<blank> ?)0\}\]"
)
_OFFSET = re.compile(r"\+0x[0-9a-f]+ \[\{")
_NO_BINARY = ("(unknown)", "/proc/self/exe")
"""Texts in place of a binary that TAU does not know: one that was stripped, and one that was loaded later."""
_THREAD = "[PTHREAD] "
_OUTLINED = re.compile(
    r" \[clone \._omp_fn\.\d+\]|\._omp_(?:fn|cpyfn)\.\d+|\.omp_outlined(?:_debug__)?[.\d]*(?:_wrapper)?|"
    r" \(\.omp_outlined[^)]*\)"
)
"""End of the names of functions that compilers make of the bodies of OpenMP's constructs; older clangs name
nothing else.
"""


class Unresolved(msgspec.Struct, frozen=True):
    """Function of which TAU knew only the address."""

    address: int
    path: str
    """Path of its binary; empty if TAU did not know that either."""
    is_entry: bool
    """Whether the function begins at the address, and does not only contain it."""


def find_unresolved(name: str) -> list[Unresolved]:
    """Return all addresses in a name; a path of calls has more than one."""
    return [
        Unresolved(
            address=int(found["address"], 16),
            path="" if found["path"] in _NO_BINARY else found["path"],
            is_entry=_is_function(name[: found.start()]),
        )
        for found in _UNRESOLVED.finditer(name)
    ]


def _is_function(before: str) -> bool:
    """Whether the address after ``before`` is that of a function; regions of OpenMP have that of a call."""
    before = before.removesuffix(_THREAD)
    return before == "" or before.endswith("=> ")


def with_places(name: str, place_of: Callable[[int], tuple[str, str, int] | None]) -> str:
    """Return the name with function, file and line for each address of which ``place_of`` knows them."""

    def named(found: re.Match[str]) -> str:
        place = place_of(int(found["address"], 16))
        if place is None:
            return found[0]
        function, file, line = place
        function = _OUTLINED.sub("", function) or f"{posixpath.basename(file)}:{line}"
        return f"{function} [{{{file}}} {{{line},{found['blank']}0}}]"

    return _UNRESOLVED.sub(named, name)


def offset_name(path: str, address: int) -> str:
    """Return a name for a function without one: its offset in its binary, which is the same on all ranks."""
    return f"{posixpath.basename(path)}+{address:#x}"


def is_offset_name(name: str) -> bool:
    """Whether the name of a function is one made by :func:`offset_name`."""
    return _OFFSET.search(name) is not None
