"""Calls that get lost on the way are missed, since their source has counted them."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from chimbuko.core.calls.census import AT_THE_END, UNEXPLAINED, census_of
from tests.integration.conftest import Start

PROGRAM = """
import time
from pathlib import Path

def work():
    time.sleep(0.001)

while not Path("enough").exists():
    work()
for _ in range(1500):
    work()
"""


CALLS = 200_000
TIGHT = f"""
def work():
    pass

for _ in range({CALLS}):
    work()
"""


@pytest.mark.parametrize("transport", ["files", "sst"])
def test_each_call_of_a_tight_loop_is_analysed_or_missed(
    transport: str, start: Start, tmp_path: Path
) -> None:
    """The program makes calls faster than any transport has to take them on a busy machine."""
    (tmp_path / "program.py").write_text(TIGHT)
    # Otherwise the budget would leave nearly all of them out.
    traced = [sys.executable, "-m", "chimbuko", "trace", "--overhead", "100%", str(tmp_path / "program.py")]
    run = start("--transport", transport, "--no-dashboard", "--", *traced)
    assert run.end() == 0, run.output
    census = census_of(run.health)
    (rank,) = census.ranks
    # With the program itself and its module.
    assert rank.seen == CALLS + 2
    assert rank.analysed + census.missing == rank.seen
    assert UNEXPLAINED not in census.differences
    said = "Call data: complete" if not census.missing else f"Lost: {census.missing:,} of {rank.seen:,} calls"
    assert said in run.output


def test_what_nobody_read_of_a_program_that_ended_well_is_counted(start: Start, tmp_path: Path) -> None:
    """Over SST the readers are killed, each one, until the stream is given up; then the program ends."""
    (tmp_path / "program.py").write_text(PROGRAM.replace("enough", str(tmp_path / "enough")))
    traced = [sys.executable, "-m", "chimbuko", "trace", str(tmp_path / "program.py")]
    run = start("--transport", "sst", "--period", "0.2", "--no-dashboard", "--", *traced)
    run.wait_until(lambda: any(stream.calls > 100 for stream in run.health_so_far))
    while "given up" not in (run.folder / "logs" / "agent-0.log").read_text():
        for pid in run.readers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    (tmp_path / "enough").touch()
    assert run.end() == 0, run.output
    (rank,) = census_of(run.health).ranks
    assert rank.source == "the Python tracer"
    assert rank.seen is not None and rank.seen > rank.analysed
    assert rank.differences == {AT_THE_END: rank.seen - rank.analysed}
    lost = re.search(
        r"^Lost: ([\d,]+) of ([\d,]+) calls \(\d+ %\) in steps at the end", run.output, re.MULTILINE
    )
    assert lost, run.output
    assert [int(one.replace(",", "")) for one in lost.groups()] == [rank.seen - rank.analysed, rank.seen]
    assert "what the program said" not in run.output
