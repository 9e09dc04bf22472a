"""Programs that really run, each with one known cause of delay: what is told of them is right."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from chimbuko.ad.analysis.wholetrace import read_whole
from chimbuko.capture.trace.discovery import find_recorded
from chimbuko.causes.incident import Incident
from chimbuko.core.calls.waiting import Waits, waits_in
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from evaluation import causes
from tests.patience import PATIENCE_S
from tests.thorough import first

LEAST_RIGHT = 4
"""Of five delays; a busy machine may hide one."""
LEAST_RIGHT_SHARE = 0.8
"""The same of waits."""
MOST_RUNS = 3


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return causes.build(tmp_path_factory.mktemp("scenarios") / "scenarios")


@pytest.mark.parametrize("name", first(1, (name for name, of in causes.SCENARIOS.items() if of.is_flagged)))
def test_the_cause_is_the_known_one(program: Path, tmp_path: Path, name: str) -> None:
    truth = causes.SCENARIOS[name]
    run = causes.run(program, name, tmp_path / "run", ["--keep-trace"])
    result = causes.judge(run, name)
    assert result.right_runs == 1, result
    delays = causes.delays_of(causes.incidents_of(run), truth)
    right = [one for one in delays if causes.cause_of(one) == truth.cause]
    assert len(right) >= min(truth.delays, LEAST_RIGHT), [
        (one.function, one.rank, one.kind) for one in delays
    ]
    assert len(delays) <= truth.delays + 1
    for one in right if truth.waiting is not None else ():
        waited = {other.rank for other in one.waited if other.kind == truth.waiting}
        assert waiting_ranks(run, one) <= waited, one.waited


@pytest.mark.thorough
@pytest.mark.timeout(540)
def test_flight_recorders_know_a_delay_that_nobody_flagged(program: Path, tmp_path: Path) -> None:
    """No trace is kept, and nothing is judged at the end: what is known of it came while the ranks lived."""
    truth = causes.SCENARIOS["ordinary_call"]
    for number in range(MOST_RUNS):
        run = causes.run(program, "ordinary_call", tmp_path / str(number), ["--no-relabel"])
        with open_run(run) as provenance:
            severe = provenance.calls.page(CallFilter(min_severity_us=truth.least_us)).calls
        waits = [
            one for one in severe if waits_in(one.function) is Waits.COLLECTIVE and one.rank != truth.rank
        ]
        if len(waits) >= LEAST_RIGHT:
            break
    else:
        pytest.skip("where many programs share the cores ranks always wait so long, and no wait is abnormal")
    assert not list(run.trace.glob("*.bp"))
    found = {one.id: one for one in causes.incidents_of(run)}
    right = [one for one in waits if causes.cause_of(found[one.incident_id]) == truth.cause]
    # A busy machine has some delays of its own.
    assert len(right) >= LEAST_RIGHT_SHARE * len(waits), found
    delays = {one.incident_id: found[one.incident_id] for one in right}
    assert not any(one.is_flagged for one in delays.values())
    own = {one.id for one in right}
    kinds = {other.kind for one in delays.values() for other in one.waited if other.call_id in own}
    assert kinds == {truth.waiting}
    first_id = next(iter(delays))
    listed, shown = (
        subprocess.run([causes.BIN / "chimbuko", *words], capture_output=True, text=True, check=True)
        for words in (["incidents", "--all", run.path], ["show", run.path, first_id])
    )
    assert listed.stdout.count("refine on rank 1 took ") >= len(delays)
    assert f"The delayed call is {delays[first_id].call_id}, which was not flagged" in shown.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["chain", "late_at_collective"])
def test_a_kept_trace_gives_the_same_incidents_as_the_live_run(
    program: Path, tmp_path: Path, name: str
) -> None:
    truth = causes.SCENARIOS[name]
    live = causes.run(program, name, tmp_path / "live", ["--keep-trace"])
    again = [causes.BIN / "chimbuko", "run", "--no-dashboard", "--trace", f"{live.trace}/*.bp"]
    again += ["--period", str(truth.period_s), "-o", tmp_path / "again"]
    subprocess.run(again, check=True, timeout=PATIENCE_S, capture_output=True)
    expected, found = (
        {
            one.call_id: (causes.cause_of(one), {other.rank for other in one.waited if other.is_flagged})
            for one in causes.delays_of(causes.incidents_of(run), truth)
        }
        for run in (live, RunDirectory(tmp_path / "again"))
    )
    assert len(expected) >= LEAST_RIGHT
    assert found == expected


def waiting_ranks(run: RunDirectory, incident: Incident) -> set[int]:
    """Ranks that waited during half of a delay and hardly for anything else, by the trace.

    A wait of which the delay is less than half may rightly belong to another incident, or to none, as where a
    rank waits for the program's end; and on a busy machine some have not come so far.
    """
    waiting = set()
    for stream in find_recorded([f"{run.trace}/*.bp"]):
        whole = read_whole(stream, lambda rows: None)
        waits = [timer for timer, name in whole.names.timers.items() if waits_in(name) is not Waits.NOT]
        calls = whole.calls[np.isin(whole.calls["function"], waits)]
        begin_us, end_us = np.maximum(calls["begin_us"], incident.entry_us), calls["end_us"]
        together_us = np.minimum(end_us, incident.exit_us) - begin_us
        delay_us = incident.exit_us - incident.entry_us
        is_for_it = together_us > (end_us - calls["begin_us"]) / 2
        if (is_for_it & (together_us > delay_us / 2)).any():
            waiting.add(stream.rank)
    return waiting - {incident.rank}
