"""The example package of plugins, installed as a user would: each kind does its work in a run."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.places import ROOT

Command = Callable[..., subprocess.CompletedProcess[str]]
BROKEN = """[chimbuko.exporters]
lost = no_such_module:FORMAT
wrong = json:dumps
[chimbuko.causes]
wrong = json:dumps
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed example, and with a package whose plugins are broken."""
    home = tmp_path_factory.mktemp("plugins")
    shutil.copytree(ROOT / "examples" / "plugin", home / "source")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-compile",
    ]
    subprocess.run([*pip, "--target", home / "packages", home / "source"], check=True)
    about = home / "packages" / "broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(BROKEN)
    return home / "packages"


@pytest.fixture
def chimbuko(packages: Path, tmp_path: Path) -> Command:
    """Runs the command where the packages are installed."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")])
    }

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "chimbuko", *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    return run


def test_all_are_listed_and_the_broken_ones_named(chimbuko: Command) -> None:
    found = json.loads(chimbuko("plugins", "--json").stdout)["plugins"]
    problems = {(one["kind"], one["name"]): one["problem"] for one in found}
    works = [name for (_, name), problem in problems.items() if not problem]
    assert works == ["ratio", "checkpoint", "file", "csv", "calls", "oar", "publications"]
    assert "No module named 'no_such_module'" in problems["exporters", "lost"]
    assert "is of type function, where a Format belongs" in problems["exporters", "wrong"]


def test_a_run_by_plugins_alone(chimbuko: Command, tmp_path: Path) -> None:
    """Read by one, judged by another, explained by a third, exported by a fourth."""
    lines = [f"0 {name} {begin} {begin + 1000}" for begin in range(0, 400_000, 4000) for name in ("solve",)]
    lines += [f"0 write_checkpoint {begin} {begin + 1000}" for begin in range(2000, 400_000, 4000)]
    (tmp_path / "trace.txt").write_text("\n".join(["#calls", *lines, "0 write_checkpoint 500000 560000", ""]))
    done = chimbuko("run", "--trace", "trace.txt", "-o", "run", "--detector", "ratio", "--threshold", "20")
    assert done.returncode == 0, done.stderr
    assert "as it wrote a checkpoint" in chimbuko("incidents", "run").stdout
    assert (
        chimbuko("export", "run", "--format", "csv", "--label", "anomaly", "-o", "calls.csv").returncode == 0
    )
    with (tmp_path / "calls.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert row["function"] == "write_checkpoint"
    assert float(row["severity_us"]) == pytest.approx(59_000, rel=0.05)
    # What one plugin found, an installation without it still shows.
    plain = subprocess.run(
        [sys.executable, "-m", "chimbuko", "incidents", "run"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "write_checkpoint" in plain.stdout, plain.stderr


def test_a_scheduler_and_a_sink_by_name(chimbuko: Command) -> None:
    script = chimbuko("launch", "--scheduler", "oar:4", "-n", "8", "--", "./app").stdout
    assert "#OAR -l nodes=4" in script
    assert (
        "no plugin has this name; there are: oar"
        in chimbuko("launch", "--scheduler", "sge:4", "-n", "8", "--", "./app").stderr
    )
    refused = chimbuko("run", "--alert", "1s", "--alert-to", "smoke:signals", "--", "true").stderr
    assert "--alert-to: no plugin has this name; there are file" in refused
    assert "signals" not in refused


def test_a_format_that_is_none_names_all(chimbuko: Command) -> None:
    refused = chimbuko("export", "--format", "xml", "-o", "x").stderr
    assert "'csv'" in refused and "'perfetto'" in refused
