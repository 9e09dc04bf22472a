"""The forms in which TAU writes a function's place into its name."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass

_UNRESOLVED = re.compile(
    r"addr=<(?:0x)?(?P<address>[0-9a-f]{1,16})> \[\{(?P<path>[^{}]*)\} \{0,(?P<blank> ?)0\}\]"
)
_OFFSET = re.compile(r"\+0x[0-9a-f]+ \[\{")
_NO_BINARY = ("(unknown)", "/proc/self/exe")
"""What TAU says where it does not know the binary: of a stripped one, and of one that was loaded later."""
_THREAD = "[PTHREAD] "


@dataclass(frozen=True)
class Unresolved:
    """A function of which TAU knew only the address."""

    address: int
    path: str
    """Its binary; empty where TAU did not know that either."""
    is_entry: bool
    """Where the function begins, and not somewhere in it."""


def find_unresolved(name: str) -> list[Unresolved]:
    """All addresses in a name; more than one where it is a path of calls."""
    return [
        Unresolved(
            address=int(found["address"], 16),
            path="" if found["path"] in _NO_BINARY else found["path"],
            is_entry=_is_function(name[: found.start()]),
        )
        for found in _UNRESOLVED.finditer(name)
    ]


def _is_function(before: str) -> bool:
    """Whether what follows names a function: regions of OpenMP are known by the place of a call."""
    before = before.removesuffix(_THREAD)
    return before == "" or before.endswith("=> ")


def with_places(name: str, place_of: Callable[[int], tuple[str, str, int] | None]) -> str:
    """The name with function, file and line for each address of which ``place_of`` knows them."""

    def named(found: re.Match[str]) -> str:
        place = place_of(int(found["address"], 16))
        if place is None:
            return found[0]
        function, file, line = place
        return f"{function} [{{{file}}} {{{line},{found['blank']}0}}]"

    return _UNRESOLVED.sub(named, name)


def offset_name(path: str, address: int) -> str:
    """What stands for a function that has no name: where it lies in its binary is the same on all ranks."""
    return f"{posixpath.basename(path)}+{address:#x}"


def is_offset_name(name: str) -> bool:
    """Whether a function's name is such a one."""
    return _OFFSET.search(name) is not None
