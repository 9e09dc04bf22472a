"""Call sites of the hooks, armed and disarmed while threads execute them; how instructions are found."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from chimbuko.instrument.recorder.library import FOLDER
from tests.thorough import first

PROGRAMS = Path(__file__).with_name("programs")
X86 = platform.machine() == "x86_64"
pytestmark = pytest.mark.skipif(not X86, reason="call sites are changed on x86-64 only")

COMPILERS = ["gcc", "clang"]
FLAGS = ["-O1", "-O2 -fPIE -pie", "-O2 -fno-plt", "-O2 -fno-pie -no-pie"]


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("hooks") / "libhooks.so"
    sources = [
        str(PROGRAMS / "sitehooks.c"),
        *(str(FOLDER / name) for name in ("callsites.c", "machinecode.c")),
    ]
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden", "-shared"]
    subprocess.run(["cc", *flags, f"-I{FOLDER}", *sources, "-o", str(library), "-lpthread"], check=True)
    return library


def built(hooks: Path, folder: Path, compiler: str, source: str, *flags: str) -> Path:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}: apt-get install {compiler}")
    program = folder / "program"
    words = [compiler, *flags, "-finstrument-functions", str(PROGRAMS / source), str(hooks)]
    subprocess.run([*words, f"-Wl,-rpath,{hooks.parent}", "-lpthread", "-o", str(program)], check=True)
    return program


@pytest.mark.parametrize("rounds", first(1, [300, 10_000]))
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_threads_compute_what_is_right_while_their_call_sites_are_changed(
    hooks: Path, tmp_path: Path, compiler: str, flags: str, rounds: int
) -> None:
    program = built(hooks, tmp_path, compiler, "sites.c", *flags.split())
    done = subprocess.run([program, str(rounds), "7"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", (done.stdout, done.stderr)
    changed, wrong, *armed, entries, exits, _ = (int(number) for number in re.findall(r"\d+", done.stdout))
    assert changed > rounds and wrong == 0
    # All calls are seen where all sites are armed, and none where all are disarmed: whatever ends a function.
    assert armed[0] == armed[1] > 1000
    assert (entries, exits) == (0, 0)


@pytest.mark.parametrize("flags", ["-Os", "-O2", "-O2 -fno-pie -no-pie"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_call_that_several_functions_share_stays(
    hooks: Path, tmp_path: Path, compiler: str, flags: str
) -> None:
    program = built(hooks, tmp_path, compiler, "merged.c", *flags.split())
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert done.stdout == "500 500\n"


def test_under_a_debugger_nothing_is_changed(hooks: Path, tmp_path: Path) -> None:
    if shutil.which("gdb") is None:
        pytest.skip("no gdb: apt-get install gdb")
    program = built(hooks, tmp_path, "gcc", "sites.c", "-O2")
    debugger = ["gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "run", "--args"]
    done = subprocess.run([*debugger, str(program), "20", "7"], capture_output=True, text=True)
    if "0 changed, 0 wrong" not in done.stdout and "ptrace" in done.stdout + done.stderr:
        pytest.skip("gdb cannot trace a program here")
    assert "0 changed, 0 wrong, armed 2004 2004, disarmed 2004 2004" in done.stdout
    assert "obstacle: a debugger watches the program" in done.stdout + done.stderr


LENGTHS = """
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include "machinecode.h"
int main(void)
{
    char line[256];
    while (fgets(line, sizeof line, stdin) != NULL) {
        uint8_t code[32] = {0};
        char *at = line, *end;
        size_t bytes = 0;
        for (long byte; byte = strtol(at, &end, 16), end != at; at = end)
            code[bytes++] = (uint8_t)byte;
        if (instruction_length(code, sizeof code) != bytes)
            fputs(line, stdout);
    }
    return 0;
}
"""


def test_lengths_of_instructions_are_those_that_the_disassembler_finds(tmp_path: Path) -> None:
    source, program = tmp_path / "lengths.c", tmp_path / "lengths"
    source.write_text(LENGTHS)
    words = ["cc", "-std=gnu11", "-O1", f"-I{FOLDER}", str(source), str(FOLDER / "machinecode.c")]
    subprocess.run([*words, "-o", str(program)], check=True)
    listed = subprocess.run(["objdump", "-d", "-w", "/bin/bash"], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in listed.stdout.splitlines() if "(bad)" not in line]
    codes = [row[1].strip() for row in rows if len(row) > 2]
    assert len(codes) > 10_000
    found = subprocess.run(
        [program], input="\n".join(codes) + "\n", capture_output=True, text=True, check=True
    )
    # A wait for the coprocessor is an instruction of its own, and the disassembler's part of the next one.
    assert [line for line in found.stdout.splitlines() if not line.startswith("9b ")] == []
