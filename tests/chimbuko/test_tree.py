"""The shape of the source tree: rooms, their links, and what compiled code must look like."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from chimbuko.core.kernels.declare import COMMON
from docs import imports
from tests.places import ROOT

ROOMS = ("ad", "pserver", "viz", "provenance")
SOURCES = sorted(
    path
    for folder in ("chimbuko", *ROOMS)
    # Links are not followed, so each room is seen once; viz/web holds packages of others.
    for path in (ROOT / folder).rglob("*.py")
    if "node_modules" not in path.parts
)
NO_LOOPS = ("__init__.py", "build.py", "declare.py", "library.py", "signatures.py")
KERNELS = [path for path in SOURCES if path.parent.name == "kernels" and path.name not in NO_LOOPS]
MOST_LINES = 600
LONGER: dict[str, str] = {}
"""Modules that are longer, each with the reason."""


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_are_linked_into_the_package(room: str) -> None:
    link = ROOT / "chimbuko" / room
    assert link.is_symlink()
    assert link.readlink() == Path("..") / room


def test_rooms_are_never_loaded_under_their_bare_names() -> None:
    """From the root of the sources both names could be imported; twice loaded, types would differ."""
    program = (
        "import chimbuko.ad.agent.agent, chimbuko.ad.streams.process, chimbuko.pserver.__main__, "
        "chimbuko.viz.http.app, chimbuko.provenance.service.__main__, sys;"
        f"print([room for room in {ROOMS} if room in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


@cache
def compiled_functions() -> list[tuple[str, ast.FunctionDef]]:
    return [
        (f"{path.relative_to(ROOT)}:{node.name}", node)
        for path in KERNELS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]


def test_kernels_are_declared_alike() -> None:
    """``_f`` is called by kernels only; what the declarations say is asked below."""
    for place, function in compiled_functions():
        (decorator,) = function.decorator_list
        assert isinstance(decorator, ast.Name), place
        assert decorator.id in ("kernel", "inner", "inlined"), place
        assert decorator.id != "kernel" or not function.name.startswith("_"), place
        assert not any(isinstance(node, ast.Raise) for node in ast.walk(function)), place


def test_only_kernels_call_what_has_no_wrapper_for_python() -> None:
    """A call from Python would end the process."""
    inner = {
        function.name
        for _, function in compiled_functions()
        if isinstance(function.decorator_list[0], ast.Name) and function.decorator_list[0].id == "inner"
    }
    for path in {*SOURCES, *(ROOT / "tests").rglob("*.py")} - {*KERNELS}:
        source = path.read_text()
        if ".kernels" not in source:
            continue
        module = ast.parse(source)
        froms = [node for node in ast.walk(module) if isinstance(node, ast.ImportFrom)]
        names = {alias.name for node in froms if ".kernels" in (node.module or "") for alias in node.names}
        assert not names & inner, path


def test_kernels_are_free_of_the_lock_and_exact() -> None:
    """``nogil``: no thread waits for a kernel."""
    assert COMMON["nogil"] is True
    assert "fastmath" not in COMMON
    source = ast.parse((ROOT / "chimbuko" / "core" / "kernels" / "declare.py").read_text())
    assert not any(isinstance(node, ast.keyword) and node.arg == "fastmath" for node in ast.walk(source))


def test_all_rooms_and_kernels_are_looked_at() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} == {"chimbuko", *ROOMS}
    assert {path.name for path in KERNELS} >= {"stack.py", "label.py", "merge.py"}


def test_no_module_is_too_long_to_be_read() -> None:
    longer = {path.relative_to(ROOT).as_posix() for path in SOURCES if _lines(path) > MOST_LINES}
    assert longer == set(LONGER)


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines())


PACKAGES = imports.packages()
SUB_PACKAGES = sorted(name for name in PACKAGES if name)
MOST_MODULES = 20
LARGER: dict[str, str] = {}
"""Packages with more modules, each with the reason."""


@pytest.fixture(scope="module")
def arrows() -> dict[str, frozenset[str]]:
    return imports.arrows(PACKAGES)


def test_a_sub_package_imports_what_its_docstring_says(arrows: dict[str, frozenset[str]]) -> None:
    assert {name: PACKAGES[name].allowed for name in SUB_PACKAGES} == {
        name: arrows[name] for name in SUB_PACKAGES
    }


def test_no_import_leads_back(arrows: dict[str, frozenset[str]]) -> None:
    assert [name for name in SUB_PACKAGES if name in imports.reachable(name, arrows)] == []


def test_a_sub_package_has_room_for_one_thought() -> None:
    assert {name for name, package in PACKAGES.items() if len(package.modules) > MOST_MODULES} == set(LARGER)


ORDER = ("core", "runtime", "capture", "instrument", "monitor", "causes", "observe", "plan", *ROOMS)
ORDER += ("launcher", "cli")


def test_no_room_imports_one_that_comes_later(arrows: dict[str, frozenset[str]]) -> None:
    places = {name: ORDER.index(name.partition(".")[0]) for name in SUB_PACKAGES}
    later = [(name, to) for name in SUB_PACKAGES for to in arrows[name] if places[to] > places[name]]
    # The page's server asks the store; that the agent and the server know neither is tested below.
    assert [one for one in later if one[0].partition(".")[0] not in ROOMS] == []


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_meet_only_where_they_may(room: str, arrows: dict[str, frozenset[str]]) -> None:
    """The agent and the server know neither each other nor the store; the store knows neither of them.

    But a stored call is judged again by a detector, and a trace that was kept is asked as flight recorders
    are: that is ``provenance.explain``, with the agent's own functions for both.
    """
    may = {
        "ad": set(),
        "pserver": set(),
        "provenance": {"ad.detectors", "ad.handoff"},
        "viz": {"provenance", "ad.detectors"},
    }[room]
    for name in SUB_PACKAGES:
        if name.split(".")[0] == room:
            others = {to for to in arrows[name] if to.split(".")[0] in {*ROOMS, "launcher", "cli"}}
            found = {to for to in others if to.split(".")[0] != room}
            assert found <= {
                to for to in others for allowed in may if to == allowed or to.startswith(f"{allowed}.")
            }
            assert room != "provenance" or not found or name == "provenance.explain"


def test_no_module_imports_a_room_by_its_bare_name() -> None:
    for path in SOURCES:
        assert not {target.split(".")[0] for target in imports.targets(path)} & set(ROOMS), path
