"""Flags of compilers, by the compiler at hand."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from chimbuko.cli.execute.ccflags import compiler_at_hand, function_flags

FSF = "Copyright (C) 2022 Free Software Foundation, Inc."


def a_compiler(folder: Path, name: str, says: str, does: str = "") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n{does}\n")
    path.chmod(0o755)
    return str(path)


def test_the_compiler_is_the_one_that_the_user_would_run(tmp_path: Path) -> None:
    a_compiler(tmp_path, "cc", "gcc 12")
    assert compiler_at_hand({"CC": "clang -m64", "PATH": str(tmp_path)}) == "clang"
    assert compiler_at_hand({"PATH": str(tmp_path)}) == "cc"
    a_compiler(tmp_path, "mpicc", "gcc 12")
    assert compiler_at_hand({"PATH": str(tmp_path)}) == "mpicc"


def test_a_compiler_that_prepares_no_functions_is_asked_for_hooks(tmp_path: Path) -> None:
    hooks = ("-finstrument-functions",)
    assert function_flags(a_compiler(tmp_path, "gcc", f"gcc (GCC) 7.5.0\n{FSF}")) == hooks
    assert function_flags(a_compiler(tmp_path, "icc", "icc (ICC) 19.1.3")) == hooks
    assert function_flags(a_compiler(tmp_path, "apples", "Apple clang version 15")) == hooks
    assert function_flags(str(tmp_path / "none")) == hooks


@pytest.mark.skipif(platform.machine() != "x86_64", reason="functions are prepared on x86-64 only")
def test_compilers_are_asked_to_prepare_functions(tmp_path: Path) -> None:
    assert "-fxray-instrument" in function_flags(a_compiler(tmp_path, "mpicc", "clang version 14.0.6"))
    gcc = a_compiler(tmp_path, "gcc", f"gcc (Debian 12.2.0-14) 12.2.0\n{FSF}")
    assert "-fpatchable-function-entry=7,5" in function_flags(gcc)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="functions are prepared on x86-64 only")
@pytest.mark.parametrize(
    ("links", "flag", "is_there"),
    [
        ("", "-B", False),
        ('case "$*" in *assembler*|*--version*) ;; *) exit 1;; esac', "-B", True),
        ('case "$*" in *patchable*) exit 1;; esac', "-finstrument-functions", True),
        ('case "$*" in *.cc*) exit 1;; esac', "-B", False),
    ],
    ids=["whole", "with an own assembler", "never", "C only"],
)
def test_gcc_is_asked_for_what_it_can_link(links: str, flag: str, is_there: bool, tmp_path: Path) -> None:
    flags = function_flags(a_compiler(tmp_path, "gcc", f"gcc (GCC) 12.2.0\n{FSF}", links))
    assert any(word.startswith(flag) for word in flags) == is_there
