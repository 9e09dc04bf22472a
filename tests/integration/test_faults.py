"""Whatever happens to server, broker and agents: what is learned of each step counts once, or is told lost.

A small version of it; ``make faults`` does everything again and again.
"""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chimbuko.model import load_model
from chimbuko.provenance.queries import open_run
from chimbuko.rundir import RunDirectory
from tests.integration.conftest import AGENT, BROKER, SERVER, Run, Start
from tests.integration.faults import Fault, kill, stop, take_memory
from tests.integration.marked import RANKS, STEPS, Learned, all_steps, learned_offline, write_marked

AGENTS = 2
PACE = 2
"""Of the program, which then takes 5 s."""
QUIET_S = 3.0
"""All faults begin within so long."""


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program's recorded streams."""
    folder = tmp_path_factory.mktemp("marked")
    write_marked(folder)
    return folder


def learned_of(run: Run) -> Learned:
    """What a run has left."""
    return Learned.of_model(load_model(RunDirectory(run.folder).model_path, run.info.config))


def live_run(start: Start, marked: Path, moments: random.Random, faults: list[Fault]) -> Run:
    """A live run of the program with these faults, at any moments; ended."""
    run = start(
        *("--replay", marked / "*.bp", "--pace", str(PACE), "--agents", str(AGENTS), "--period", "0.2"),
        "--no-dashboard",
    )
    run.wait_until(lambda: len(run.health_so_far) == RANKS)
    # In threads, so that one may strike during another.
    with ThreadPoolExecutor() as at_once:
        struck = [at_once.submit(fault, run, moments.uniform(0.0, QUIET_S)) for fault in faults]
    for fault in struck:
        fault.result()
    assert run.end() == 0, run.output
    # The application wrote all that it had to write.
    assert f"replayed {RANKS} streams, {RANKS * STEPS} steps" in run.output
    return run


def assert_all_stored_once(run: Run) -> None:
    """Each finding of each analysed step is in the store."""
    with open_run(RunDirectory(run.folder)) as provenance:
        steps, dropped = provenance.step_counts(), provenance.dropped()
    assert dropped == []
    by_rank = Counter[int]()
    for step in steps:
        by_rank[step.rank] += step.anomalies
    assert Counter(call.rank for call in run.anomalies) == +by_rank


def assert_all_counted_once(run: Run) -> None:
    """Each finding is in the server's statistics."""
    with open_run(RunDirectory(run.folder)) as provenance:
        functions = provenance.function_statistics()
    counted = {f.name: f.anomalies for f in functions if f.anomalies}
    assert Counter(call.function for call in run.anomalies) == counted


def assert_nothing_lost(run: Run, marked: Path) -> None:
    """As if nothing had happened."""
    learned = learned_of(run)
    assert learned.steps == all_steps()
    learned.assert_same(learned_offline(marked, all_steps(), run.info.config))
    assert_all_stored_once(run)
    assert_all_counted_once(run)
    assert [(s.steps, s.gap_steps, s.state) for s in run.health] == [(STEPS, 0, "ended")] * RANKS


def test_undisturbed_lockstep_learns_what_is_expected(start: Start, marked: Path) -> None:
    run = start("--trace", marked / "*.bp")
    assert run.end() == 0, run.output
    assert_nothing_lost(run, marked)


def test_broker_is_killed(start: Start, marked: Path, moments: random.Random) -> None:
    run = live_run(start, marked, moments, [kill(BROKER)])
    assert_nothing_lost(run, marked)


def test_server_stands_still_and_broker_is_full(start: Start, marked: Path, moments: random.Random) -> None:
    run = live_run(start, marked, moments, [stop(SERVER), take_memory])
    assert_nothing_lost(run, marked)


def test_agent_is_killed(start: Start, marked: Path, moments: random.Random) -> None:
    run = live_run(start, marked, moments, [kill(AGENT)])
    learned = learned_of(run)
    learned.assert_same(learned_offline(marked, learned.steps, run.info.config))
    assert_all_stored_once(run)
    with open_run(RunDirectory(run.folder)) as provenance:
        stored = {(step.rank, step.step) for step in provenance.step_counts()}
    assert stored >= {(rank, step) for rank, steps in learned.steps.items() for step in steps}
    assert [s.steps + s.gap_steps for s in run.health] == [STEPS] * RANKS
