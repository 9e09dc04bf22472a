"""C and C++ with PerfFlowAspect's attributes: compiled by each compiler that is here, and recorded."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.instrument.recorder.mpi import DEBIANS_MPICH, OPEN_MPI, WHEEL, Mpi, why_missing
from tests.instrument.recorder.streams import record
from tests.patience import PATIENCE_S

pytest.importorskip("clang.cindex", reason="libclang: pip install libclang")
PROGRAMS = Path(__file__).with_name("programs")
CC = [sys.executable, "-m", "chimbuko", "cc"]
IN_C = {"small": 1, "hand_on": 3, "take": 3, "request": 3, "deep": 4}
IN_CPLUSPLUS = {
    **{"small(int)": 2, "hand_on()": 3, "take()": 3, "request()": 3, "deep(int)": 7, "over(int)": 1},
    **{
        "over(double)": 1,
        "fails": 1,
        "grid::largest(T, T) <T = int>": 1,
        "grid::largest(T, T) <T = char>": 2,
    },
    **{
        "grid::Box::Box()": 1,
        "grid::Box::~Box()": 1,
        "grid::Box::operator+=(int)": 1,
        "grid::Box::make()": 1,
    },
    **{"grid::Box::as() const <T = int>": 1, "grid::Box::later() const": 1, "cplusplus()::Local::work()": 1},
}


def compiled(words: list[str | Path], folder: Path) -> str:
    """What the compiler says."""
    done = subprocess.run(
        [*CC, *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def build(folder: Path, compiler: str, *flags: str) -> Path:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}: apt-get install clang")
    source = folder / ("annotated.cc" if "++" in compiler else "annotated.c")
    source.write_bytes((PROGRAMS / "annotated.cc").read_bytes())
    said = compiled([compiler, "-Wall", "-Wextra", "-Werror", *flags, source.name, "-o", "annotated"], folder)
    lines = said.splitlines()
    assert "mistaken is not recorded" in lines[0] and lines[0].startswith(f"{source.name}:12: warning: ")
    assert len(lines) == (2 if "++" in compiler else 1), said
    return folder / "annotated"


def without_parameters_of_fails(calls: Counter[str]) -> dict[str, int]:
    """Compilers write the types of the standard library in ways of their own."""
    return {"fails" if name.startswith("fails(") else name: count for name, count in calls.items()}


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        ("g++", ("-O2", "-std=c++17")),
        pytest.param("gcc", ("-O2", "-std=c99", "-pedantic"), id="gcc"),
        pytest.param("g++", ("-O0", "-g", "-std=c++20", "-pedantic"), marks=pytest.mark.thorough),
        pytest.param("clang++", ("-O2", "-std=c++17"), marks=pytest.mark.thorough),
        pytest.param("clang", ("-O1", "-pedantic"), marks=pytest.mark.thorough),
    ],
)
def test_annotated_functions_are_recorded_and_no_others(
    tmp_path: Path, compiler: str, flags: tuple[str, ...]
) -> None:
    program = build(tmp_path, compiler, *flags)
    plain = subprocess.run([program], capture_output=True, text=True, check=True)
    assert plain.stdout == "1\n"
    (stream,) = record(tmp_path, [program], PERFFLOW_OPTIONS=f"log-dir={tmp_path}:log-event=Compact")
    calls = stream.calls()
    del calls[".TAU application"]
    expected = IN_CPLUSPLUS if "++" in compiler else IN_C
    assert without_parameters_of_fails(calls) == expected
    name = next(name for name in stream.names.timers.values() if name.startswith("take"))
    assert name.endswith(f" [{{{program.name}.{'cc' if '++' in compiler else 'c'}}} {{9,0}}]")
    (path,) = tmp_path.glob("perfflow.array.*.pfw")
    events: list[dict[str, Any]] = json.loads(path.read_text())
    phases = Counter(f"{e['name'].partition('(')[0]} {e['ph']}" for e in events)
    if "++" not in compiler:
        assert phases == {
            **{"small X": 1, "deep X": 4, "hand_on B": 3, "take E": 3, "flow s": 3, "flow f": 3},
            **{"request b": 3, "request e": 3},
        }
    else:
        assert phases["fails X"] == phases["over X"] - 1 == 1
    flows = [(e["ph"], e["id"]) for e in events if e["name"] == "flow"]
    assert flows == [(phase, number) for number in (1, 2, 3) for phase in ("s", "f")]
    requests = [e for e in events if e["name"].startswith("request")]
    assert {e["scope"] for e in requests} == {"net"} and len({e["id"] for e in requests}) == 3


@pytest.mark.parametrize(
    "mpi",
    [WHEEL, *(pytest.param(mpi, marks=pytest.mark.thorough) for mpi in (DEBIANS_MPICH, OPEN_MPI))],
    ids=lambda mpi: mpi.name,
)
def test_ranks_of_mpi(tmp_path: Path, mpi: Mpi) -> None:
    if reason := why_missing(mpi, "mpicc"):
        pytest.skip(reason)
    source = tmp_path / "ring.c"
    source.write_text("""
        #include <mpi.h>
        __attribute__((annotate("@critical_path()"))) static void step(int n)
        {
            MPI_Barrier(MPI_COMM_WORLD);
        }
        int main(int count, char **words)
        {
            MPI_Init(&count, &words);
            for (int n = 0; n < 5; n++)
                step(n);
            MPI_Finalize();
        }
    """)
    compiler = mpi.command("mpicc")
    assert compiler is not None
    compiled([compiler, "-O2", source, "-o", "ring"], tmp_path)
    variables = {"PERFFLOW_OPTIONS": f"log-dir={tmp_path}:log-format=Object"}
    streams = record(tmp_path, [tmp_path / "ring"], mpi.launch(2), **variables)
    assert [stream.rank for stream in streams] == [0, 1]
    assert all(stream.nesting()["step", "MPI_Barrier()"] == 5 for stream in streams)
    written = [json.loads(path.read_text())["traceEvents"] for path in tmp_path.glob("perfflow.object.*.pfw")]
    assert [Counter(e["ph"] for e in events) for events in written] == 2 * [Counter(B=5, E=5)]


def test_processor_time_and_memory_of_a_call(tmp_path: Path) -> None:
    source = tmp_path / "busy.c"
    source.write_text("""
        #include <time.h>
        #include <unistd.h>
        #define AROUND __attribute__((annotate("@critical_path()")))
        AROUND static void spin(void)
        {
            clock_t end = clock() + CLOCKS_PER_SEC * 3 / 10;
            while (clock() < end)
                ;
        }
        AROUND static void rest(void) { usleep(200000); }
        int main(void) { spin(); rest(); }
    """)
    compiled(["gcc", "-O2", source, "-o", "busy"], tmp_path)
    options = f"log-dir={tmp_path}:log-event=Compact:cpu-mem-usage=True"
    (stream,) = record(tmp_path, [tmp_path / "busy"], PERFFLOW_OPTIONS=options)
    assert len(stream.counters) == 16
    (path,) = tmp_path.glob("*.pfw")
    events: list[dict[str, Any]] = json.loads(path.read_text())
    assert "".join(e["ph"] for e in events) == "CCXCCX"
    spin, none, call, rest = events[:4]
    assert spin["ts"] == call["ts"] and spin["name"] == call["name"] == "spin"
    # On a busy machine the wall time is longer, but not this.
    assert 0.25e6 < spin["args"]["thread_cpu_usage"] / 100 * call["dur"] < 0.35e6
    assert rest["args"]["thread_cpu_usage"] / 100 * events[5]["dur"] < 0.1e6
    assert spin["args"]["cpu_usage"] > 0 and spin["args"]["memory_usage"] > 500
    assert none["args"] == {"cpu_usage": 0, "system_cpu_usage": 0, "memory_usage": 0, "thread_cpu_usage": 0}


def test_make_with_objects_and_what_they_depend_on(tmp_path: Path) -> None:
    (tmp_path / "part.h").write_text('__attribute__((annotate("@critical_path()"))) int part(int n);\n')
    (tmp_path / "part.c").write_text('#include "part.h"\nint part(int n) { return n; }\n')
    (tmp_path / "main.c").write_text('#include "part.h"\nint main(void) { return part(0) + part(0); }\n')
    (tmp_path / "Makefile").write_text(
        "CFLAGS = -O2 -MMD -MP\nprog: main.o part.o\n\t$(CC) $^ -o $@\n-include main.d part.d\n"
    )
    # By which the tests themselves were started.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    make = ["make", f"CC={' '.join(CC)} cc"]
    for _ in range(2):
        # Older than what they were made from, of which the header is in no rule of the Makefile.
        for made in tmp_path.glob("*.o"):
            os.utime(made, (0, 0))
        for source in tmp_path.glob("*.c"):
            os.utime(source, (0, 0))
        done = subprocess.run(
            make, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.count(" -c ") == 2
    (stream,) = record(tmp_path, [tmp_path / "prog"])
    assert stream.calls()["part"] == 2


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("int main(void) { return 0; }", 0, ""),
        ('__attribute__((annotate("@critical_path()"))) int f(void) { return x; }', 1, "‘x’ undeclared"),
        ("#include <nowhere.h>", 1, "nowhere.h: No such file"),
    ],
)
def test_what_the_compiler_says_is_said_once(tmp_path: Path, text: str, code: int, said: str) -> None:
    (tmp_path / "a.c").write_text(text)
    words = [*CC, "gcc", "-c", "a.c"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == code and (tmp_path / "a.o").exists() is (code == 0)
    assert done.stderr.count(said) == 1 if said else not done.stderr


def test_what_is_in_the_way_is_one_line_and_the_program_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text('__attribute__((annotate("@critical_path()"))) int f(void) { return 0; }')
    # A preprocessor that fails, in a compiler that does not.
    compiler = tmp_path / "fickle"
    compiler.write_text('#!/bin/sh\ncase "$*" in *-E*) echo an error >&2; exit 1;; esac\nexec gcc -w "$@"\n')
    compiler.chmod(0o755)
    words = [*CC, compiler, "-c", "a.c"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0 and (tmp_path / "a.o").exists()
    assert done.stderr == "chimbuko: a.c: annotated functions are not recorded: an error\n"


def test_standards_that_libclang_does_not_know(tmp_path: Path) -> None:
    from chimbuko.instrument.weaver.definitions import annotated_definitions

    attribute = "@critical_path(flow='in')"
    text = f'__attribute__((annotate("{attribute}"))) int f() {{ return 0; }}'
    (tmp_path / "a.ii").write_text(text)
    for standard in ("", "-std=c++17", "-std=c++99x"):
        (found,) = annotated_definitions(tmp_path / "a.ii", True, standard)
        assert (found.name, found.attribute, found.body) == ("f", attribute, text.index("{"))


def test_coroutines_and_what_has_no_body_are_warned_of(tmp_path: Path) -> None:
    source = tmp_path / "a.cc"
    source.write_text("""
        #include <coroutine>
        #define NOTED __attribute__((annotate("@critical_path()")))
        struct Task {
            struct promise_type {
                Task get_return_object() { return {}; }
                std::suspend_never initial_suspend() { return {}; }
                std::suspend_never final_suspend() noexcept { return {}; }
                void return_void() {}
                void unhandled_exception() {}
            };
        };
        NOTED Task turns() { co_return; }
        struct Plain { NOTED Plain() = default; };
        NOTED void called() {}
        int main() { turns(); Plain plain; static_cast<void>(plain); called(); }
    """)
    lines = compiled(["g++", "-std=c++20", "-Wall", "a.cc", "-o", "a"], tmp_path).splitlines()
    assert [line.partition(" warning: ")[2] for line in lines] == [
        "turns is not recorded: it is a coroutine, whose calls do not nest",
        "Plain is not recorded: it has no body here",
    ]


def test_no_compiler_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("")
    for words in (["nocc", "-c", "a.c"], ["nocc", "a.o"]):
        done = subprocess.run([*CC, *words], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert done.stderr.startswith("chimbuko: nocc: no such program")
