"""Functions that clang prepares with -fxray-instrument: each call, however it ends, and while they change."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from chimbuko.cli.execute.ccflags import function_flags
from tests.instrument.recorder.streams import TRACE, WHOLE, record

PROGRAM = Path(__file__).with_name("programs") / "sleds.cc"
pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="functions are prepared on x86-64 only"),
    pytest.mark.skipif(shutil.which("clang++") is None, reason="no clang++: apt-get install clang"),
]


@pytest.fixture(scope="module", params=["-fPIE -pie", "-fno-pie -no-pie"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("sleds") / "sleds"
    words = ["clang++", "-O2", "-g", *function_flags("clang"), *request.param.split(), str(PROGRAM)]
    subprocess.run([*words, "-o", str(found), "-lpthread"], check=True)
    return found


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


def test_functions_that_do_not_matter_are_passed_over(program: Path, tmp_path: Path) -> None:
    (stream,) = record(tmp_path, [program, "1", "1000000"])
    assert "those not counted of " in stream.metadata("Functions Left Out")
    assert stream.calls()["main"] == 1


def test_under_a_debugger_they_are_left_alone_and_that_is_said(program: Path, tmp_path: Path) -> None:
    if shutil.which("gdb") is None:
        pytest.skip("no gdb: apt-get install gdb")
    debugger = ["gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "run", "--args"]
    debugged = [*debugger, str(program), "1", "10"]
    if "exited normally" not in subprocess.run(debugged, capture_output=True, text=True).stdout:
        pytest.skip("gdb cannot trace a program here")
    streams = record(tmp_path, [shutil.which("gdb") or "gdb", *debugged[1:]])
    (stream,) = (stream for stream in streams if stream.names.program == "sleds")
    said = stream.metadata("Recorder's Call Sites")
    assert (
        said == "functions compiled with -fxray-instrument are not recorded: a debugger watches the program"
    )
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
    program: Path, tmp_path: Path
) -> None:
    (tmp_path / "strict.c").write_text(STRICT)
    strict = tmp_path / "strict"
    subprocess.run(["cc", str(tmp_path / "strict.c"), "-o", str(strict)], check=True)
    if subprocess.run([strict, "/bin/true"]).returncode == 77:
        pytest.skip("the system has no policy of W^X for a process (Linux 6.3)")
    streams = record(tmp_path, [strict, program, "1", "10"])
    (stream,) = (stream for stream in streams if stream.names.program == "sleds")
    said = stream.metadata("Recorder's Call Sites")
    assert said.startswith(
        "functions compiled with -fxray-instrument are not recorded: the system does not let"
    )
