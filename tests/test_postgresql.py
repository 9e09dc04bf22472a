"""What a killed test leaves of its PostgreSQL server is removed by the next one that starts a server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chimbuko.monitor.sampling.identity import start_ticks_of
from tests.patience import PATIENCE_S
from tests.places import ROOT
from tests.postgresql import PREFIX, PostgresqlServer, left_behind

SERVER = """
from tests.postgresql import PostgresqlServer
print(PostgresqlServer().folder, flush=True)
input()
"""


def test_folders_of_dead_processes_are_left_and_those_of_others_are_not(
    postgresql: PostgresqlServer, tmp_path: Path
) -> None:
    own = f"{os.getpid()}.{start_ticks_of(os.getpid())}"
    names = [f"{own}-lives", f"{os.getpid()}.1-again", "4194305.1-dead", "4194305.1-another's", "odd"]
    for name in names:
        (tmp_path / f"{PREFIX}{name}").mkdir()
        if "another" not in name:
            shutil.chown(tmp_path / f"{PREFIX}{name}", "postgres")
    found = {folder.name.removeprefix(PREFIX) for folder in left_behind(tmp_path)}
    assert found == {names[1], names[2]}
    assert postgresql.folder not in left_behind()


@pytest.mark.thorough
def test_a_server_whose_process_was_killed_is_ended(postgresql: PostgresqlServer) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    server = int((folder / "data" / "postmaster.pid").read_text().split()[0])
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    assert folder in left_behind()
    PostgresqlServer().remove()
    assert not folder.exists()
    assert start_ticks_of(server) is None
