"""Ranks are found by their environment before their traces say anything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from chimbuko.monitor.collector.expectedranks import ExpectedRanks


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
