"""Calls for which there was no room, or too deep a stack, are counted by function."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from glob import iglob
from pathlib import Path

import pytest

from chimbuko.core.sourcecensus import CALL_COUNTS, LEFT_OUT
from tests.instrument.recorder.streams import TRACE, WHOLE, await_drains, drains, record, streams
from tests.instrument.recorder.test_functions import PROGRAMS, compiled
from tests.patience import PATIENCE_S

OUTER, INNER = 30_000, 8
INNER_FUNCTIONS = "".join(
    f"__attribute__((noinline)) void inner{number}(void) {{ sink += {number}; }}\n" for number in range(INNER)
)
OVERFLOWS = f"""
#include <stdio.h>
static volatile long sink;
{INNER_FUNCTIONS}
static void (*const inner[])(void) = {{{", ".join(f"inner{number}" for number in range(INNER))}}};
__attribute__((noinline)) void outer(int number) {{ inner[number % {INNER}](); sink++; }}
int main(void)
{{
    if (getchar() == EOF)
        return 1;
    for (int number = 0; number < {OUTER}; number++)
        outer(number);
    puts("done");
    fflush(stdout);
    getchar();
    for (int number = 0; number < 3; number++)
        outer(number);
    return 0;
}}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("overflows")
    (folder / "overflows.c").write_text(OVERFLOWS)
    return compiled(folder / "overflows.c", folder / "overflows", "-finstrument-functions")


def test_what_finds_no_room_is_known_by_function(program: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "TAU_ADIOS2_FILENAME": str(tmp_path / "tau-metrics")}
    running = subprocess.Popen(
        [*TRACE, *WHOLE, program],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdin is not None and running.stdout is not None
    latest = time.monotonic() + PATIENCE_S
    while not any(iglob(f"/dev/shm/chimbuko-rings-*/{running.pid}-*.process")):
        assert time.monotonic() < latest
        time.sleep(0.02)
    found = drains(tmp_path)
    for process in found:
        os.kill(process, signal.SIGSTOP)
    running.stdin.write("\n")
    running.stdin.flush()
    assert running.stdout.readline() == "done\n"
    for process in found:
        os.kill(process, signal.SIGCONT)
    time.sleep(1.5)
    running.communicate("\n", timeout=PATIENCE_S)
    await_drains(tmp_path)
    (stream,) = streams(tmp_path)
    calls = stream.calls()
    counts = json.loads(stream.metadata(CALL_COUNTS))
    assert counts["seen"] == 1 + 2 * (OUTER + 3)
    assert counts["recorded"] == calls.total() - calls[".TAU application"] > 2000
    dropped = counts["for which there was no room"]
    assert dropped == counts["seen"] - counts["recorded"] - counts[LEFT_OUT] > 0
    said = stream.metadata("Not Recorded")
    named = f"({OUTER + 3 - calls['outer']} of outer, "
    assert said.startswith(f"{dropped} calls for which there was no room {named}") or counts[LEFT_OUT]


def test_calls_that_are_too_deep_are_counted_with_what_they_call(tmp_path: Path) -> None:
    flags = ("-finstrument-functions", "-O0", "-Wno-infinite-recursion")
    program = compiled(PROGRAMS / "jumps.c", tmp_path / "jumps", *flags)
    (stream,) = record(tmp_path, [program, "deep"])
    deep = 3 * (1501 - 1023)
    assert stream.metadata("Not Recorded") == f"{deep} calls nested too deeply ({deep} of down)"
