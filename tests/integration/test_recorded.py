"""A real TAU trace goes in; the same anomalies come out, whichever way it is read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from examples.truth import InjectedDelay, match
from tests.integration.conftest import Run, Start

ROWS = 353_612
CALLS = 141_202


def f1(first: set[str], second: set[str]) -> float:
    """Agreement of two sets of flags."""
    return 2 * len(first & second) / (len(first) + len(second))


def test_every_row_is_used_and_every_call_closed(heat4_run: Run) -> None:
    health = heat4_run.health
    assert [stream.state for stream in health] == ["ended"] * 4
    assert sum(stream.rows for stream in health) == ROWS
    assert sum(stream.calls for stream in health) == CALLS
    assert sum(stream.gap_steps for stream in health) == 0
    assert [stream.losses for stream in health] == [{}] * 4


def test_finds_the_delays_without_flooding(heat4_run: Run, heat4_delays: list[InjectedDelay]) -> None:
    anomalies = heat4_run.anomalies
    found = [delay for delay, call in match(heat4_delays, anomalies) if call is not None]
    assert len(heat4_delays) == 41
    assert len(found) >= 36
    assert len(anomalies) <= 220


def test_notes_what_the_run_was(heat4_run: Run) -> None:
    info = heat4_run.info
    assert (info.state, info.exit_code) == ("finished", None)
    assert info.trace_bytes > 10 * info.stored_bytes > 0


def test_four_agents_give_the_same_flags(heat4: Path, heat4_run: Run, start: Start) -> None:
    run = start("--trace", heat4 / "*.bp", "--agents", "4")
    assert run.end() == 0, run.output
    assert run.ids == heat4_run.ids
    assert sum(stream.rows for stream in run.health) == ROWS


@pytest.mark.parametrize("agents", ["1", "4"])
def test_sst_replay_in_lockstep_gives_the_same_flags(
    agents: str, heat4: Path, heat4_run: Run, start: Start
) -> None:
    run = start(
        "--replay", heat4 / "*.bp", "--pace", "max", "--lockstep", "--agents", agents, "--no-dashboard"
    )
    assert run.end() == 0, run.output
    assert run.ids == heat4_run.ids
    assert sum(stream.rows for stream in run.health) == ROWS


def test_live_flags_agree_with_lockstep(heat4: Path, heat4_run: Run, start: Start) -> None:
    run = start("--replay", heat4 / "*.bp", "--pace", "2", "--no-dashboard")
    assert run.end() == 0, run.output
    agreement = f1(run.ids, heat4_run.ids)
    print(f"F1 of live and lockstep flags: {agreement:.3f}")
    assert agreement >= 0.9
    assert sum(stream.rows for stream in run.health) == ROWS


def test_query_and_show_answer_from_the_store(heat4_run: Run) -> None:
    words = ["query", str(heat4_run.folder), "--function", "pack_row*", "--rank", "1", "--json"]
    answer = subprocess.run([sys.executable, "-m", "chimbuko", *words], capture_output=True, check=True)
    calls = json.loads(answer.stdout)["calls"]
    expected = {
        call.id
        for call in heat4_run.anomalies
        if call.rank == 1 and call.function.startswith("pack_row") and call.program == 0
    }
    assert {call["id"] for call in calls} == expected != set()
    worst = max(calls, key=lambda call: call["severity_us"])["id"]
    shown = subprocess.run(
        [sys.executable, "-m", "chimbuko", "show", worst, str(heat4_run.folder), "--json"],
        capture_output=True,
        check=True,
    )
    assert worst in shown.stdout.decode()
