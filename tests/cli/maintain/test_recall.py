"""``chimbuko runs recall`` with nothing to recall; tests/integration/test_hang.py has a real run."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chimbuko.cli import main
from chimbuko.core.config import AnalysisConfig
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.runs.directory import RunDirectory, new_run
from tests.sample_records import make_batches, make_record


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = new_run(tmp_path / "heat", ["./heat"], AnalysisConfig(), None)
    info = run.read_info()
    engine = open_for_writing(info.store_url)
    writer = Writer(engine, info.id)
    writer.write_run(info)
    writer.write(make_batches([make_record()]))
    engine.dispose()
    return run


def recall(run: RunDirectory, *options: str | Path) -> Result:
    return CliRunner().invoke(main, ["runs", "recall", str(run.path), *map(str, options)])


def test_run_that_has_ended_has_no_recorders(run: RunDirectory, tmp_path: Path) -> None:
    result = recall(run, "--around", "0:1:3:0", "-o", tmp_path / "moment")
    assert result.exit_code == 2
    assert "the run has ended" in result.stderr
    assert not (tmp_path / "moment").exists()


def test_broker_that_is_gone_is_said_without_its_password(run: RunDirectory, tmp_path: Path) -> None:
    run.broker_path.write_text("redis://:secret@127.0.0.1:1/0")
    result = recall(run, "--around", "0:1:3:0", "-o", tmp_path / "moment")
    assert result.exit_code == 4
    assert "127.0.0.1:1 cannot be used" in result.stderr
    assert "secret" not in result.output
