"""The kernels once more as plain Python, which shows what compiled code hides: bad indices and overflow."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.places import ROOT

TESTS = (
    "tests/ad/calls/test_stacks.py",
    "tests/ad/records/test_windows.py",
    "tests/ad/records/test_counters.py",
    "tests/ad/records/test_metrics.py",
    "tests/ad/records/test_correlation.py",
    "tests/ad/records/test_floodlimit.py",
    "tests/ad/records/test_launches.py",
    "tests/ad/handoff/test_opencalls.py",
    "tests/ad/handoff/test_flightrecorder.py",
    "tests/ad/analysis/test_streamanalysis.py",
    "tests/ad/detectors/test_tail.py",
    "tests/ad/detectors/test_histograms.py",
    "tests/ad/analysis/test_statistics.py",
    "tests/ad/analysis/test_traffic.py",
    "tests/kernels/test_buckets.py",
    "tests/statistics/test_moments.py",
    "tests/statistics/test_schema.py",
    "tests/provenance/store/test_encode.py",
    "tests/pserver/state/test_rowindex.py",
)


@pytest.mark.thorough
def test_kernels_pass_their_tests_as_plain_python() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
