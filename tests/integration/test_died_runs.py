"""A run all of whose processes were killed: it is named, and what its agents had found is recovered."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chimbuko.ad.handoff.spool import SpoolReader, spools_in
from chimbuko.capture.trace.discovery import find_recorded
from chimbuko.core.config import AnalysisConfig
from chimbuko.launcher.agents import Agents
from chimbuko.launcher.options import AgentOptions
from chimbuko.launcher.services import storeplace
from chimbuko.launcher.services.choices import ServiceOptions
from chimbuko.launcher.services.services import Services
from chimbuko.provenance.manage.lifecycle import START_S
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.protocol.messages import RecordBatch
from chimbuko.runtime.runs.directory import RunDirectory, new_run
from chimbuko.runtime.runs.scratch import left_behind
from examples.findings import all_anomalies
from tests.integration.conftest import STORE, Outcome, Run, Start, command_line, descendants
from tests.integration.held import CHIMBUKO
from tests.patience import PATIENCE_S


def chimbuko(*words: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """One verb, to its end."""
    return subprocess.run(
        [*CHIMBUKO, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE_S, **options
    )


def kill_everything(run: Run) -> None:
    """kill -9 of all processes of the run, the launcher first: nobody has a last word."""
    pids = [run.process.pid, *descendants(run.process.pid)]
    for pid in pids:
        # Most are gone with the launcher.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    run.end()
    deadline = time.monotonic() + PATIENCE_S
    while any(command_line(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def make_older(run: Run) -> None:
    """So that its services would have been there for long."""
    info = run.info
    RunDirectory(run.folder).write_info(
        msgspec.structs.replace(info, started_us=info.started_us - int(START_S * 1e6))
    )


def assert_all_stored(run: Outcome) -> int:
    """Each finding of each step that is in the store is there, too; how many there are."""
    with open_run(RunDirectory(run.folder)) as provenance:
        steps = provenance.steps.counts()
    found = sum(step.anomalies for step in steps)
    assert len(run.anomalies) == found
    return found


def in_spools(folder: Path) -> set[tuple[int, int, int]]:
    """Program, rank and step of all that waits in an agents' folder."""
    steps = set()
    for spool in spools_in(folder):
        reader = SpoolReader(spool)
        while frames := reader.read(1 << 20):
            for _, frame in frames:
                batch = msgspec.msgpack.decode(frame, type=RecordBatch)
                steps |= {(step.program, step.rank, step.step) for step in batch.steps}
    return steps


def test_what_agents_had_found_is_recovered(start: Start, heat4: Path) -> None:
    run = start("--replay", heat4 / "*.bp", "--pace", "2", "--transport", "files", "--no-dashboard")
    run.wait_until(lambda: bool(run.health_so_far) and len(run.anomalies) > 3)
    os.kill(run.service(STORE), signal.SIGSTOP)
    stored = len(run.anomalies)
    ((_, left),) = left_behind(RunDirectory(run.folder))
    run.wait_until(lambda: len(in_spools(Path(left.folder))) > 40)
    kill_everything(run)
    make_older(run)
    # A reader may have begun one more step by then.
    waiting = in_spools(Path(left.folder))

    listed = chimbuko("runs", "list", cwd=run.folder.parent)
    assert listed.returncode == 0
    (run.folder.parent / "chimbuko-runs").mkdir()
    (run.folder.parent / "chimbuko-runs" / "heat").symlink_to(run.folder)
    listed = chimbuko("runs", "list", cwd=run.folder.parent)
    assert "died" in listed.stdout
    assert "the run died" in listed.stderr
    (command,) = [line.partition(" do: ")[2] for line in listed.stderr.splitlines() if " do: " in line]
    for verb in (["query", run.folder], ["show", run.folder, run.anomalies[0].id]):
        reported = chimbuko(*verb)
        assert command.partition(" ")[2].rpartition(" ")[2] in reported.stderr and reported.returncode == 0

    words = shlex.split(command)
    assert words[:3] == ["chimbuko", "runs", "deliver"]
    assert chimbuko(*words[1:]).returncode == 0
    found = assert_all_stored(run)
    with open_run(RunDirectory(run.folder)) as provenance:
        in_store = {(step.program, step.rank, step.step) for step in provenance.steps.counts()}
        assert [health.rank for health in provenance.health()] == [0, 1, 2, 3]
        counted = {function.name: function.anomalies for function in provenance.function_statistics()}
    # What the server had merged in its last second may be lost with it.
    assert 0 < sum(counted.values()) <= found and RunDirectory(run.folder).model_path.exists()
    print(f"{stored} stored before, {found} after; {len(waiting)} steps waited")
    assert waiting <= in_store and found > stored
    again = chimbuko("query", run.folder)
    assert " do: " not in again.stderr and "the run died" in again.stderr
    assert chimbuko(*words[1:]).returncode == 0
    assert assert_all_stored(run) == found
    with open_run(RunDirectory(run.folder)) as provenance:
        assert counted == {f.name: f.anomalies for f in provenance.function_statistics()}
    subprocess.run(["rm", "-r", left.folder], check=True)


