"""A phase whose analysis is where an earlier one advises."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from chimbuko.cli.observe.workflow import command as workflow
from chimbuko.core.errors import ChimbukoError, ConfigError
from chimbuko.observe.workflow.advice import advising_run, make_room
from chimbuko.observe.workflow.machines import ThisMachine, machine_of
from chimbuko.observe.workflow.task import Node, Resources, Task
from chimbuko.provenance.query.placing import advised_cores
from chimbuko.runtime.protocol.telemetry import AgentFigures, AgentLoad
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import Command
from tests.viz.made_run import make_run

MACHINE = ThisMachine(Node("here", (0, 1, 2, 3)), ["mpirun"])


def tasks(*cores: int) -> list[Task]:
    """One each."""
    return [Task(f"t{count}", ("true",), (), Resources(1, count, 1), 0) for count in cores]


def test_tasks_get_the_other_cores_where_each_has_room() -> None:
    assert [node.cores for node in make_room(MACHINE, tasks(1, 3), {3}).nodes] == [(0, 1, 2)]
    assert make_room(MACHINE, tasks(1, 4), {3}) is MACHINE
    assert make_room(MACHINE, tasks(1), ()) is MACHINE
    job = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_CPUS_PER_NODE": "4(x2)", "SLURMD_NODENAME": "n1"}
    of_slurm = machine_of(job, ["mpirun"], is_exclusive=False)
    assert make_room(of_slurm, tasks(1), {3}) is of_slurm


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """The folder of a workflow whose agent had large steps: shorter ones are advised."""
    run = make_run(tmp_path / "made")
    loads = [AgentLoad(10.0, 1, 10, 1_000_000, 480_000_000, 0.9, 0.05)]
    figures = AgentFigures("node1", 1, 80_000_000, 12.5, 4_096, 0.4, loads)
    named = {name: getattr(figures, name) for name in figures.__struct_fields__}
    report = {"slow_ranks": [], "analysis": {"agents": {"a": named}, "streams": []}, "version": 1}
    run.directory.report_path.write_bytes(gzip.compress(msgspec.json.encode(report)))
    shutil.move(run.directory.path, tmp_path / "first" / "run")
    return tmp_path / "first"


def test_the_folder_of_a_workflow_has_a_run(earlier: Path) -> None:
    assert advising_run(earlier).path == advising_run(earlier / "run").path == earlier / "run"
    assert advised_cores(advising_run(earlier)) <= set(range(1024))


@pytest.mark.thorough
def test_a_workflow_follows_it(earlier: Path, tmp_path: Path) -> None:
    text = '[analysis]\nadvised = "first"\noptions = ["--no-dashboard"]\n'
    text += '[[task]]\nname = "t"\ncommand = "true"\n'
    (tmp_path / "w.toml").write_text(text)
    command = Command("workflow", tmp_path / "w.toml", "-o", tmp_path / "out")
    assert command.end() == 0, command.output
    assert "advises: --period 0.1 --transport" in command.output
    assert RunDirectory(tmp_path / "out" / "run").read_info().config.period_us == 100_000


def test_the_command_line_wins_over_the_file_and_a_check_reads_it(earlier: Path, tmp_path: Path) -> None:
    file = tmp_path / "w.toml"
    task = '[[task]]\nname = "t"\ncommand = "true"\n'
    file.write_text(f'[analysis]\nadvised = "no"\n{task}')
    checked = CliRunner().invoke(workflow, [str(file), "--check", "--advised", str(earlier)])
    assert checked.exit_code == 0 and "1 task can run on 1 node" in checked.output
    with pytest.raises(ChimbukoError, match=str(tmp_path / "no")):
        CliRunner().invoke(workflow, [str(file), "--check"], catch_exceptions=False)
    file.write_text(task)
    with pytest.raises(ConfigError, match="--advised: the workflow has no analysis"):
        CliRunner().invoke(
            workflow, [str(file), "--check", "--advised", str(earlier)], catch_exceptions=False
        )


@pytest.mark.thorough
def test_without_such_a_run_there_is_no_phase(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text('[analysis]\nadvised = "no"\n[[task]]\nname = "t"\ncommand = "true"\n')
    command = Command("workflow", tmp_path / "w.toml", "-o", tmp_path / "out")
    assert command.end() != 0
    assert str(tmp_path / "no") in command.lines[-1] and not (tmp_path / "out").exists()
