"""Hatchet's own reader takes our trace files, and finds the tree that it finds in PerfFlowAspect's.

Both come from PyPI, into an environment of their own.
"""

from __future__ import annotations

import json
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest

from chimbuko.capture.formats.conversion import convert
from chimbuko.capture.formats.tracemerge import merge
from tests.capture.formats.traces import PERIOD_US
from tests.instrument.annotations.test_aspects import events_of, run

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]
PACKAGES = ("llnl-hatchet", "perfflowaspect==0.1.0")
THEIRS = "from perfflowaspect.aspect import critical_path"
OURS = "from chimbuko.annotations import critical_path"
PROGRAM = """
    import time
    {imported}

    @critical_path(pointcut="around")
    def leaf():
        time.sleep(0.002)

    @critical_path()
    def branch(depth):
        time.sleep(0.001)
        leaf()
        if depth:
            branch(depth - 1)
        leaf()
        time.sleep(0.001)

    @critical_path()
    def root():
        time.sleep(0.001)
        branch(2)
        time.sleep(0.001)

    for _ in range(2):
        root()
    leaf()
"""
BRANCH: list[Any] = ["branch", [["leaf", []], ["leaf", []]]]
for _ in range(2):
    BRANCH = ["branch", [["leaf", []], BRANCH, ["leaf", []]]]
TREE = [["root", [BRANCH]], ["root", [BRANCH]], ["leaf", []]]
READ = """
import contextlib, json, sys
import hatchet
with contextlib.redirect_stdout(sys.stderr):
    frame = hatchet.GraphFrame.from_perfflowaspect(sys.argv[1], len(sys.argv) > 2)
def tree(nodes):
    nodes = sorted(nodes, key=lambda node: node.frame["ts"])
    return [[node.frame["name"], tree(node.children)] for node in nodes]
print(json.dumps([tree(frame.graph.roots), frame.dataframe.iloc[:, 1:].to_dict("list")]))
"""


@pytest.fixture(scope="module")
def hatchet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has it."""
    folder = tmp_path_factory.mktemp("hatchet")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    words = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        pytest.skip(f"{' and '.join(PACKAGES)} cannot be installed: {reason}")
    return python


def read(python: Path, trace: Path, *words: str) -> tuple[list[Any], dict[str, list[Any]]]:
    """What Hatchet makes of a file: the tree, and the columns of its table."""
    done = subprocess.run([python, "-c", READ, trace, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    tree, columns = json.loads(done.stdout)
    return tree, columns


def trace_of(folder: Path, options: str) -> Path:
    """The file of the program under our annotations."""
    folder.mkdir()
    done = run(folder, PROGRAM.format(imported=OURS), options)
    assert (done.returncode, done.stderr) == (0, "")
    (trace,) = folder.glob("*.pfw")
    return trace


def test_the_tree_is_that_of_perfflowaspects_own_file(hatchet: Path, tmp_path: Path) -> None:
    program = tmp_path / "theirs.py"
    lines = PROGRAM.format(imported=THEIRS).splitlines()
    program.write_text("\n".join(line.removeprefix("    ") for line in lines))
    for kind in ("Verbose", "Compact"):
        (own := tmp_path / kind).mkdir()
        environment = {"PERFFLOW_OPTIONS": f"log-event={kind}"}
        subprocess.run([hatchet, program], cwd=own, env=environment, check=True)
        (theirs,) = own.glob("*.pfw")
        assert read(hatchet, theirs)[0] == TREE
        for form in ("Array", "Object"):
            ours = trace_of(tmp_path / f"{kind}-{form}", f"log-event={kind}:log-format={form}")
            assert read(hatchet, ours)[0] == TREE


@pytest.mark.parametrize("kind", ["Verbose", "Compact"])
def test_cpu_and_memory_of_calls(hatchet: Path, tmp_path: Path, kind: str) -> None:
    trace = trace_of(tmp_path / "own", f"log-event={kind}:cpu-mem-usage=True")
    tree, columns = read(hatchet, trace, "usage")
    assert tree == TREE
    assert len(columns["usage_memory"]) == sum(event["ph"] in "BX" for event in events_of(trace.parent))
    assert all(1e3 < kilobytes < 1e6 for kilobytes in columns["usage_memory"])


def test_what_merge_writes(hatchet: Path, tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "own", "log-event=Compact")
    merge(
        convert([trace], tmp_path / "streams", "program", PERIOD_US).streams, [], tmp_path / "all.pfw", True
    )
    assert read(hatchet, tmp_path / "all.pfw")[0] == TREE
