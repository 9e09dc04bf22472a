"""Names of annotated functions of C and C++, as compilers write them and as they are recorded."""

from __future__ import annotations

import pytest

from chimbuko.instrument.annotations.pointcuts import Advice, AnnotatedName, parse_name


@pytest.mark.parametrize(
    ("name", "function", "short"),
    [
        ("main", "main", "main"),
        ("solve", "int solve(int)", "solve(int)"),
        ("s", "static int ns::C::s()", "ns::C::s()"),
        ("m", "double ns::C::m(double) const", "ns::C::m(double) const"),
        ("t", "T ns::C::t(T) [with T = int]", "ns::C::t(T) <T = int>"),
        ("t", "T ns::C::t(T) [T = int]", "ns::C::t(T) <T = int>"),
        ("get", "T Box<T>::get() const [with T = a::B; U = C]", "Box<T>::get() const <T = a::B; U = C>"),
        ("C", "ns::C::C(int)", "ns::C::C(int)"),
        ("~C", "ns::C::~C()", "ns::C::~C()"),
        ("operator int", "int ns::C::operator int() const", "ns::C::operator int() const"),
        ("operator+=", "ns::C &ns::C::operator+=(int)", "ns::C::operator+=(int)"),
        ("operator()", "void F::operator()(int)", "F::operator()(int)"),
        ("hidden", "void ns::(anonymous namespace)::hidden()", "ns::(anonymous namespace)::hidden()"),
        ("local", "void main()::L::local()", "main()::L::local()"),
        ("f", "std::map<int, g(int)> f(int (*)[3])", "f(int (*)[3])"),
        ("open", "int open(const A &, char **)", "open(const A&, char**)"),
        ("gone", "who knows", "who knows"),
    ],
)
def test_a_name_is_written_as_symbols_are(name: str, function: str, short: str) -> None:
    assert AnnotatedName(Advice(), "a.cpp", 3, name, function).short == short


def test_what_is_recorded_is_read_again_also_when_it_was_cut() -> None:
    name = AnnotatedName(Advice("before_async", "a b", "out"), "dir/ä.cpp", 12, "f", "int f(int)")
    whole = name.text() + name.function
    assert parse_name(whole) == name
    for cut in range(len(name.text()), len(whole)):
        found = parse_name(whole[:cut])
        assert found is not None and found.advice == name.advice and found.line == 12
        assert found.short


@pytest.mark.parametrize("text", ["", "solve", "@home", "@around\t\t\ta.c\tx\tf\tf", "@at\t\t\ta.c\t3\tf\tf"])
def test_other_names_are_none(text: str) -> None:
    assert parse_name(text) is None
