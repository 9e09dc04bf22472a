"""What the summary tells the user to mend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chimbuko.cli.summary import Summary, slow_lines, summarize, summary_lines
from chimbuko.config import AnalysisConfig
from chimbuko.messages import FunctionStatistics
from chimbuko.provenance.store import close, open_for_writing
from chimbuko.provenance.writer import Writer
from chimbuko.records import StepCount, StreamHealth
from chimbuko.rundir import new_run
from chimbuko.views import SlowRank
from tests.sample_records import make_batch

Summarize = Callable[..., Summary]


@pytest.fixture
def summary_of(tmp_path: Path) -> Summarize:
    """The summary of a run with one stream, of 10 steps of a second each, and these functions."""

    def summary(functions: list[FunctionStatistics], **health: Any) -> Summary:
        run = new_run(tmp_path / "run", ["./app"], AnalysisConfig(), None)
        engine = open_for_writing(run.store_url)
        writer = Writer(engine, run.read_info().id)
        writer.write_run(run.read_info())
        writer.write_program(0, "app")
        steps = [StepCount(0, 3, n, n * 1_000_000, (n + 1) * 1_000_000, 1, 0, 0.0) for n in range(10)]
        usual = {"state": "ended", "steps": 10, "rows": 50_000, "size_bytes": 2_400_000}
        stream = StreamHealth(
            **{"program": 0, "rank": 3, "node": "n", "calls": 0, "anomalies": 0, "gap_steps": 0, "losses": {}}
            | usual
            | health
        )
        writer.write([make_batch(stream="0:3", steps=steps, health=stream)])
        writer.write_function_statistics(functions)
        close(engine)
        return summarize(run, [])

    return summary


def function(name: str, calls: int, mean_us: float) -> FunctionStatistics:
    return FunctionStatistics(0, name, calls, 0, 0.0, mean_us, 0.0, mean_us, mean_us, mean_us, mean_us)


def test_sound_run_has_nothing_to_mend(summary_of: Summarize) -> None:
    summary = summary_of([function("main", 1, 1e6)], largest_step_bytes=5_000_000)
    assert (summary.large_step, summary.unresolved, summary.broken_streams) == (None, {}, [])
    assert not any(word in "\n".join(summary_lines(summary)) for word in ("Largest", "Unresolved"))


def test_large_step_comes_with_what_would_mend_it(summary_of: Summarize) -> None:
    functions = [function("norm", 20_000, 2.0), function("main", 1, 1e6)]
    summary = summary_of(functions, largest_step_bytes=10_000_000)
    (line,) = (line for line in summary_lines(summary) if line.startswith("Largest step"))
    assert "10.0 MB, of rank 0:3" in line
    assert "(--period 0.5) or by leaving out norm (chimbuko filter" in line


def test_addresses_without_names_are_told_once(summary_of: Summarize) -> None:
    names = [f"addr=<55{n}> [{{app}} {{0,0}}] (rank {rank})" for n in range(3) for rank in (0, 1)]
    summary = summary_of([function(name, 10, 100.0) for name in names])
    assert summary.unresolved == {"app": 6}
    (line,) = (line for line in summary_lines(summary) if "-no-pie" in line)
    assert "6 functions of app" in line


@pytest.mark.parametrize("state", ["reading", "silent", "broken", "lost"])
def test_stream_without_an_end_is_told(state: str, summary_of: Summarize) -> None:
    summary = summary_of([], state=state)
    assert summary.broken_streams == ["0:3"]
    assert any("the end of 1 streams (0:3)" in line for line in summary_lines(summary))


def test_functions_that_have_slowly_changed_are_named(summary_of: Summarize) -> None:
    drifts = {"main": 1.0, "solve": 1.9, "norm": 1.15, "pack": 0.45, "send": 0.9}
    functions = [msgspec.structs.replace(function(name, 9000, 10.0), drift=f) for name, f in drifts.items()]
    summary = summary_of(functions)
    assert [(f.name, f.drift) for f in summary.drifted] == [("pack", 0.45), ("solve", 1.9)]
    assert [line for line in summary_lines(summary) if line.startswith("Drifted")] == [
        "Drifted: pack now takes 0.45 times as long as at first",
        "Drifted: solve now takes 1.9 times as long as at first",
    ]


def slow(rank: int, node: str, function: str, ratio: float, lost_s: float) -> SlowRank:
    return SlowRank(0, rank, node, function, ratio, 9.0, 1e6 * lost_s, 10, 100)


def test_slow_ranks_of_a_node_are_told_together_and_each_once() -> None:
    of_node = [slow(rank, "node7", "", 1.1, 2.0) for rank in range(40, 50)]
    twice = [slow(40, "node7", "solve", 1.2, 90.0), slow(3, "node1", "write", 1.5, 6.0)]
    first, second = (" ".join(line.split()) for line in slow_lines(twice + of_node))
    ranks = "0:40, 0:41, 0:42, 0:43, 0:44 and 5 more on node7"
    assert first == f"20.0 s {ranks}: 1.10 times as long in all they compute"
    assert second == "6.00 s 0:3 on node1: 1.50 times as long in write"
