"""Names of functions as people are shown them; stored names keep the place in the source. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache, partial

import msgspec

from chimbuko.core.names import name_matcher
from chimbuko.core.traceschema import ROOT_TIMER_NAME

PROGRAM = "(program)"
"""Name shown for a rank's outermost call, TAU's ``.TAU application``."""

_LOCATION = re.compile(r"\s*\[\{([^}]*)\}\s*\{(\d*)[^}]*\}(?:-\{[^}]*\})?\]\s*$")
"""Pattern of TAU's ``[{file} {line,column}-{line,column}]``, and our tracer's ``[{file.py}{line}]``."""
_MODULE = re.compile(r"([A-Za-z_<][\w.<>]*) \[((?=\w*[a-z])[A-Za-z_]\w*(?:\.\w+)*)\]")
"""Pattern of ``function [module]``, as in PerfFlowAspect's traces of Python."""
_SOURCES = re.compile(r"\.(?:c|cc|cpp|cxx|cu|h|hh|hpp|f|f90|f03|f08)$", re.IGNORECASE)
_PYTHON = (".py", ".pyw")
_HAS_TYPES = re.compile(r"\w<|\w\(")
"""Pattern of templates, or arguments."""
_IS_CALLED = re.compile(r"::operator\(\)\(.*$")
"""Pattern of the end of a name of an object that is called like a function."""
_CONSTRUCT = re.compile(r"OpenMP [a-z]+ (?=\S)")
"""Beginning of the name of a construct of OpenMP, before that of the function that it is in."""
_UNRESOLVED = "addr=<"
"""Beginning of the name of a function of which only the address is known; its place names the binary."""


class FunctionName(msgspec.Struct, frozen=True):
    """Parts of a stored name."""

    function: str
    """Name of the function alone, with C++'s types."""
    module: str = ""
    """Python module."""
    file: str = ""
    """File as it was recorded, with or without its folder."""
    line: int = 0

    @property
    def place(self) -> str:
        """Place as ``file.c:10``, the file alone, or nothing: what is known."""
        file = self.file.rpartition("/")[2]
        return f"{file}:{self.line}" if self.line else file


def parse_name(name: str) -> FunctionName:
    """Return function, module and place of a stored name."""
    found = _LOCATION.search(name)
    if found is not None and _UNRESOLVED not in name:
        function, file = name[: found.start()], found[1]
        stem, dot, ending = file.rpartition("/")[2].rpartition(".")
        return FunctionName(function, stem if dot + ending in _PYTHON else "", file, int(found[2] or 0))
    named = _MODULE.fullmatch(name)
    if named is not None:
        is_source = _SOURCES.search(named[2]) is not None
        return FunctionName(named[1], *(("", named[2]) if is_source else (named[2],)))
    return FunctionName(name)


def shown_name(name: str) -> str:
    """Return the name to show: ``etl.load`` of ``load [{etl.py}{2}]``, and ``solve`` of ``solve [{heat.c}
    {10,0}-{20,1}]``.
    """
    if name == ROOT_TIMER_NAME:
        return PROGRAM
    parsed = parse_name(name)
    return f"{parsed.module}.{parsed.function}" if parsed.module else parsed.function or name


@lru_cache(maxsize=4096)
def short_name(name: str) -> str:
    """Return the name to show in a sentence, where functions of C and C++ have no types.

    ``void A::solve<double, B<int> >(int) const [{a.cpp} {3,1}]`` is ``A::solve``. Operators stay as they are,
    but for that of calls.
    """
    if construct := _CONSTRUCT.match(name):
        return construct[0] + short_name(name[construct.end() :])
    shown = shown_name(name).split(" [")[0].removesuffix("()")
    if (called := _IS_CALLED.search(shown)) is not None:
        return short_name(shown[: called.start()]) + "::operator()"
    if "operator" in shown or not _HAS_TYPES.search(shown):
        return shown
    kept, depth = "", 0
    for letter in shown.replace("(anonymous namespace)", "{anonymous}"):
        if letter == "(" and depth == 0:
            break
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if depth == 0 and letter != ">":
            kept += letter
    return kept.strip().split(" ")[-1] or shown


def place_of_construct(name: str) -> str:
    """Return where a construct of OpenMP is, as ``solve:120``, by its stored name."""
    parsed = parse_name(name)
    function = short_name(_CONSTRUCT.sub("", parsed.function))
    # Some compilers give the bodies of constructs no name but that of the place.
    return f"{function}:{parsed.line}" if parsed.line and function != parsed.place else function


def shown_names(names: Iterable[str], form: Callable[[str], str] = shown_name) -> dict[str, str]:
    """Return, for each stored name, the name to show beside the others.

    Names that ``form`` makes alike get their places in the source behind them, or are shown as stored where
    that does not tell them apart.
    """
    shown = {name: form(name) for name in names}
    placed = {name: _placed(name, text) for name, text in _alike(shown).items()}
    return shown | placed | {name: name for name in _alike(placed)}


def _alike(shown: dict[str, str]) -> dict[str, str]:
    times = Counter(shown.values())
    return {name: text for name, text in shown.items() if times[text] > 1}


def _placed(name: str, text: str) -> str:
    place = parse_name(name).place
    return f"{text} ({place})" if place else name


def function_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a predicate: whether a stored name is of a function that ``pattern`` matches.

    The pattern may be the name as it is stored, as it is shown, or without module and place.
    """
    # No lambda: the state of a stream's process is pickled for its successor.
    return partial(_is_meant, name_matcher(pattern))


def _is_meant(matches: Callable[[str], bool], name: str) -> bool:
    return any(map(matches, (name, shown_name(name), parse_name(name).function)))
