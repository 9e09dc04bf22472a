"""Functions of programs without MPI: instrumented, named by themselves, tiny, in threads and children."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import chimbuko
from chimbuko.instrument.recorder.library import INCLUDE, recorder_library
from chimbuko.instrument.recorder.ringfolder import in_order_of_start
from tests.instrument.recorder.streams import Stream, record

PROGRAMS = Path(__file__).with_name("programs")


def compiled(source: Path, program: Path, *flags: str, compiler: str = "cc") -> Path:
    words = [compiler, "-O2", "-g", f"-I{INCLUDE}", *flags, str(source), "-o", str(program), "-lpthread"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return program


def regions(folder: Path, language: str) -> Path:
    source = folder / f"regions.{language}"
    source.write_bytes((PROGRAMS / "regions.c").read_bytes())
    compiler = {"c": "cc", "cc": "c++"}[language]
    return compiled(source, folder / "regions", "-Wall", "-Wextra", "-Werror", compiler=compiler)


@pytest.fixture(scope="module", params=["c", "cc"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Stream]:
    folder = tmp_path_factory.mktemp("regions")
    return record(folder, [regions(folder, request.param)], CHIMBUKO_INSTANCES="1")


def test_regions_nest_and_counters_are_counted(recorded: list[Stream]) -> None:
    stream = recorded[0]
    nesting = stream.nesting()
    assert nesting["outer", "step"] == nesting["step", "inner"] == 10
    assert [row[4] for row in stream.counters.tolist()] == list(range(10))
    own = {name for name in stream.names.counters.values() if not name.startswith("Work: ")}
    assert own == {"TIME", "number"}


def test_what_a_jump_left_ends_with_its_caller(recorded: list[Stream]) -> None:
    nesting = recorded[0].nesting()
    assert nesting["outer", "left by a jump"] == 1


def test_threads_are_rows_of_their_own(recorded: list[Stream]) -> None:
    stream = recorded[0]
    threads = Counter(stream.events[:, 2].tolist())
    # A thread that has ended leaves its number to a later one.
    assert 2 <= len(threads) <= 5 and 0 in threads
    assert sum(stream.calls(thread)["inner"] for thread in threads if thread) == 400
    # Samples of the node know threads by their numbers in the kernel.
    numbers = {stream.names.metadata[stream.rank, thread, "tid"] for thread in threads}
    assert len(numbers) == len(threads) and all(number.isdecimal() for number in numbers)


def test_forked_child_is_a_rank_of_its_own(recorded: list[Stream]) -> None:
    assert [stream.rank for stream in recorded] == [0, 1]
    assert recorded[1].calls() == {".TAU application": 1, "inner": 7}
    assert recorded[1].metadata("Parent Process").startswith("rank 0, pid ")


def test_children_are_further_ranks_also_where_numbers_of_processes_begin_anew() -> None:
    names = ["311-2000.process", "32701-1000.process", "32701-1000-0.ring", "9-900.process"]
    assert in_order_of_start(names) == ["9-900.process", "32701-1000.process", "311-2000.process"]


@pytest.mark.parametrize("language", ["c", "cc"])
def test_without_the_recorder_it_does_nothing(tmp_path: Path, language: str) -> None:
    done = subprocess.run([regions(tmp_path, language)], capture_output=True, text=True, check=True)
    assert done.stdout == "sum 410\n"


def test_fortran_names_regions_and_counters(tmp_path: Path) -> None:
    if shutil.which("gfortran") is None:
        pytest.skip("no gfortran: apt-get install gfortran")
    sources = [str(INCLUDE / "chimbuko_fortran.c"), str(INCLUDE / "chimbuko.f90"), f"-J{tmp_path}"]
    program = compiled(PROGRAMS / "regions.f90", tmp_path / "regions", *sources, compiler="gfortran")
    options = f"log-dir={tmp_path}:log-event=Compact:cpu-mem-usage=True"
    (stream,) = record(tmp_path, [program], PERFFLOW_OPTIONS=options)
    assert stream.nesting()[".TAU application", "solve"] == 5
    unknowns = next(number for number, name in stream.names.counters.items() if name == "unknowns")
    counted = [row[4] for row in stream.counters.tolist() if row[3] == unknowns]
    assert counted == [10, 20, 30, 40, 50]
    (path,) = tmp_path.glob("perfflow.array.*.pfw")
    written = json.loads(path.read_text())
    assert [(e["name"], e["cat"], e["ph"]) for e in written] == 5 * [
        ("solve", "regions", phase) for phase in "CCX"
    ]
    assert written[0]["args"]["memory_usage"] > 500
    plain = subprocess.run([program], capture_output=True, text=True, check=True)
    assert plain.stdout.split() == ["done"]


def test_tiny_functions_are_left_out_and_known(tmp_path: Path) -> None:
    program = compiled(PROGRAMS / "tiny.c", tmp_path / "tiny", "-finstrument-functions")
    (stream,) = record(tmp_path, [program, "100"])
    calls = stream.calls()
    assert calls["chunk"] == 100 and calls["main"] == 1
    said = stream.metadata("Functions Left Out")
    assert said.endswith("-finstrument-functions-exclude-function-list=tick")
    assert "of tick" in said
    # None is lost: each was recorded, left out, or found no room, until its call site was disarmed.
    left_out, dropped = (
        int(stream.metadata(key).partition(" ")[0] or 0) for key in ("Functions Left Out", "Not Recorded")
    )
    known = calls["tick"] + left_out + dropped
    is_disarmed = "those not counted of tick from" in said
    assert known < 10_000_000 if is_disarmed else known == 10_000_000
    assert dropped == 0 and calls["tick"] < 100_000


def test_pkg_config_has_the_flags_and_the_version(tmp_path: Path) -> None:
    text = (INCLUDE / "chimbuko.pc").read_text()
    assert f"Version: {chimbuko.__version__}\n" in text
    assert "-finstrument-functions" in text and "includedir=${pcfiledir}\n" in text


def test_workers_of_openmp_have_a_name_where_no_other_tool_wants_to_know_of_them(tmp_path: Path) -> None:
    program = compiled(PROGRAMS / "openmp.c", tmp_path / "runtime", "-ldl")

    def names(**environment: str) -> list[str]:
        environment |= {"PATH": os.environ["PATH"], "LD_PRELOAD": str(recorder_library(None))}
        return subprocess.run(
            [program], env=environment, capture_output=True, text=True, check=True
        ).stdout.split()

    assert names() == ["runtime", "openmp_worker"]
    assert names(OMP_TOOL_LIBRARIES="/other.so") == ["runtime", "runtime"]


@pytest.mark.parametrize("optimised", ["-O0", "-O2"])
@pytest.mark.parametrize("how", ["deep", "handler"])
def test_calls_that_are_left_by_longjmp_end_there(tmp_path: Path, how: str, optimised: str) -> None:
    flags = ("-finstrument-functions", optimised, "-Wno-infinite-recursion")
    program = compiled(PROGRAMS / "jumps.c", tmp_path / "jumps", *flags)
    (stream,) = record(tmp_path, [program, how])
    assert stream.calls()["step"] == 300
    above = {parent for parent, name in stream.nesting() if name == "step"}
    # What is part of main has no frame of its own.
    assert above == {"main"} or optimised == "-O2"
