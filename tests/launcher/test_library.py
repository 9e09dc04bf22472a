"""Runs that a Python program starts."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chimbuko.core.config import AnalysisConfig
from chimbuko.core.errors import ConfigError, TraceFormatError
from chimbuko.launcher import AnalysisOptions, RunOptions, ServiceChoices, run
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.patience import PATIENCE_S

QUIET = ServiceChoices(dashboard=False)
PROGRAM = """
import sys
from pathlib import Path
from chimbuko.launcher import RunOptions, ServiceChoices, run
script = ("sh", "-c", sys.argv[2])
run(RunOptions(command=script, folder=Path(sys.argv[1]), services=ServiceChoices(dashboard=False)))
"""


def wait_until(condition: Callable[[], bool]) -> None:
    latest_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < latest_s
        time.sleep(0.05)


def started(folder: Path, script: str) -> subprocess.Popen[bytes]:
    """A Python program that runs a script, which says when it has started."""
    words = [sys.executable, "-c", PROGRAM, folder / "run", f"touch {folder}/started; {script}"]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(words, stderr=said)
    wait_until((folder / "started").exists)
    return process


def test_a_recorded_trace_is_analysed_as_by_the_command_line(real_traces: Path, tmp_path: Path) -> None:
    analysis = AnalysisOptions(config=AnalysisConfig(detector="sstd", min_anomaly_us=0))
    pattern = str(real_traces / "heat4" / "*.bp")
    result = run(RunOptions(trace=(pattern,), folder=tmp_path / "library", analysis=analysis))
    assert result.summary is not None and result.problems == [] and result.exit_code is None
    words = [
        "--trace",
        pattern,
        "-o",
        tmp_path / "shell",
        "--detector",
        "sstd",
        "--min-anomaly",
        "0",
        "--json",
    ]
    subprocess.run([sys.executable, "-m", "chimbuko", "run", *words], check=True, capture_output=True)
    infos = [RunDirectory(tmp_path / name).read_info() for name in ("library", "shell")]
    assert infos[0].config == infos[1].config
    found = []
    for name in ("library", "shell"):
        with open_run(RunDirectory(tmp_path / name)) as provenance:
            found.append(
                {
                    call.id: call.severity_us
                    for call in provenance.calls.page(CallFilter(), limit=10_000).calls
                }
            )
    assert found[0] == found[1] and len(found[0]) == result.summary.anomalies > 0


def test_the_code_of_the_program_is_in_the_result(tmp_path: Path) -> None:
    result = run(RunOptions(command=("sh", "-c", "exit 3"), folder=tmp_path / "run", services=QUIET))
    assert result.exit_code == 3 and result.summary is not None and result.store_code == 0


def test_what_cannot_begin_is_raised(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="no trace stream matches"):
        run(RunOptions(trace=(str(tmp_path / "*.bp"),), folder=tmp_path / "run"))
    with pytest.raises(ConfigError, match="give one of"):
        RunOptions()
    with pytest.raises(ConfigError, match="the period"):
        AnalysisOptions(config=AnalysisConfig(period_us=0))


@pytest.mark.thorough
def test_an_interrupt_reaches_the_program_and_is_raised_after_the_end(tmp_path: Path) -> None:
    process = started(
        tmp_path, f"trap 'touch {tmp_path}/interrupted; exit 5' INT; while :; do sleep 0.1; done"
    )
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE_S)
    assert "KeyboardInterrupt" in (tmp_path / "said").read_text() and (tmp_path / "interrupted").exists()
    info = RunDirectory(tmp_path / "run").read_info()
    assert (info.state, info.exit_code) == ("interrupted", 5)


def test_the_run_ends_in_order_without_the_python_program(tmp_path: Path) -> None:
    process = started(tmp_path, f"while [ ! -e {tmp_path}/end ]; do sleep 0.1; done; exit 6")
    process.kill()
    process.wait()
    (tmp_path / "end").touch()
    wait_until(lambda: RunDirectory(tmp_path / "run").read_info().state == "finished")
    assert RunDirectory(tmp_path / "run").read_info().exit_code == 6
