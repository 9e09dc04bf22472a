"""The budget as users give it, and what a program under it records."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.instrument.recorder.overhead import parse_overhead
from tests.instrument.recorder.streams import TRACE, record
from tests.instrument.recorder.test_functions import PROGRAMS, compiled


def test_a_budget_is_a_percentage() -> None:
    assert [float(parse_overhead(text)) for text in ("2%", "0.5%", "100 %")] == [0.02, 0.005, 1.0]
    for text in ("2", "0%", "-1%", "101%", "much", "%", "nan%"):
        with pytest.raises(ConfigError, match="give one such as 2%"):
            parse_overhead(text)


def test_a_function_that_becomes_slow_is_recorded_again_on_all_threads(tmp_path: Path) -> None:
    program = compiled(PROGRAMS / "phases.c", tmp_path / "phases", "-finstrument-functions")
    (stream,) = record(tmp_path, [program, "3", "300", "2500"])
    # begun == ended is asserted there: no call is torn.
    calls = stream.calls()
    assert calls["run"] == 3 and calls["main"] == 1
    rows = [row for row in stream.events.tolist() if stream.function(row[4]) == "tick"]
    longest_us = 0
    open_us: dict[int, int] = {}
    for row in rows:
        if row[3] == 0:
            open_us[row[2]] = row[5]
        else:
            longest_us = max(longest_us, row[5] - open_us.pop(row[2]))
    # It computes for 2 ms, once it is slow.
    assert longest_us >= 2000
    assert {parent for parent, name in stream.nesting() if name == "tick"} <= {"chunk", "run"}
    said = stream.metadata("Functions Left Out")
    assert "of tick" in said and "their time is in that of their callers" in said


def test_a_smaller_budget_records_less_and_is_said(tmp_path: Path) -> None:
    program = compiled(PROGRAMS / "phases.c", tmp_path / "phases", "-finstrument-functions")
    recorded = []
    for overhead in ("0.1%", "5%"):
        folder = tmp_path / overhead
        folder.mkdir()
        (stream,) = record(folder, ["--overhead", overhead, program, "1", "500", "0"])
        assert float(stream.metadata("Recorder's Budget").removesuffix("%")) == float(
            overhead.removesuffix("%")
        )
        recorded.append(sum(stream.calls().values()))
    assert recorded[0] < recorded[1] / 3


def test_a_program_of_threads_alone_ends_when_the_last_of_them_does(tmp_path: Path) -> None:
    source = tmp_path / "threads.c"
    source.write_text(
        "#include <pthread.h>\n#include <unistd.h>\nvoid tick(void) {}\n"
        "void *run(void *p) { for (int n = 0; n < 1000000; n++) tick(); return p; }\n"
        "int main(void) { pthread_t t; pthread_create(&t, NULL, run, NULL); pthread_exit(NULL); }\n"
    )
    program = compiled(source, tmp_path / "threads", "-finstrument-functions", "-O0")
    environment = {**os.environ, "TAU_ADIOS2_FILENAME": str(tmp_path / "tau-metrics")}
    done = subprocess.run([*TRACE, program], env=environment, timeout=60)
    assert done.returncode == 0


def test_a_forked_child_knows_what_its_parent_had_left_out(tmp_path: Path) -> None:
    source = tmp_path / "forked.c"
    source.write_text(
        "#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"
        "void tick(void) {}\nvoid slow(void) { usleep(2000); }\n"
        "void loop(void) { for (int n = 0; n < 50000; n++) tick(); slow(); }\n"
        "int main(void) { for (int n = 0; n < 100; n++) loop();\n"
        "    if (fork() == 0) { for (int n = 0; n < 50; n++) loop(); exit(0); } wait(NULL); }\n"
    )
    program = compiled(source, tmp_path / "forked", "-finstrument-functions", "-O0")
    parent, child = record(tmp_path, [program], CHIMBUKO_INSTANCES="1")
    assert parent.calls()["loop"] == parent.calls()["slow"] == 100
    assert child.calls()["loop"] == child.calls()["slow"] == 50
    # The program's code stays as its parent left it.
    assert "of tick" in child.metadata("Functions Left Out")
    assert child.calls()["tick"] < 10_000
