"""Ranks are found by their environment before their traces say anything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from chimbuko.monitor.collector.watched import ExpectedRanks
from tests.viz.asking import wait_until


def test_a_process_that_leaves_its_trace_in_the_folder_is_found_once(tmp_path: Path) -> None:
    expected = ExpectedRanks(str(tmp_path))
    assert expected.look() == []
    environments = [{"TAU_ADIOS2_FILENAME": f"{folder}/tau-metrics"} for folder in (tmp_path, "/elsewhere")]
    both = [subprocess.Popen(["sleep", "60"], env=os.environ | more) for more in environments]
    try:
        assert expected.look() == [both[0].pid]
        assert expected.look() == []
    finally:
        for one in both:
            one.kill()
            one.wait()


def test_a_fork_that_is_no_program_of_its_own_yet_is_asked_again(tmp_path: Path) -> None:
    expected = ExpectedRanks(str(tmp_path))
    expected.look()
    script = f"read word; TAU_ADIOS2_FILENAME={tmp_path}/tau-metrics exec sleep 60"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE) as process:
        assert expected.look() == []
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.close()
        wait_until(lambda: b"sleep" in Path(f"/proc/{process.pid}/comm").read_bytes())
        assert expected.look() == [process.pid]
        process.kill()
