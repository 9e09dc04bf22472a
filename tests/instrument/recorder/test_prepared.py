"""Functions that a compiler prepares: each call, however it ends, and while they change."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from chimbuko.cli.execute.ccflags import function_flags
from chimbuko.instrument.recorder.library import COMMON, FLAGS, FOLDER, INCLUDE, WITHOUT_MPI
from tests.instrument.recorder.streams import TRACE, WHOLE, record

PROGRAMS = Path(__file__).with_name("programs")
COMPILERS = {"clang++": "-fxray-instrument", "g++": "-fpatchable-function-entry"}
pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="functions are prepared on x86-64 only"
)


def compiled(folder: Path, compiler: str, source: Path, *flags: str) -> Path:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}: apt-get install clang g++")
    found = folder / source.stem
    words = [
        compiler,
        "-O2",
        "-g",
        *function_flags(compiler),
        *flags,
        str(source),
        "-o",
        str(found),
        "-lpthread",
    ]
    subprocess.run(words, check=True)
    return found


@pytest.fixture(
    scope="module",
    params=[(compiler, pie) for compiler in COMPILERS for pie in ("-fPIE -pie", "-fno-pie -no-pie")],
    ids=" ".join,
)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The program, and the flag by which its compiler has prepared it."""
    compiler, pie = request.param
    folder = tmp_path_factory.mktemp("prepared")
    return compiled(folder, compiler, PROGRAMS / "prepared.cc", *pie.split()), COMPILERS[compiler]


@pytest.fixture(scope="module")
def program(built: tuple[Path, str]) -> Path:
    return built[0]


def test_each_call_is_recorded_whatever_ends_it(program: Path, tmp_path: Path) -> None:
    (stream,) = record(tmp_path, [*WHOLE, program, "2", "100"])
    nesting = stream.nesting()
    for name in ("mixed", "counted", "jumping", "last", "caught", "fib"):
        assert nesting["work", name] == 200
    assert nesting["caught", "thrown"] == 200
    assert nesting[".TAU application", "main"] == 1
    assert stream.metadata("Recorder's Call Sites") == ""


def test_threads_compute_what_is_right_while_functions_change(program: Path, tmp_path: Path) -> None:
    words = [str(program), "8", "100000"]
    alone = subprocess.run(words, capture_output=True, text=True, check=True)
    environment = {**os.environ, "TAU_ADIOS2_FILENAME": str(tmp_path / "tau-metrics")}
    recorded = subprocess.run([*TRACE, *words], capture_output=True, text=True, env=environment)
    assert (recorded.returncode, recorded.stdout) == (0, alone.stdout)


def test_threads_compute_what_is_right_in_a_storm_of_changes(tmp_path: Path) -> None:
    program = compiled(tmp_path, "g++", PROGRAMS / "prepared.cc")
    sources = [FOLDER / name for name in (*COMMON, *WITHOUT_MPI)] + [PROGRAMS / "storm.c"]
    recorder = tmp_path / "storm.so"
    flags = [*FLAGS, "-O1", "-shared", f"-I{FOLDER}", "-o", recorder]
    subprocess.run(["gcc", *map(str, (*flags, *sources)), "-ldl", "-lpthread"], check=True)
    words = [str(program), "8", "5000"]
    alone = subprocess.run(words, capture_output=True, text=True, check=True)
    streams = tmp_path / "streams"
    streams.mkdir()
    variables = {"LD_PRELOAD": str(recorder), "CHIMBUKO_RECORDER": str(streams), "CHIMBUKO_STORM": "1000"}
    recorded = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **variables})
    assert (recorded.returncode, recorded.stdout) == (0, alone.stdout)
    assert int(recorded.stderr.split()[0]) >= 1000


def test_functions_that_do_not_matter_are_passed_over(program: Path, tmp_path: Path) -> None:
    (stream,) = record(tmp_path, [program, "1", "1000000"])
    assert "those not counted of " in stream.metadata("Functions Left Out")
    assert stream.calls()["main"] == 1


def test_new_functions_that_are_called_too_often_are_disarmed_before_the_next_look(tmp_path: Path) -> None:
    """A look is every 0.1 s, and each phase takes 0.02 s of CPU time, or a million counted calls."""
    program = compiled(tmp_path, "gcc", PROGRAMS / "floods.c")
    (stream,) = record(tmp_path, [program])
    assert json.loads(stream.metadata("Calls Counted"))["seen"] < 8_000_000


