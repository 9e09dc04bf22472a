"""The program starts and goes on, whatever becomes of the analysis around it in its first second."""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path

import pytest

from chimbuko.capture.follow.space import MEMORY
from chimbuko.launcher.application import TITLE
from chimbuko.launcher.liverun import MOST_STARTS
from chimbuko.runtime.protocol.broker import connect
from chimbuko.runtime.protocol.runbroker import RunKeys
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import AGENT, BROKER, READER, SERVER, STORE, Command, Run, Start
from tests.integration.farm import SERVICES as SERVICES_NODE
from tests.integration.farm import Farm, Started, kill_early
from tests.integration.marked import RANKS, STEPS
from tests.integration.namespaces import Network, NotPermitted
from tests.integration.test_faults import assert_nothing_lost
from tests.thorough import first

pytestmark = pytest.mark.cold

CODE = 7
"""Exit code of the program."""
SERVICES = "chimbuko.launcher.services.together"
"""Server and writer of the store."""
GUARD = "chimbuko.capture.follow.guard"
OF_WORKFLOW = "chimbuko serve", "chimbuko namespaces serve", BROKER, "tlsdoor", "chimbuko agent", GUARD, AGENT
"""Parts beside the tasks of a workflow, with services and agents as on many nodes."""
OF_NODES = [
    *((SERVICES_NODE, module) for module in (SERVER, STORE, BROKER, "tlsdoor")),
    *((1, module) for module in (AGENT, GUARD, READER, "chimbuko agent")),
]
"""Parts of a run on many nodes, each with the node that it is on."""
DELAYS_S = [0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0]
"""Times from the appearance of a process to its death."""


def program(folder: Path, calls: int = 200) -> list[str | Path]:
    """A traced program of two seconds, with an exit code of its own."""
    script = folder / "traced.py"
    script.write_text(
        "import sys, time\n"
        "def work(): time.sleep(0.01)\n"
        f"for _ in range({calls}): work()\n"
        f"open({str(folder / 'ended')!r}, 'w').close()\n"
        f"sys.exit({CODE})\n"
    )
    return [sys.executable, "-m", "chimbuko", "trace", script]


def left_in_memory(run: Run) -> set[Path]:
    """Folders of the run's streams that are still there."""
    return {path for path in MEMORY.glob("chimbuko-*") if run.info.id in path.name}


@pytest.mark.parametrize(
    ("module", "after_s"),
    first(4, [(module, after_s) for after_s in DELAYS_S for module in (BROKER, GUARD, SERVICES, AGENT)]),
)
def test_the_program_runs_and_is_analysed_where_a_part_is_killed_at_its_start(
    start: Start, tmp_path: Path, module: str, after_s: float
) -> None:
    run = start("--no-dashboard", "--", *program(tmp_path))
    kill_early(run.process, module, after_s)
    assert run.end() == CODE, run.output
    assert (tmp_path / "ended").exists(), run.output
    assert "Traceback" not in run.output
    assert run.info.state == "finished", run.output
    assert run.info.exit_code == CODE
    (stream,) = run.health
    assert (stream.state, stream.gap_steps) == ("ended", 0), run.output
    assert stream.calls >= 200, run.output
    assert left_in_memory(run) == set()


@pytest.mark.parametrize(
    ("module", "after_s"), first(1, [(module, after_s) for after_s in DELAYS_S for module in OF_WORKFLOW])
)
def test_the_tasks_of_a_workflow_run_where_a_part_is_killed_at_its_start(
    tmp_path: Path, module: str, after_s: float
) -> None:
    words = ", ".join(f'"{word}"' for word in program(tmp_path))
    text = '[analysis]\noptions = ["--no-dashboard"]\n[[task]]\nname = "simulate"\ncommand = '
    (tmp_path / "w.toml").write_text(f"{text}[{words}]\n")
    workflow = Command("workflow", tmp_path / "w.toml", "-o", tmp_path / "out")
    kill_early(workflow.process, module, after_s)
    assert workflow.end() == CODE, workflow.output
    assert (tmp_path / "ended").exists(), workflow.output
    assert "Traceback" not in workflow.output
    assert "202 calls of 1 rank" in workflow.output or "the tasks run without analysis" in workflow.output