def test_the_dashboard_over_a_run_that_died(start: Start) -> None:
    run = start("--no-dashboard", "--", "sleep", "100")
    # The program begins before there is a store.
    run.wait_until(lambda: RunDirectory(run.folder).alive_path.exists())
    kill_everything(run)
    make_older(run)
    view = subprocess.Popen(
        [*CHIMBUKO, "view", str(run.folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert view.stdout is not None
    assert view.stdout.readline().startswith("the address is in ")
    # A closed terminal ends it.
    view.send_signal(signal.SIGHUP)
    assert "the run died" in view.communicate(timeout=PATIENCE_S)[1]
    assert view.returncode == 0


HOME = """
import sys
from pathlib import Path
from typing import Any
from tests.integration.test_died_runs import begin_elsewhere
begin_elsewhere(Path(sys.argv[1]), sys.argv[2])
"""


def begin_elsewhere(folder: Path, pattern: str) -> None:
    """A run whose folder passes for one on a network file system; it never ends."""
    vars(storeplace)["is_on_network"] = lambda folder: True
    config = AnalysisConfig(lockstep=True)
    recorded = find_recorded([pattern])
    run = new_run(folder, ["--trace"], config, None)
    problems: list[str] = []
    readers = AgentOptions(config, "node", ("agent-0",), recorded=recorded)
    options = ServiceOptions(config, lockstep_streams=4, has_dashboard=False)
    with (
        Services(run, options, problems) as served,
        Agents(run, run.read_info().id, readers, served.broker_url, problems) as agents,
    ):
        while agents.is_analysing:
            served.look_after()
        print("analysed", flush=True)
        time.sleep(100)


@pytest.mark.thorough
def test_a_store_that_was_on_local_storage_is_brought_home(
    heat4: Path, heat4_live: Outcome, tmp_path: Path
) -> None:
    folder = tmp_path / "chimbuko-runs" / "heat"
    leader = subprocess.Popen(
        [sys.executable, "-c", HOME, str(folder), str(heat4 / "*.bp")], stdout=subprocess.PIPE, text=True
    )
    assert leader.stdout is not None and leader.stdout.readline() == "analysed\n"
    run = Outcome(folder)
    for pid in (leader.pid, *descendants(leader.pid)):
        os.kill(pid, signal.SIGKILL)
    leader.communicate()
    make_older(run)  # type: ignore[arg-type]
    reported = chimbuko("runs", "list", cwd=tmp_path).stderr
    commands = [line.partition(" do: ")[2] for line in reported.splitlines() if " do: " in line]
    assert len(commands) == 2
    for command in commands:
        assert chimbuko(*shlex.split(command)[1:]).returncode == 0
        subprocess.run(["rm", "-r", shlex.split(command)[-1]], check=True)
    assert RunDirectory(folder).store_path.exists()
    with open_run(RunDirectory(folder)) as provenance:
        assert {call.id for call in all_anomalies(provenance)} == heat4_live.ids
    assert " do: " not in chimbuko("runs", "list", cwd=tmp_path).stderr


@pytest.mark.thorough
def test_nothing_is_said_of_a_run_that_ended(heat4_run: Outcome) -> None:
    assert "died" not in chimbuko("query", heat4_run.folder).stderr
    assert left_behind(RunDirectory(heat4_run.folder)) == []


@pytest.mark.parametrize("host", ["another-node"])
def test_the_host_of_what_is_left_is_said(start: Start, host: str) -> None:
    run = start("--no-dashboard", "--", "true")
    assert run.end() == 0
    note = RunDirectory(run.folder).scratch_note("agents-another-node")
    note.write_bytes(msgspec.json.encode({"host": host, "folder": "/tmp/somewhere"}))
    assert f"on {host}, do: chimbuko runs deliver" in chimbuko("query", run.folder).stderr
