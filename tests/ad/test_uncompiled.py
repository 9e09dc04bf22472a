"""The kernels once more as plain Python, which shows what compiled code hides: bad indices and overflow."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.places import ROOT

TESTS = (
    "tests/ad/test_stacks.py",
    "tests/ad/test_windows.py",
    "tests/ad/test_counters.py",
    "tests/ad/test_metrics.py",
    "tests/ad/test_correlation.py",
    "tests/ad/test_floodlimit.py",
    "tests/ad/test_launches.py",
    "tests/ad/test_opencalls.py",
    "tests/ad/test_flightrecorder.py",
    "tests/ad/test_analysis.py",
    "tests/ad/test_tail.py",
    "tests/ad/test_histograms.py",
    "tests/ad/test_statistics.py",
    "tests/ad/test_traffic.py",
    "tests/chimbuko/test_buckets.py",
    "tests/chimbuko/test_moments.py",
    "tests/chimbuko/test_tables.py",
    "tests/provenance/test_packing.py",
    "tests/pserver/test_keyed.py",
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
