"""Which function of one run is which of the other: names hold line numbers, and lines move. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping

from chimbuko.core.calls.functionnames import parse_name

FunctionKey = tuple[str, str]
"""Names of program and function."""


def pair_functions(
    before: Iterable[FunctionKey], after: Iterable[FunctionKey]
) -> dict[FunctionKey, FunctionKey]:
    """Functions of the run before to those of the run after that they are.

    Those of one name and file are taken in the order of their lines, where both runs have as many of them: so
    all of a file may have moved. Of the others those of the same name in full are one, then those of the same
    name and module, then those of the same name alone, where that tells them apart. Where each run has one
    program that the other has not, they are taken for the same one.
    """
    left, right = set(before), set(after)
    programs = _pair_programs({program for program, _ in left}, {program for program, _ in right})
    paired: dict[FunctionKey, FunctionKey] = {}
    for identity in (_in_file, str, _in_module, _alone):
        others = _groups(right - set(paired.values()), identity, {})
        for key, ours in _groups(left - paired.keys(), identity, programs).items():
            theirs = others.get(key, [])
            if len(ours) == len(theirs) and (len(ours) == 1 or identity is _in_file):
                paired |= zip(sorted(ours, key=_place), sorted(theirs, key=_place), strict=True)
    return paired


def _groups(
    keys: Iterable[FunctionKey], identity: Callable[[str], Hashable], programs: Mapping[str, str]
) -> dict[Hashable, list[FunctionKey]]:
    groups: dict[Hashable, list[FunctionKey]] = defaultdict(list)
    for program, name in keys:
        groups[programs.get(program, program), identity(name)].append((program, name))
    return groups


def _in_file(name: str) -> Hashable:
    one = parse_name(name)
    return one.function, one.file.rpartition("/")[2] or one.module


def _in_module(name: str) -> Hashable:
    one = parse_name(name)
    return one.function, one.module.rpartition(".")[2]


def _alone(name: str) -> Hashable:
    return parse_name(name).function


def _place(key: FunctionKey) -> tuple[str, int, str]:
    one = parse_name(key[1])
    return one.file, one.line, key[1]


def _pair_programs(before: set[str], after: set[str]) -> dict[str, str]:
    only_before, only_after = before - after, after - before
    if len(only_before) == len(only_after) == 1:
        return {only_before.pop(): only_after.pop()}
    return {}
