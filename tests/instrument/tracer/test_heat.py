"""The example program: right physics on any number of ranks, delays where the truth says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.instrument.tracer.traced_program import environment, read_whole
from tests.patience import PATIENCE_S
from tests.places import EXAMPLES

CLOCKS_AGREE_US = 200
"""The truth is in the system's clock, the trace by a monotonic one set by it at the start."""

HEAT = EXAMPLES / "heat.py"


def heat(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(HEAT), *options],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def residual(done: subprocess.CompletedProcess[str]) -> float:
    assert done.returncode == 0, done.stderr
    found = re.search(r"residual (\S+)", done.stdout)
    assert found
    return float(found[1])


def test_number_of_ranks_does_not_change_the_solution(tmp_path: Path) -> None:
    size = ("--rows", "61", "--columns", "40", "--iterations", "40")
    alone = residual(heat(tmp_path, "--ranks", "1", *size))
    assert alone > 0
    assert residual(heat(tmp_path, "--ranks", "3", *size)) == pytest.approx(alone, rel=1e-9)


def test_delays_are_in_the_trace_of_their_rank_and_function_where_the_truth_says(tmp_path: Path) -> None:
    size = ("--rows", "64", "--columns", "64", "--iterations", "600", "--ranks", "2")
    done = heat(tmp_path, *size, "--seed", "3", "--delays", "6", "--truth", "truth.txt", "--traced")
    assert residual(done) > 0
    truth = [line.split() for line in (tmp_path / "truth.txt").read_text().splitlines()]
    assert len(truth) == 6
    traces = [read_whole(tmp_path / f"tau-metrics-heat-{rank}.bp") for rank in range(2)]
    for rank, iteration, function, start_us, end_us, milliseconds in truth:
        calls = [call for call in traces[int(rank)].calls() if call.name == f"Strip.{function}"]
        delayed = [
            number
            for number, call in enumerate(calls)
            if call.entry_us - CLOCKS_AGREE_US <= int(start_us)
            and int(end_us) <= call.exit_us + CLOCKS_AGREE_US
        ]
        assert len(delayed) == 1, (function, iteration)
        assert delayed[0] >= 50
        assert int(end_us) - int(start_us) >= 1000 * int(milliseconds)
        assert 30 <= int(milliseconds) <= 250
    # The delaying function itself is nowhere to be seen: its time is its caller's.
    assert all("lose_time" not in name for trace in traces for name in trace.names.timers.values())
    assert len(traces[0].comms) > 1000


@pytest.mark.thorough
def test_same_seed_gives_the_same_delays(tmp_path: Path) -> None:
    def truth(seed: str) -> list[list[str]]:
        size = ("--rows", "8", "--columns", "8", "--iterations", "90", "--ranks", "2")
        heat(tmp_path, *size, "--seed", seed, "--delays", "3", "--truth", "truth.txt")
        lines = (line.split() for line in (tmp_path / "truth.txt").read_text().splitlines())
        return sorted([*line[:3], line[5]] for line in lines)

    assert truth("5") == truth("5")
    assert truth("6") != truth("5")


def test_rank_that_dies_ends_the_run_with_its_exit_code(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, str(HEAT), "--iterations", "1000000", "--rows", "64", "--columns", "64"],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
    ) as run:
        children: list[str] = []
        while len(children) < 4:
            assert run.poll() is None
            children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        subprocess.run(["kill", "-9", children[2]], check=True)
    assert run.returncode == 128 + 9
    assert not any(Path(f"/proc/{child}").exists() for child in children)


def test_too_few_iterations_for_the_delays_are_refused(tmp_path: Path) -> None:
    done = heat(tmp_path, "--iterations", "55", "--delays", "6")
    assert done.returncode == 2
    assert "needs at least 56 iterations" in done.stderr