def test_under_a_debugger_they_are_left_alone_and_that_is_said(
    built: tuple[Path, str], tmp_path: Path
) -> None:
    program, flag = built
    if shutil.which("gdb") is None:
        pytest.skip("no gdb: apt-get install gdb")
    debugger = ["gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "run", "--args"]
    debugged = [*debugger, str(program), "1", "10"]
    if "exited normally" not in subprocess.run(debugged, capture_output=True, text=True).stdout:
        pytest.skip("gdb cannot trace a program here")
    streams = record(tmp_path, [shutil.which("gdb") or "gdb", *debugged[1:]])
    (stream,) = (stream for stream in streams if stream.names.program == "prepared")
    said = stream.metadata("Recorder's Call Sites")
    assert said == f"functions compiled with {flag} are not recorded: a debugger watches the program"
    assert "work" not in stream.calls()


STRICT = """
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int count, char **words)
{
    (void)count;
    if (prctl(65 /* PR_SET_MDWE */, 1, 0, 0, 0) != 0)
        return 77;
    execv(words[1], words + 1);
    return 1;
}
"""


def test_where_code_may_not_be_changed_they_are_left_alone_and_that_is_said(
    built: tuple[Path, str], tmp_path: Path
) -> None:
    program, flag = built
    (tmp_path / "strict.c").write_text(STRICT)
    strict = tmp_path / "strict"
    subprocess.run(["cc", str(tmp_path / "strict.c"), "-o", str(strict)], check=True)
    if subprocess.run([strict, "/bin/true"]).returncode == 77:
        pytest.skip("the system has no policy of W^X for a process (Linux 6.3)")
    streams = record(tmp_path, [strict, program, "1", "10"])
    (stream,) = (stream for stream in streams if stream.names.program == "prepared")
    said = stream.metadata("Recorder's Call Sites")
    assert said.startswith(f"functions compiled with {flag} are not recorded: the system does not let")


@pytest.mark.parametrize("flags", ["-O0", "-O3 -fcf-protection", "-Os -static-libgcc -static-libstdc++"])
def test_exceptions_jumps_and_stacks_pass_through_calls(flags: str, tmp_path: Path) -> None:
    program = compiled(tmp_path, "g++", PROGRAMS / "endings.cc", *flags.split())
    alone = subprocess.run([program], capture_output=True, text=True, check=True)
    environment = {**os.environ, "TAU_ADIOS2_FILENAME": str(tmp_path / "tau-metrics")}
    recorded = subprocess.run([*TRACE, *WHOLE, program], capture_output=True, text=True, env=environment)
    assert (recorded.returncode, recorded.stdout) == (0, alone.stdout)
    assert alone.stdout == "400 200 0 7.50 7 385 whole\n"


@pytest.mark.parametrize("bits", ["256", "512"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_vectors_stay_whole_when_a_thread_begins(compiler: str, bits: str, tmp_path: Path) -> None:
    program = compiled(tmp_path, compiler, PROGRAMS / "vectors.cc")
    alone = subprocess.run([program, bits], capture_output=True, text=True)
    if alone.returncode == 77:
        pytest.skip(f"this processor has no vectors of {bits} bits")
    environment = {
        **os.environ,
        "TAU_ADIOS2_FILENAME": str(tmp_path / "tau-metrics"),
        # The C library then uses the registers of arguments, as on a machine without AVX-512.
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512VL,-AVX512BW",
    }
    recorded = subprocess.run([*TRACE, program, bits], capture_output=True, text=True, env=environment)
    assert (recorded.returncode, recorded.stdout) == (0, alone.stdout)


COPIES = """
template <class T> __attribute__((noinline)) T shared(T value) { return value + 1; }
__attribute__((noinline)) long first_NAME(long value) { return shared(value) * sizeof "NAME"; }
long NAME(long value) { return shared(first_NAME(value)) + sizeof "NAME"; }
"""
CALLER = "long one(long); long other(long); int main() { return one(other(1)) == 0; }"


@pytest.mark.parametrize("flags", [(), ("-flto", "-pipe"), ("-ffunction-sections", "-Wl,--gc-sections")])
def test_files_with_copies_of_a_function_are_linked_and_recorded(
    flags: tuple[str, ...], tmp_path: Path
) -> None:
    for name in ("one", "other"):
        (tmp_path / f"{name}.cc").write_text(COPIES.replace("NAME", name))
    (tmp_path / "caller.cc").write_text(CALLER)
    copies = [str(tmp_path / f"{name}.cc") for name in ("one", "other")]
    program = compiled(tmp_path, "g++", tmp_path / "caller.cc", *copies, *flags)
    (stream,) = record(tmp_path, [*WHOLE, program])
    expected = {"one": 1, "other": 1, "first_one": 1, "first_other": 1, "shared": 4, "main": 1}
    found = stream.calls()
    for name, calls in expected.items():
        assert sum(number for full, number in found.items() if name == plain(full)) == calls


def plain(function: str) -> str:
    return function.split("(")[0].split("<")[0].split(" ")[-1]


PLUGIN = "long plugged(long value) { return value + 1; }"
HOST = """
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words)
{
    void *plugin = dlopen(words[count - 1], RTLD_NOW);
    long (*plugged)(long) = (long (*)(long))dlsym(plugin, "plugged"), value = 0;
    for (int time = 0; time < 40; time++, usleep(100000))
        value = plugged(value);
    printf("%ld\\n", value);
    return 0;
}
"""


def test_what_is_loaded_later_is_recorded_from_then_on(tmp_path: Path) -> None:
    for name, text in (("plugin", PLUGIN), ("host", HOST)):
        (tmp_path / f"{name}.c").write_text(text)
    plugin = compiled(tmp_path, "gcc", tmp_path / "plugin.c", "-fPIC", "-shared")
    host = compiled(tmp_path, "gcc", tmp_path / "host.c")
    (stream,) = record(tmp_path, [host, plugin])
    assert 0 < stream.calls()["plugged"] <= 40


SMALL = """
#include <chimbuko.h>
#include <stdio.h>
__attribute__((noinline)) void tiny(void) { chimbuko_begin("region"); chimbuko_end("region"); __asm__(""); }
__attribute__((noinline)) int small(int n) { tiny(); return n + 1; }
int main(void)
{
    int n = 0;
    while (n < 200)
        n = small(n);
    printf("%d\\n", n);
    return 0;
}
"""


@pytest.mark.parametrize("compiler", ["clang", "gcc"])
def test_what_a_small_function_calls_is_part_of_it(compiler: str, tmp_path: Path) -> None:
    """Its frame is smaller than that of the recorder's own code."""
    (tmp_path / "small.c").write_text(SMALL)
    (stream,) = record(tmp_path, [*WHOLE, compiled(tmp_path, compiler, tmp_path / "small.c", f"-I{INCLUDE}")])
    nesting = stream.nesting()
    assert nesting["main", "small"] == nesting["small", "tiny"] == nesting["tiny", "region"] == 200
