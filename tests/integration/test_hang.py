"""A rank that hangs is found while it hangs, and what all did at that moment can be had."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from chimbuko.core.calls.record import SILENT
from chimbuko.provenance.query.filters import CallSummary
from chimbuko.runtime.runs.directory import RunDirectory
from tests.instrument.tracer.traced_program import read_whole
from tests.integration.conftest import Start
from tests.integration.hanging import HANGING_RANK
from tests.patience import PATIENCE_S

Found = TypeVar("Found")

PROGRAM = Path(__file__).parent / "hanging.py"


def wait_for(look: Callable[[], Found | None]) -> Found:
    give_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up:
        found = look()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("never seen")


def chimbuko(*arguments: str | Path) -> Any:
    """What a verb says with ``--json``; None where it fails."""
    command = [sys.executable, "-m", "chimbuko", *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    return json.loads(done.stdout) if done.returncode == 0 else None


def test_hung_rank_is_reported_while_it_hangs_and_the_others_can_be_recalled(
    start: Start, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    run = start("--no-dashboard", "--", "env", sys.executable, PROGRAM, release)

    def hung_calls() -> list[CallSummary]:
        return [call for call in run.anomalies if call.exit_us == 0] if run.health_so_far else []

    (hung,) = wait_for(hung_calls)
    answer = chimbuko("query", run.folder, "--function", "relax*", "--rank", str(HANGING_RANK))
    (reported,) = [call for call in answer["calls"] if call["id"] == hung.id]
    assert reported["label"] == "anomaly"
    assert reported["revision"] == 0
    assert reported["expected_us"] < 1e5
    assert reported["inclusive_us"] > 5e6
    assert reported["severity_us"] > 4.9e6

    def silence() -> Any:
        health = {stream.rank: stream for stream in run.health_so_far}
        return health[HANGING_RANK] if health[HANGING_RANK].state == SILENT else None

    silent = wait_for(silence)
    assert silent.silence.function.startswith("relax ")
    assert silent.silence.entry_us == reported["entry_us"]
    assert {stream.rank: stream.state for stream in run.health_so_far}[0] == "reading"
    shown = chimbuko("show", run.folder, reported["id"])
    assert [frame["function"].split()[0] for frame in shown["call"]["call_stack"]][:2] == ["relax", "solve"]

    moment = tmp_path / "moment"
    recalled = chimbuko(
        "runs", "recall", run.folder, "--around", reported["id"], "--before", "500ms", "-o", moment
    )
    assert [stream["remark"] for stream in recalled["streams"]] == ["", ""]
    other, hanging = (read_whole(Path(stream["file"])) for stream in recalled["streams"])
    calls = [call for call in other.calls() if call.name == "relax"]
    assert len(calls) > 100
    assert all(recalled["start_us"] <= call.exit_us <= recalled["end_us"] for call in calls)
    assert [name.split()[0] for name in hanging.open_timers()][-2:] == ["solve", "relax"]
    assert stat.S_IMODE(RunDirectory(run.folder).broker_path.stat().st_mode) == 0o600

    assert run.process.poll() is None, "all this was while the rank hung"
    release.touch()
    assert run.end() == 0, run.output
    (ended,) = [call for call in run.anomalies if call.id == reported["id"]]
    assert ended.revision > 0
    assert ended.exit_us - ended.entry_us >= reported["inclusive_us"]
    assert [stream.state for stream in run.health] == ["ended", "ended"]
    assert not RunDirectory(run.folder).broker_path.exists()
    assert (
        chimbuko("runs", "recall", run.folder, "--around", reported["id"], "-o", tmp_path / "later") is None
    )
