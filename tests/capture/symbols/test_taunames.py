"""TAU's forms of names, as it was seen to write them."""

from __future__ import annotations

import pytest

from chimbuko.capture.symbols.taunames import (
    Unresolved,
    find_unresolved,
    is_offset_name,
    offset_name,
    with_places,
)


@pytest.mark.parametrize(
    ("name", "found", "made"),
    [
        ("addr=<55d1> [{/a/app} {0,0}]", (0x55D1, "/a/app", True), "f(int) [{/a/f.cpp} {7,0}]"),
        ("addr=<0x55d1> [{(unknown)} {0,0}]", (0x55D1, "", True), "f(int) [{/a/f.cpp} {7,0}]"),
        ("addr=<55d1> [{/proc/self/exe} {0,0}]", (0x55D1, "", True), "f(int) [{/a/f.cpp} {7,0}]"),
        (
            "[PTHREAD] addr=<55d1> [{/a/app} {0, 0}]",
            (0x55D1, "/a/app", True),
            "[PTHREAD] f(int) [{/a/f.cpp} {7, 0}]",
        ),
        (
            "OpenMP_Parallel addr=<55d1> [{/a/app} {0,0}]",
            (0x55D1, "/a/app", False),
            "OpenMP_Parallel f(int) [{/a/f.cpp} {7,0}]",
        ),
    ],
)
def test_forms_of_tau(name: str, found: tuple[int, str, bool], made: str) -> None:
    assert find_unresolved(name) == [Unresolved(*found)]
    assert with_places(name, {0x55D1: ("f(int)", "/a/f.cpp", 7)}.get) == made
    assert with_places(name, {}.get) == name


def test_paths_of_calls_have_several() -> None:
    name = "main => addr=<1> [{/a} {0,0}] => addr=<2> [{/a} {0,0}]"
    assert [(found.address, found.is_entry) for found in find_unresolved(name)] == [(1, True), (2, True)]
    assert with_places(name, {2: ("g", "g.c", 1)}.get) == "main => addr=<1> [{/a} {0,0}] => g [{g.c} {1,0}]"


@pytest.mark.parametrize("name", ["main [{app.c} {1,0}]", "addr=<xyz> [{a} {0,0}]", "addr=<1", "", "addr=<>"])
def test_other_names_stay(name: str) -> None:
    assert find_unresolved(name) == []
    assert with_places(name, {}.get) == name


def test_places_without_a_name_are_known_as_such() -> None:
    assert is_offset_name(f"{offset_name('/a/app', 4660)} [{{/a/app}} {{0,0}}]")
    assert offset_name("/a/app", 4660) == "app+0x1234"
    assert not is_offset_name("Vector operator+(Vector, Vector) [{/a/v.cpp} {3,0}]")