@pytest.mark.parametrize(
    ("node", "module", "after_s"),
    first(1, [(node, module, after_s) for after_s in DELAYS_S for node, module in OF_NODES]),
)
def test_nothing_is_lost_where_a_part_on_many_nodes_is_killed_at_its_start(
    marked: Path, tmp_path: Path, node: int, module: str, after_s: float
) -> None:
    """Server and writer are processes of their own there."""

    def strike(number: int, process: Started) -> None:
        if number == node:
            threading.Thread(target=kill_early, args=(process, module, after_s), daemon=True).start()

    streams = sorted(marked.glob("*.bp"))
    parts = [streams[::2], streams[1::2]]
    options = "--period", "0.2", "--store-writers", "2"
    try:
        with Network(3) as network, Farm(network, tmp_path / "run", parts, *options, strike=strike) as farm:
            farm.end()
            assert_nothing_lost(farm, marked)
            assert sum(stream.steps for stream in farm.health) == RANKS * STEPS
            assert "Traceback" not in farm.output
    except NotPermitted as reason:
        pytest.skip(f"no network namespaces here: {reason}")


@pytest.mark.parametrize("after_s", first(1, DELAYS_S))
def test_the_program_runs_where_the_launcher_is_killed_as_it_starts_the_analysis(
    start: Start, tmp_path: Path, after_s: float
) -> None:
    run = start("--no-dashboard", "--", *program(tmp_path))
    kill_early(run.process, BROKER, 0.0)
    kill_early(run.process, TITLE, after_s)
    assert run.end() == CODE, run.output
    assert (tmp_path / "ended").exists(), run.output
    if run.info.state != "finished":
        assert "the analysis has ended early (signal 9)" in run.output
        assert run.info.exit_code == CODE


@pytest.mark.parametrize("after_s", first(2, [0.0, 0.05, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2]))
def test_the_program_runs_where_the_launcher_is_killed_before_it_has_begun_that(
    start: Start, tmp_path: Path, after_s: float
) -> None:
    run = start("--no-dashboard", "--", *program(tmp_path))
    kill_early(run.process, TITLE, after_s)
    assert run.end() == CODE, run.output
    assert (tmp_path / "ended").exists(), run.output
    assert "Traceback" not in run.output
    assert run.info.exit_code == CODE


def test_the_program_runs_without_analysis_where_that_cannot_begin(start: Start, tmp_path: Path) -> None:
    run = start("--no-dashboard", "--store", "postgresql://127.0.0.1:9/none", "--", *program(tmp_path))
    assert run.end() == CODE, run.output
    assert (tmp_path / "ended").exists(), run.output
    assert run.output.count("the analysis could not begin, and is started again: ") == MOST_STARTS - 1
    assert "the program runs without analysis: " in run.output
    assert "Traceback" not in run.output
    assert (run.info.state, run.info.exit_code) == ("failed", CODE)
    assert left_in_memory(run) == set()


def test_the_program_runs_where_the_folder_of_the_run_is_moved_as_it_starts(
    start: Start, tmp_path: Path
) -> None:
    run = start("--no-dashboard", "--", *program(tmp_path))
    run.wait_until(lambda: (run.folder / "logs" / "broker.log").exists(), pause_s=0.002)
    shutil.move(run.folder, tmp_path / "elsewhere")
    assert run.end() == CODE, run.output
    assert (tmp_path / "ended").exists(), run.output


def test_an_agent_whose_connection_fails_in_a_way_that_nobody_thought_of_has_another_after_it(
    start: Start, tmp_path: Path
) -> None:
    """It would read on, and nothing that it found would arrive any more."""
    run = start("--no-dashboard", "--transport", "files", "--", *program(tmp_path, calls=600))
    run.wait_until(lambda: sum(stream.steps for stream in run.health_so_far) > 0)
    budgets = RunKeys(run.info.id).budgets
    with connect(RunDirectory(run.folder).broker_path.read_text()) as client:

        def has_another() -> bool:
            client.hset(budgets, "0", "no number")
            return "agent-0 ended early and was started again" in run.output

        run.wait_until(has_another)
        client.hdel(budgets, "0")
    assert run.end() == CODE, run.output
    assert "ValueError" in (run.folder / "logs" / "agent-0.log").read_text()
    (stream,) = run.health
    assert (stream.state, stream.gap_steps, stream.calls) == ("ended", 0, 602), run.output
