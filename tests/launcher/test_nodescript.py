"""The script that starts a program on a node, run by the system's shell."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest

from chimbuko.capture.trace.discovery import Transport
from chimbuko.launcher.nodescript import LONGEST_WAIT_S, leave_mark, node_command
from chimbuko.runtime.runs.directory import AGENT_MARK, COMING_MARK

SETTINGS = {"TAU_ADIOS2_ENGINE": "SST", "TAU_ADIOS2_FILENAME": "elsewhere", "ODD": 'it\'s $HOME "quoted"'}
BOTH = {Transport.SST: SETTINGS, Transport.FILES: SETTINGS | {"TAU_ADIOS2_ENGINE": "BP5"}}
PRINT = 'echo "$ODD|$TAU_ADIOS2_ENGINE|$TAU_ADIOS2_FILENAME|$1"; exit 9'


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """In a folder whose name a shell must be told with care, with agents on two nodes."""
    streams = tmp_path / "it's a $(date) folder"
    for node in (platform.node(), "container"):
        (streams / node).mkdir(parents=True)
        leave_mark(streams / node, Transport.SST)
    path = tmp_path / "node"
    path.write_text(node_command(BOTH, streams))
    path.chmod(0o700)
    return path


def run(script: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CHIMBUKO_")}
    return subprocess.run(
        [script, *words], capture_output=True, text=True, check=False, env=environment | variables
    )


def test_the_program_gets_settings_and_the_folder_of_its_node(script: Path, tmp_path: Path) -> None:
    command = ["sh", "-c", PRINT, "sh", "two words"]
    streams = tmp_path / "it's a $(date) folder"
    for transport, engine in ((Transport.SST, "SST"), (Transport.FILES, "BP5")):
        for node, variables in ((platform.node(), {}), ("container", {"CHIMBUKO_NODE": "container"})):
            leave_mark(streams / node, transport)
            done = run(script, *command, **variables)
            prefix = streams / node / "tau-metrics"
            assert done.stdout == f"{SETTINGS['ODD']}|{engine}|{prefix}|two words\n"
            assert done.returncode == 9 and done.stderr == ""
            assert not (streams / node / ".agent").exists()


def test_it_waits_for_the_agent_but_not_for_ever(script: Path, tmp_path: Path) -> None:
    """With a clock that runs faster."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sleep").symlink_to("/bin/true")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = run(script, "sh", "-c", 'echo "begun over $TAU_ADIOS2_ENGINE"', CHIMBUKO_NODE="lonely", PATH=path)
    # Nobody would read its files.
    assert done.stdout == "begun over SST\n"
    assert "no agent has come to lonely" in done.stderr
    folder = tmp_path / "it's a $(date) folder" / "lonely"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_it_stays_while_the_agent_gives_signs(script: Path, tmp_path: Path) -> None:
    """Its kernels are compiled, far longer than it would wait for one of whom nothing is heard."""
    streams = tmp_path / "it's a $(date) folder" / "busy"
    streams.mkdir()
    (tmp_path / "bin").mkdir()
    sleep = tmp_path / "bin" / "sleep"
    sleep.write_text(
        f"""#!/bin/sh
        sign=$(($(cat "$STREAMS/{COMING_MARK}" 2>/dev/null || echo 0) + 1))
        if [ "$sign" -gt {LONGEST_WAIT_S * 10} ]; then echo files >"$STREAMS/{AGENT_MARK}"; fi
        echo $sign >"$STREAMS/{COMING_MARK}"
        """
    )
    sleep.chmod(0o700)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    variables = {"CHIMBUKO_NODE": "busy", "PATH": path, "STREAMS": str(streams)}
    done = run(script, "sh", "-c", 'echo "begun over $TAU_ADIOS2_ENGINE"', **variables)
    assert (done.stdout, done.stderr) == ("begun over BP5\n", "")


def test_the_shell_is_any(script: Path) -> None:
    subprocess.run(["sh", "-n", script], check=True)
