"""What agents could not deliver is stored afterwards, from any node."""

from __future__ import annotations

import platform
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from chimbuko.ad.handoff.spool import SpoolWriter
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.cli.maintain.deliver import command
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.errors import ConfigError
from chimbuko.launcher.outcome.recovery import recovery_lines
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory, new_run
from chimbuko.runtime.runs.scratch import Left
from tests.ad.handoff.test_spool import append
from tests.launcher.outcome.test_leftstatistics import SCHEMA, counted, delta, end_with, leave_deltas


@pytest.fixture
def ended(tmp_path: Path) -> RunDirectory:
    run = new_run(tmp_path / "heat", ["./app"], AnalysisConfig(), None)
    run.write_info(msgspec.structs.replace(run.read_info(), state="interrupted", host="node0"))
    return run


def leave(run: RunDirectory, node: str, folder: Path, left: Left, anomalies: int = 2) -> None:
    """An agent of a node has found something, and left it there."""
    writer = SpoolWriter(folder / "agent" / "0-3" / "spool", "0:3", 1 << 20)
    for step in range(anomalies):
        append(writer, step, 5.0)
    run.scratch_note(f"agents-{node}").write_bytes(msgspec.json.encode(left))


def stored(run: RunDirectory) -> int:
    with open_run(run) as provenance:
        return provenance.calls.count(CallFilter())


def deliver(*words: Path) -> str:
    done = CliRunner().invoke(command, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stderr


def test_what_was_rescued_is_stored_and_forgotten(ended: RunDirectory) -> None:
    leave(ended, "node2", ended.rescued("node2"), Left("node2", "/tmp/gone", is_rescued=True))
    (line,) = recovery_lines(ended, ended.read_info())
    assert "what was found on node2 waits in its folder" in line and line.endswith(
        f"do: chimbuko runs deliver {ended.path}"
    )
    assert "2 records of 1 stream stored" in deliver(ended.path)
    assert stored(ended) == 2
    assert recovery_lines(ended, ended.read_info()) == [] and not ended.rescued("").exists()
    with pytest.raises(ConfigError, match="nothing is left to be stored"):
        deliver(ended.path)


def test_what_is_here_is_stored_and_what_is_elsewhere_is_named(ended: RunDirectory, tmp_path: Path) -> None:
    here = tmp_path / "scratch"
    leave(ended, "here", here, Left(platform.node(), str(here)))
    leave(ended, "node2", tmp_path / "elsewhere", Left("node2", "/tmp/elsewhere"))
    said = deliver(ended.path)
    assert f"{here} can be removed" in said
    assert f"more is left on node2; there, do: chimbuko runs deliver {ended.path} /tmp/elsewhere" in said
    assert stored(ended) == 2 and here.is_dir()


def test_while_a_newer_store_is_on_another_node_what_was_rescued_stays(ended: RunDirectory) -> None:
    """That store, brought home later, does not have it."""
    services = Left("node0", "/tmp/chimbuko-services")
    ended.scratch_note("services").write_bytes(msgspec.json.encode(services))
    leave(ended, "node2", ended.rescued("node2"), Left("node2", "/tmp/gone", is_rescued=True))
    for _ in range(2):
        deliver(ended.path)
        assert stored(ended) == 2
    ended.scratch_note("services").unlink()
    deliver(ended.path)
    assert stored(ended) == 2 and not ended.rescued("").exists()


def test_statistics_are_merged_once(ended: RunDirectory, tmp_path: Path) -> None:
    statistics = AgentStatistics("agent", 7, SCHEMA)
    first, second, third = (delta(statistics, step, 10 * step) for step in (1, 2, 3))
    end_with(ended, first)
    leave_deltas(ended.rescued("node2"), second)
    leave_deltas(tmp_path / "scratch", second, third)
    ended.scratch_note("agents-node2").write_bytes(
        msgspec.json.encode(Left("node2", "/tmp/gone", is_rescued=True))
    )
    deliver(ended.path)
    assert counted(ended) == (2, 20.0) and not ended.rescued("").exists()
    for _ in range(2):
        deliver(ended.path, tmp_path / "scratch")
        assert counted(ended) == (3, 30.0)
    assert b"solve" in ended.read_report()


def test_without_what_the_server_knew_no_statistics_are_touched(ended: RunDirectory, tmp_path: Path) -> None:
    statistics = AgentStatistics("agent", 7, SCHEMA)
    first, second = (delta(statistics, step, 10 * step) for step in (1, 2))
    end_with(ended, first)
    ended.statistics_paths(1)[0].unlink()
    leave_deltas(tmp_path / "scratch", second)
    deliver(ended.path, tmp_path / "scratch")
    with open_run(ended) as provenance:
        assert [function.calls for function in provenance.function_statistics()] == [1]
