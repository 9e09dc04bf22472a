"""The wheel: all that a run needs is in it, and it is enough, without a checkout, Node.js or a compiler."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.newerpython import newer_python
from tests.places import ROOT

ROOMS = ("chimbuko", "ad", "pserver", "provenance", "viz")
PROGRAM = """
import sys, time

def load(item):
    time.sleep(0.3 if item == 150 else 0.002)

for item in range(300):
    load(item)
monitoring = getattr(sys, "monitoring", None)
if monitoring is not None and "chimbuko" in map(monitoring.get_tool, range(6)):
    print("monitored")
"""


def kept_files() -> list[Path]:
    """Files of the packages that are kept in git, as they are in it; without the page's sources."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *ROOMS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = (Path(name) for name in listed.stdout.split("\0") if name)
    inside = (path if path.parts[0] == "chimbuko" else Path("chimbuko") / path for path in paths)
    # The links to the rooms are folders.
    files = (path for path in inside if not (ROOT / path).is_dir())
    return [path for path in files if not path.is_relative_to("chimbuko/viz/web")]


def test_whatever_is_no_python_is_named_as_data_of_its_package() -> None:
    named: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
        "package-data"
    ]
    patterns = [
        f"{package.replace('.', '/')}/{pattern}" for package, found in named.items() for pattern in found
    ]
    others = [str(path) for path in kept_files() if path.suffix != ".py"]
    assert others
    assert [path for path in others if not any(fnmatch(path, pattern) for pattern in patterns)] == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As pip builds it with a Python that has nothing else: not what developers have in theirs."""
    folder = tmp_path_factory.mktemp("wheel")
    python = Path(sys.base_prefix, "bin", "python3")
    done = subprocess.run(
        [python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, ROOT],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("chimbuko-*.whl")
    return wheel


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_all_that_a_run_needs_is_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        names = {*content.namelist()}
    assert {str(path) for path in kept_files() if path.suffix == ".py"} <= names
    assert "chimbuko/viz/static/index.html" in names


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("minor", [None, 12, 13, 14])
def test_a_clean_environment_runs_a_program_from_the_wheel_alone(
    wheel: Path, tmp_path: Path, minor: int | None
) -> None:
    """Of each Python: from 3.12 on functions are recorded through ``sys.monitoring``."""

    def run(*words: str | Path, **variables: str) -> str:
        done = subprocess.run(
            [*words], cwd=tmp_path, env=variables or None, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    run(sys.executable if minor is None else newer_python(minor), "-m", "venv", "clean")
    run("clean/bin/python", "-m", "pip", "install", wheel)
    alone = {"PATH": str(tmp_path / "clean" / "bin"), "HOME": str(tmp_path / "home")}
    (tmp_path / "etl.py").write_text(PROGRAM)
    annotated = PROGRAM.replace("def load", "@critical_path\ndef load")
    (tmp_path / "annotated.py").write_text(f"from chimbuko.annotations import critical_path\n{annotated}")
    for name, options, calls in (("all", (), "30[12]"), ("annotated", ("--aspect", "__main__:load"), "301")):
        words = ["run", "-o", name, "--no-dashboard", "--", "chimbuko", "trace", *options, "etl.py"]
        said = run("clean/bin/chimbuko", *words, **alone)
        assert ("monitored" in said) == (minor is not None and not options)
        assert re.search(rf"\d anomal(y|ies) among {calls} calls of 1 rank", said), said
        assert "load" in run("clean/bin/chimbuko", "query", name, **alone)
    run("clean/bin/python", "annotated.py", **alone, PERFFLOW_OPTIONS="log-filename-include=name")
    words = ["run", "-o", "read", "--no-dashboard", "--trace", "perfflow.array.generic.pfw"]
    assert "among 300 calls" in run("clean/bin/chimbuko", *words, **alone)
    assert "load" in run("clean/bin/chimbuko", "query", "read", **alone)
