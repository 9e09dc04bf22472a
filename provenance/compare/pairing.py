"""Which function of one run is which of the other: names hold line numbers, and lines move. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

FunctionKey = tuple[str, str]
"""Names of program and function."""

_LOCATION = re.compile(r"\s*\[\{[^}]*\}\s*\{[^}]*\}(?:-\{[^}]*\})?\]\s*$")
"""TAU's ``[{file} {line,column}-{line,column}]``."""


def without_location(name: str) -> str:
    """A function's name without the place in the source that TAU puts behind it."""
    return _LOCATION.sub("", name)


def pair_functions(
    before: Iterable[FunctionKey], after: Iterable[FunctionKey]
) -> dict[FunctionKey, FunctionKey]:
    """Functions of the run before to those of the run after that they are.

    First those of the same name, then those of the same name but for their place in the source, where that
    tells them apart. Where each run has one program that the other has not, they are taken for the same one.
    """
    left, right = set(before), set(after)
    programs = _pair_programs({program for program, _ in left}, {program for program, _ in right})
    paired: dict[FunctionKey, FunctionKey] = {}
    for program, name in left:
        other = (programs.get(program, program), name)
        if other in right:
            paired[program, name] = other
    moved = _unique(key for key in right if key not in set(paired.values()))
    for (program, bare), key in _unique(key for key in left if key not in paired).items():
        found = moved.get((programs.get(program, program), bare))
        if found is not None:
            paired[key] = found
    return paired


def _pair_programs(before: set[str], after: set[str]) -> dict[str, str]:
    only_before, only_after = before - after, after - before
    if len(only_before) == len(only_after) == 1:
        return {only_before.pop(): only_after.pop()}
    return {}


def _unique(keys: Iterable[FunctionKey]) -> dict[FunctionKey, FunctionKey]:
    """By program and name without place, those that no other has."""
    listed = list(keys)
    bare = [(program, without_location(name)) for program, name in listed]
    times = Counter(bare)
    return {name: key for name, key in zip(bare, listed, strict=True) if times[name] == 1}
