from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.calls.functionnames import (
    function_matcher,
    parse_name,
    short_name,
    shown_name,
    shown_names,
)
from tests.places import ROOT

SHOWN = ROOT / "viz" / "web" / "test" / "shared" / "names" / "shownnames.json"
"""What both the command line and the page show of stored names."""


@pytest.mark.parametrize(("name", "shown"), json.loads(SHOWN.read_text()).items())
def test_what_is_shown_of_a_stored_name(name: str, shown: str) -> None:
    assert shown_name(name) == shown


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("MPI_Allreduce()", "MPI_Allreduce"),
        ("relax_block [{heat2d.c} {47,0}]", "relax_block"),
        ("load [{etl.py}{2}]", "etl.load"),
        ("load [threading]", "threading.load"),
        (".TAU application", "(program)"),
        ("void A::solve<double, B<int> >(int, C<D>) const [{a.cpp} {3,1}]", "A::solve"),
        ("std::vector<int>::push_back(int const&)", "std::vector::push_back"),
        ("(anonymous namespace)::step(float)", "{anonymous}::step"),
        ("int main(int, char**)", "main"),
        ("bool operator< <int>(A<int> const&)", "bool operator< <int>(A<int> const&)"),
        ("M<m::CSR<double, int> >::operator()(int) [{m.hpp} {9,0}]", "M::operator()"),
        ("void M<int>::operator()(m::CSR<double>&, V<int>&) const", "M::operator()"),
        ("MPI Collective Sync", "MPI Collective Sync"),
        ("<module>", "<module>"),
        ("Step.solve", "Step.solve"),
    ],
)
def test_names_in_sentences_have_no_types(name: str, short: str) -> None:
    assert short_name(name) == short


@given(st.text(alphabet="ab<>(): {}[]~&*,", max_size=30))
def test_any_name_has_a_short_one(name: str) -> None:
    assert short_name(name) or not shown_name(name).split(" [")[0].removesuffix("()")


NAMES = st.one_of(
    st.builds("{} [{{{}.py}}{{{}}}]".format, st.sampled_from("fg"), st.sampled_from("ab"), st.integers(0, 3)),
    st.builds(
        "{} [{{{}.c}} {{{},0}}]".format, st.sampled_from("fg"), st.sampled_from("ab"), st.integers(0, 3)
    ),
    st.sampled_from(["f", "a.f", "f [a]", ".TAU application", "(program)", "f()"]),
)


@given(st.sets(NAMES))
def test_names_beside_each_other_are_told_apart(names: set[str]) -> None:
    shown = shown_names(names)
    assert shown.keys() == names
    alike = [name for name in names if list(shown.values()).count(shown[name]) > 1]
    # A name as it is stored may be what another one is shown as: these two are all that can be alike.
    assert all(any(other in names and other == shown[name] for other in names) for name in alike)


def test_two_functions_of_one_name_have_their_places_behind_them() -> None:
    assert shown_names(["f [{src/a.py}{3}]", "f [{a.py}{9}]", "g [{a.py}{20}]", "f [{a.c} {1,2}-{3,4}]"]) == {
        "f [{src/a.py}{3}]": "a.f (a.py:3)",
        "f [{a.py}{9}]": "a.f (a.py:9)",
        "g [{a.py}{20}]": "a.g",
        "f [{a.c} {1,2}-{3,4}]": "f",
    }
    both = ["solve<int>() [{a.cpp} {3,0}]", "solve<char>() [{a.cpp} {3,0}]"]
    assert shown_names(both, short_name) == {name: name for name in both}


@pytest.mark.parametrize("pattern", ["load [{etl.py}{2}]", "etl.load", "load", "etl.*", "*[{etl.py}{*}]"])
def test_users_write_functions_as_they_see_them(pattern: str) -> None:
    matches = function_matcher(pattern)
    assert matches("load [{etl.py}{2}]")
    assert not matches("reload [{lib.py}{2}]")


def test_a_name_says_where_the_function_is() -> None:
    name = parse_name("MD_FINIT [{src/md_main.F} {2141,7}-{2245,9}]")
    assert (name.function, name.module, name.file, name.line) == ("MD_FINIT", "", "src/md_main.F", 2141)
    assert name.place == "md_main.F:2141"
