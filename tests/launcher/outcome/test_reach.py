"""How a run is looked into from a node that does not have its store."""

from __future__ import annotations

import platform
from pathlib import Path

import msgspec
import pytest

from chimbuko.core.config import AnalysisConfig
from chimbuko.core.errors import StoreError
from chimbuko.launcher.outcome.reach import reach
from chimbuko.runtime.runs.directory import RunDirectory, new_run


@pytest.fixture
def elsewhere(tmp_path: Path) -> RunDirectory:
    """A run whose services, and its store, were on another node."""
    run = new_run(tmp_path / "heat", ["./app"], AnalysisConfig(), None)
    info = run.read_info()
    store = f"sqlite:////tmp/chimbuko-{info.id}-services/{run.store_path.name}"
    run.write_info(msgspec.structs.replace(info, host="node7", store_url=store))
    return run


def test_without_a_copy_the_node_that_has_the_store_is_named(elsewhere: RunDirectory) -> None:
    with pytest.raises(StoreError, match=r"its store is on node7, and no copy of it is in .*heat yet"):
        reach(elsewhere)


def test_of_a_copy_it_is_said_of_what_time_it_is(
    elsewhere: RunDirectory, capfd: pytest.CaptureFixture[str]
) -> None:
    elsewhere.store_path.touch()
    reach(elsewhere)
    assert "its store is on node7; this is the copy, of " in capfd.readouterr().err


@pytest.mark.parametrize("host", [platform.node(), "node7"])
def test_nothing_is_said_of_a_store_in_the_folder_of_the_run(
    host: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = new_run(tmp_path / "heat", ["./app"], AnalysisConfig(), None)
    run.write_info(msgspec.structs.replace(run.read_info(), host=host))
    reach(run)
    assert capfd.readouterr().err == ""
