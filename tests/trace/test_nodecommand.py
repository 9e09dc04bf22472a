"""The script that starts a program on a node, run by the system's shell."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest

from chimbuko.trace.nodecommand import AGENT_MARK, node_command

SETTINGS = {"TAU_ADIOS2_ENGINE": "SST", "TAU_ADIOS2_FILENAME": "elsewhere", "ODD": 'it\'s $HOME "quoted"'}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """In a folder whose name a shell must be told with care, with agents on two nodes."""
    streams = tmp_path / "it's a $(date) folder"
    for node in (platform.node(), "container"):
        (streams / node).mkdir(parents=True)
        (streams / node / AGENT_MARK).touch()
    path = tmp_path / "node"
    path.write_text(node_command(SETTINGS, streams))
    path.chmod(0o700)
    return path


def run(script: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CHIMBUKO_")}
    return subprocess.run(
        [script, *words], capture_output=True, text=True, check=False, env=environment | variables
    )


def test_the_program_gets_settings_and_the_folder_of_its_node(script: Path, tmp_path: Path) -> None:
    command = [
        "sh",
        "-c",
        'echo "$ODD|$TAU_ADIOS2_ENGINE|$TAU_ADIOS2_FILENAME|$1"; exit 9',
        "sh",
        "two words",
    ]
    for node, variables in ((platform.node(), {}), ("container", {"CHIMBUKO_NODE": "container"})):
        done = run(script, *command, **variables)
        prefix = tmp_path / "it's a $(date) folder" / node / "tau-metrics"
        assert done.stdout == f"{SETTINGS['ODD']}|SST|{prefix}|two words\n"
        assert done.returncode == 9 and done.stderr == ""


def test_it_waits_for_the_agent_but_not_for_ever(script: Path, tmp_path: Path) -> None:
    """With a clock that runs faster."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sleep").symlink_to("/bin/true")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = run(script, "echo", "begun", CHIMBUKO_NODE="lonely", PATH=path)
    assert done.stdout == "begun\n"
    assert "no agent has come to lonely" in done.stderr
    folder = tmp_path / "it's a $(date) folder" / "lonely"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_shell_is_any(script: Path) -> None:
    subprocess.run(["sh", "-n", script], check=True)
