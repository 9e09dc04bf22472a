"""Database servers that a run's folder names, and its user has not."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from chimbuko.cli import main
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.errors import ConfigError
from chimbuko.runtime.runs.directory import RunDirectory, new_run, write_secret
from chimbuko.runtime.runs.namedstores import STATE_VARIABLE, STORE_VARIABLE

VERBS = (
    *("query {0}", "report {0} -o report.html", "view {0} --port 0", "sql {0}", "compare {0} {0}"),
    *("runs list", "runs delete {0} --yes", "runs rename {0} other", "runs archive {0} -o packed.tar.xz"),
)


@pytest.fixture
def strangers_server() -> Iterator[socket.socket]:
    """A server that notes by its backlog whether anybody came."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        yield server


@pytest.fixture
def foreign(tmp_path: Path, strangers_server: socket.socket) -> RunDirectory:
    """A run whose store is a server of somebody else, in a folder that was unpacked."""
    url = f"postgresql://127.0.0.1:{strangers_server.getsockname()[1]}/runs"
    run = new_run(tmp_path / "chimbuko-runs" / "foreign", ["./heat"], AnalysisConfig(), url)
    run.write_info(msgspec.structs.replace(run.read_info(), state="finished", ended_us=1))
    write_secret(run.store_url_path, url)
    return run


@pytest.mark.parametrize("verb", VERBS)
def test_nobody_logs_in_where_only_a_folder_says_so(
    verb: str, foreign: RunDirectory, strangers_server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(foreign.path.parent.parent)
    monkeypatch.delenv(STORE_VARIABLE, raising=False)
    result = CliRunner().invoke(main, verb.format(foreign.path).split())
    assert "names a database that you have not named yet" in result.stderr
    assert result.exit_code == (0 if verb == "runs list" else 2)
    with pytest.raises(BlockingIOError):
        strangers_server.accept()


def test_a_store_is_asked_that_its_user_named(foreign: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STORE_VARIABLE, raising=False)
    info = foreign.read_info()
    with pytest.raises(ConfigError, match="a database that you have not named yet"):
        foreign.used_store_url(info)
    monkeypatch.setenv(STORE_VARIABLE, "postgresql://mine/runs")
    assert foreign.used_store_url(info) == "postgresql://mine/runs"
    monkeypatch.delenv(STORE_VARIABLE)
    foreign.write_store_url(info.store_url)
    assert foreign.used_store_url(info) == info.store_url
    assert STORE_VARIABLE not in os.environ


def test_a_store_is_known_to_a_run_whose_user_has_no_home(
    foreign: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, "/proc/nowhere")
    monkeypatch.setenv(STORE_VARIABLE, "")
    info = foreign.read_info()
    with pytest.raises(ConfigError, match="have not named yet"):
        foreign.used_store_url(info)
    foreign.write_store_url(info.store_url)
    assert foreign.used_store_url(info) == os.environ[STORE_VARIABLE] == info.store_url


def test_a_folder_without_a_store_names_no_other_file(tmp_path: Path) -> None:
    run = new_run(tmp_path / "heat", [], AnalysisConfig(), f"sqlite:///{tmp_path}/mine.sqlite")
    assert run.used_store_url(run.read_info()) == run.store_url
