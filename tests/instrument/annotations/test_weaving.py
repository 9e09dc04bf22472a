"""Functions of sources that are annotated by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

import chimbuko
from chimbuko.core.errors import ConfigError
from chimbuko.instrument.annotations.weaving import NamePattern, parse_pattern, weave

SOURCE = '''\
"""Documentation."""
from __future__ import annotations

def solve(n: Unknown): return n

class Grid:
    def step(self):
        def inner(): pass
        return inner

async def fetch(): pass

@njit
def compiled(): pass

@critical_path(scope="here")
def annotated(): pass
'''


def met(function: str) -> set[str]:
    woven = weave(SOURCE, "solver.py", [parse_pattern(f"solver:{function}")])
    return set() if woven is None else {pattern.text for pattern in woven.met}


@pytest.mark.parametrize(
    ("function", "is_met"),
    [
        *(("solve", True), ("s?lve", True), ("*", True), ("[!s]*", True), ("fet*", True)),
        *(("Grid.step", True), ("Grid.*", True), ("*.step", True), ("Grid.step.<locals>.inner", True)),
        *(("Grid.*.*.inner", True), ("compiled", True), ("annotated", True)),
        *(("Grid", False), ("Grid*", False), ("step", False), ("inner", False), ("Solve", False)),
    ],
)
def test_each_part_of_a_name_has_a_pattern_of_its_own(function: str, is_met: bool) -> None:
    assert bool(met(function)) is is_met


def test_modules_match_with_those_below_them() -> None:
    pattern = parse_pattern("pkg.*:f:before_async")
    assert (pattern.function, pattern.pointcut) == (("f",), "before_async")
    assert pattern.is_of_module("pkg.mod") and pattern.is_of_module("pkg.sub.mod")
    assert not pattern.is_of_module("pkg") and not pattern.is_of_module("other.pkg.mod")


@pytest.mark.parametrize("text", ["solver", "solver:", ":solve", "", "solver:solve:arund"])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=repr(text) + ".*"):
        parse_pattern(text)


def everything() -> list[NamePattern]:
    return [parse_pattern(f"*:{'.'.join(['*'] * parts)}") for parts in range(1, 6)]


def test_sources_mean_what_they_meant_and_lines_stay(tmp_path: Path) -> None:
    # All sources of this package are Python that says more than a test would think of.
    for path in sorted(Path(chimbuko.__file__).parent.joinpath("instrument", "annotations").glob("*.py")):
        source = path.read_bytes()
        woven = weave(source, str(path), everything())
        if woven is None:
            continue
        plain = compile(source, str(path), "exec", dont_inherit=True)
        functions = {
            code.co_qualname: code.co_firstlineno for code in plain.co_consts if hasattr(code, "co_code")
        }
        annotated = {
            code.co_qualname: code.co_firstlineno for code in woven.code.co_consts if hasattr(code, "co_code")
        }
        assert annotated == functions
        assert woven.code.co_flags == plain.co_flags and woven.code.co_consts[0] == plain.co_consts[0]


def test_what_cannot_be_wrapped_and_what_is_annotated_stays() -> None:
    for function in ("compiled", "annotated"):
        woven = weave(SOURCE, "solver.py", [parse_pattern(f"solver:{function}")])
        assert woven is not None
        assert "__chimbuko_critical_path__" not in woven.code.co_names
