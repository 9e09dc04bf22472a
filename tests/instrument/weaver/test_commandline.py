"""Command lines of compilers, in two steps."""

from __future__ import annotations

import shlex

import pytest

from chimbuko.instrument.weaver.compiling import CommandLine


def command(text: str) -> CommandLine:
    return CommandLine(shlex.split(text))


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("cc -c a.c", ["a.c"]),
        ("g++ -O2 a.cpp b.cc c.o -o prog -lm", ["a.cpp", "b.cc"]),
        ("cc -include b.c -I x.c -MF c.c -o d.c -D E.c e.c", ["e.c"]),
        ("cc a.o libb.a -o prog", []),
        ("cc -E a.c", []),
        ("cc -M a.c", []),
        ("ccache gcc -c a.c", ["a.c"]),
        ("cc -x c++ a.c", []),
        ("cc --version", []),
        ("cc", []),
        ("nvcc a.cu", []),
    ],
)
def test_sources(text: str, sources: list[str]) -> None:
    assert command(text).sources == sources


@pytest.mark.parametrize(
    ("text", "preprocessing", "compiling"),
    [
        ("cc -O2 -c a.c -o x/a.o", "cc -O2 +++ -E a.c", "cc -O2 -c NEW -o x/a.o ***"),
        ("cc -DX=1 a.c b.c c.o -oprog -lm", "cc -DX=1 -lm +++ -E a.c", "cc -DX=1 NEW b.c c.o -oprog -lm ***"),
        ("ccache gcc -c a.c", "ccache gcc +++ -E a.c", "ccache gcc -c NEW ***"),
        ("cc -MMD -c d/a.c", "cc -MMD -MF a.d -MT a.o +++ -E a.c", "cc -c NEW ***"),
        ("cc -MD -MP -c a.c -o x/a.o", "cc -MD -MP -MF x/a.d -MT x/a.o +++ -E a.c", "cc -c NEW -o x/a.o ***"),
        ("cc -MD -MF d -MTt -c a.c", "cc -MD -MF d -MTt +++ -E a.c", "cc -c NEW ***"),
        ("cc -Wp,-MMD,x.d -include y.h -c a.c", "cc -Wp,-MMD,x.d -include y.h +++ -E a.c", "cc -c NEW ***"),
    ],
)
def test_two_steps_have_what_belongs_to_them(text: str, preprocessing: str, compiling: str) -> None:
    found = command(text)
    source = found.sources[0]
    assert found.preprocessing(source, ("+++",)) == shlex.split(preprocessing.replace("a.c", source))
    assert found.compiling({source: "NEW"}, ("***",)) == shlex.split(compiling)


def test_the_last_standard_counts() -> None:
    assert command("cc -std=c99 -std=c11 a.c").standard == "-std=c11"
    assert command("cc a.c").standard == ""
