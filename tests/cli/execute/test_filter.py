"""``chimbuko filter`` on a run of a traced program, which is then traced with its advice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chimbuko.capture.trace.reader import StreamReader
from chimbuko.capture.trace.tausettings import SELECT_FILE_NAME, SST_TIMERS, TimerFilter
from chimbuko.cli import main
from chimbuko.core.traceschema import TraceStep
from chimbuko.runtime.runs.directory import RunDirectory
from tests.instrument.tracer.traced_program import environment

PROGRAM = """
import time
def norm(x):
    return x * x
def solve():
    for x in range(40):
        norm(x)
    time.sleep(0.0005)
for _ in range(200):
    solve()
"""


def trace(folder: Path, **variables: str) -> int:
    """Run the program traced; rows of its stream."""
    (folder / "app.py").write_text(PROGRAM)
    prefix = str(folder / "tau-metrics")
    subprocess.run(
        [sys.executable, "-m", "chimbuko", "trace", "--overhead", "100%", "app.py"],
        cwd=folder,
        env=environment(TAU_ADIOS2_FILENAME=prefix, **variables),
        check=True,
    )
    rows = 0
    with StreamReader(folder / "tau-metrics-app-0.bp", "BPFile") as reader:
        while isinstance(step := reader.next_step(10), TraceStep):
            rows += step.rows
    return rows


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the program's stream and a run that analysed it."""
    folder = tmp_path_factory.mktemp("filter")
    trace(folder)
    # On a busy machine one of the short calls is held up, and would be a reason to keep its function.
    words = ["run", "--trace", str(folder / "*.bp"), "--output", str(folder / "run"), "--min-anomaly", "10s"]
    subprocess.run([sys.executable, "-m", "chimbuko", *words], check=True, capture_output=True)
    return folder


def ask(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(main, ["filter", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result


def test_advice_saves_what_it_says(analysed: Path, tmp_path: Path) -> None:
    advice = json.loads(ask(analysed / "run", "--json", "-o", tmp_path / "select").stdout)
    assert [f["name"].partition(" ")[0] for f in advice["functions"] if f["is_excluded"]] == ["norm"]
    assert advice["saved_rows"] == 2 * 200 * 40
    rows = trace(tmp_path, TAU_ADIOS2_SELECT_FILE=str(tmp_path / "select"))
    # On a busy machine more calls last a millisecond, and what is counted in each are some rows.
    assert rows == pytest.approx(advice["rows"] - advice["saved_rows"], abs=200)


def test_table_and_summary_for_people(analysed: Path, tmp_path: Path) -> None:
    result = ask(analysed / "run", "--limit", "1", "-o", tmp_path / "select")
    title, norm = result.stdout.splitlines()
    assert title.split()[0] == "CALLS"
    assert norm.split()[0] == "8,000"
    assert "exclude  norm [{" in norm
    assert "leaving out 1 of them saves 9" in result.stderr
    assert f"TAU_ADIOS2_SELECT_FILE={tmp_path / 'select'}" in result.stderr


def test_file_continues_the_runs_own(analysed: Path, tmp_path: Path) -> None:
    settings = RunDirectory(analysed / "run").settings / SELECT_FILE_NAME
    settings.write_text("BEGIN_EXCLUDE_TIMERS\nold one\nEND_EXCLUDE_TIMERS\n")
    ask(analysed / "run", "-o", tmp_path / "select")
    exclude = TimerFilter.from_file(tmp_path / "select").timers.exclude
    assert exclude[:2] == (SST_TIMERS, "old one")
    assert exclude[2].startswith("norm [{")


def test_unwritable_file_is_said_in_one_line(analysed: Path) -> None:
    result = CliRunner().invoke(main, ["filter", str(analysed / "run"), "-o", str(analysed)])
    assert result.exit_code == 2
    assert "select file cannot be written" in result.stderr
