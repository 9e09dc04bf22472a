"""Plugin of pytest: ``pytest --chimbuko`` records the tests, and says why calls in them were slow.

Every session of pytest in an environment with Chimbuko loads this module, so it loads nothing else of ours.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

WITHIN = "CHIMBUKO_PYTEST"
"""Environment variable of the session that is recorded."""
RUNS = Path("chimbuko-runs")
MOST = 20
"""Most delays that are listed at the end of a session."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options: two, as one with a value that may be left out would take a file of tests for it."""
    group = parser.getgroup("chimbuko")
    group.addoption(
        "--chimbuko",
        action="store_true",
        help="Record the calls of the tests, and say at the end which were abnormally slow, in which test "
        "and why.",
    )
    group.addoption(
        "--chimbuko-folder",
        metavar="FOLDER",
        help="The same, with the run in FOLDER; by default it is a new one under chimbuko-runs.",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Run the session as the program of an analysis, and report; None where nothing is asked for."""
    wanted = config.getoption("chimbuko_folder")
    if not (wanted or config.getoption("chimbuko")) or WITHIN in os.environ:
        return None
    folder = Path(wanted) if wanted else RUNS / time.strftime("pytest-%Y%m%d-%H%M%S")
    options = ["-o", str(folder), "--no-dashboard"]
    if config.pluginmanager.has_plugin("cacheprovider"):
        # What tests took in earlier sessions: each test is called once in this one.
        model = Path(config.rootpath, config.getini("cache_dir"), "d", "chimbuko", "model")
        model.parent.mkdir(parents=True, exist_ok=True)
        options += ["--save-model", str(model), *(["--load-model", str(model)] if model.exists() else [])]
    own = [sys.executable, "-m", "pytest", *map(str, config.invocation_params.args)]
    done = subprocess.run(
        [sys.executable, "-m", "chimbuko", "run", *options, "--", *own], env={**os.environ, WITHIN: "1"}
    )
    for line in _report(folder):
        print(line)
    return done.returncode


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Record each test, with its fixtures, as a call of its name."""
    if WITHIN not in os.environ:
        return (yield)
    from chimbuko.tracer import region

    with region(item.nodeid):
        return (yield)


def _report(folder: Path) -> Iterator[str]:
    """Yield the delays in tests, the most costly first, each with its test and its sentence."""
    # Loaded here: only a session that was recorded needs a database.
    from chimbuko.core.errors import ChimbukoError
    from chimbuko.provenance.incidents.incidentlist import Incidents
    from chimbuko.provenance.query.run import open_run
    from chimbuko.runtime.runs.directory import RunDirectory

    yield ""
    with suppress(ChimbukoError), open_run(RunDirectory(folder)) as provenance:
        page = Incidents(provenance.reader).page(MOST, 0, "cost_us", False)
        for one in page.incidents:
            stack = provenance.calls.record(one.call_id).call_stack if one.call_id else []
            test = next((frame.function for frame in stack if "::" in frame.function), "outside of tests")
            yield f"{test}: {one.sentence}"
        if not page.incidents:
            yield "No call in these tests was abnormally slow."
    yield f"chimbuko view {folder}    shows all of it"
