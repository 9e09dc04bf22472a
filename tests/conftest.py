"""What several suites share: real traces, unpacked once, and a browser."""

from __future__ import annotations

import gc
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from coverage import Coverage
from hypothesis import HealthCheck, settings

from chimbuko.launcher.kernels import await_kernels
from chimbuko.runtime.process.signals import FROM_OTHERS
from chimbuko.runtime.protocol.broker import PrivateBroker
from tests.browsing import CHROMIUM, Chromium
from tests.disks import own_disk
from tests.once import Once
from tests.places import DATA, ROOT
from tests.plainpython import examples
from tests.warm import warm_starts

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

    from tests.postgresql import PostgresqlServer


pytest_plugins = ["tests.hangs"]

# In tests, and in all processes that they start, each call of a kernel is checked: the library believes what
# it is given. It is set before anything loads a kernel.
os.environ.setdefault("CHIMBUKO_KERNELS_AS", "checked")


def pytest_configure() -> None:
    """Timings decide nothing; signals come as at a terminal: ``nohup`` and ``&`` have some ignored.

    Whoever has changed a kernel waits here for half a minute, or tests it with ``NUMBA_DISABLE_JIT=1``.
    """
    if "NUMBA_DISABLE_JIT" not in os.environ:
        await_kernels()
    has_same = bool(os.environ.get("CHIMBUKO_SAME_EXAMPLES"))
    slow = [HealthCheck.too_slow]
    settings.register_profile("busy", examples(100), suppress_health_check=slow, derandomize=has_same)
    settings.load_profile("busy")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def pytest_sessionfinish() -> None:
    """Remove what ADIOS2 leaves of streams that tests read by themselves, whatever TMPDIR is."""
    for left in Path("/tmp").glob(f"*_{os.getpid():x}_profiling.json"):
        left.unlink(missing_ok=True)


@pytest.fixture(autouse=True, scope="module")
def process_as_it_was() -> Iterator[None]:
    """Undo what commands and services change in their own process, for tests that run them in this one."""
    handlers = {number: signal.getsignal(number) for number in FROM_OTHERS}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True, scope="module")
def commands_are_forked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Commands of ours have imported what they need, but for tests marked ``cold``.

    Where it is measured which lines run, all of them start as users start them.
    """
    is_cold = request.node.get_closest_marker("cold") is not None or Coverage.current() is not None
    with nullcontext() if is_cold else warm_starts():
        yield


@pytest.fixture(autouse=True, scope="session")
def users_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Runs that tests make elsewhere are not noted as the user's own."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True)
def no_noted_runs(users_state: None, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Each test knows of its own runs only; the folder is made where there is one."""
    name = hashlib.sha1(request.node.nodeid.encode()).hexdigest()
    monkeypatch.setenv("XDG_STATE_HOME", f"{os.environ['XDG_STATE_HOME']}/{name}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Say once which of Debian's packages the skipped tests need, as the reasons name them."""
    yield
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    needed = [match[1] for reason in reasons if (match := re.search(r"apt-get install ([\w+. -]+)", reason))]
    if needed:
        packages = sorted({package for words in needed for package in words.split()})
        terminalreporter.write_line(f"{len(needed)} skipped tests need: apt-get install {' '.join(packages)}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """All tests stay: each process that looks for garbage among them takes 3 of 8 s more to collect them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


LONG = ("viz/pages", "integration", "viz", "instrument/tracer", "ad/streams", "cli")
"""Where files take minutes, most of it in waiting for browsers and processes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long files, of each kind by turns, so that none is left alone at the end."""
    files: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        files[item.path].append(item)
    kinds: dict[str, list[Path]] = {kind: [] for kind in (*LONG, "")}
    for file in files:
        place = file.relative_to(ROOT / "tests").as_posix()
        kinds[next(kind for kind in kinds if place.startswith(kind))].append(file)
    short = kinds.pop("")
    by_turns = [file for turn in zip_longest(*kinds.values()) for file in turn if file is not None]
    items[:] = [item for file in (*by_turns, *short) for item in files[file]]


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Once:
    """What all processes of this session share."""
    own = tmp_path_factory.getbasetemp()
    return Once(own.parent if hasattr(pytestconfig, "workerinput") else own)


@pytest.fixture(scope="session")
def real_traces(once: Once) -> Path:
    """Folder with all recorded traces of tests/data."""

    def unpack(folder: Path) -> None:
        for archive in sorted(DATA.glob("*.tar.xz")):
            shutil.unpack_archive(archive, folder)

    return once.made("traces", unpack)


@pytest.fixture(scope="session")
def heat4_analysed(once: Once, real_traces: Path) -> Path:
    """Folder of the run that analysed four ranks that exchange rows, with 41 delays."""
    command = [sys.executable, "-m", "chimbuko", "run", "--trace", real_traces / "heat4" / "*.bp", "--output"]
    return once.made(
        "heat", lambda folder: subprocess.run([*command, folder], check=True, capture_output=True)
    )


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    """What speaks with browsers."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def chromium(request: pytest.FixtureRequest) -> Iterator[Chromium]:
    """Chromium for all files of tests that this process runs."""
    if not Path(CHROMIUM).exists():
        pytest.skip(f"no {CHROMIUM}: apt-get install chromium-headless-shell")
    chromium = Chromium(request.getfixturevalue("playwright"))
    yield chromium
    chromium.close()


@pytest.fixture(scope="module")
def browser(chromium: Chromium) -> Iterator[Browser]:
    """Chromium without a window, in which nothing is open that another file of tests has opened."""
    yield chromium.browser()
    chromium.close_contexts()


@pytest.fixture(scope="session")
def postgresql(once: Once) -> Iterator[PostgresqlServer]:
    """A private PostgreSQL server; a test that kills it starts it again."""
    from tests.postgresql import NotInstalled, PostgresqlServer

    try:
        kept = once.made("postgresql", lambda folder: PostgresqlServer().keep(folder))
        server = PostgresqlServer(like=kept)
    except NotInstalled as reason:
        pytest.skip(str(reason))
    yield server
    server.remove()


@pytest.fixture
def postgresql_url(postgresql: PostgresqlServer) -> str:
    """A store of its own, with tables in which nothing is stored."""
    return postgresql.new_store()


@pytest.fixture
def postgresql_schema(postgresql: PostgresqlServer) -> str:
    """A store of its own in which nothing is made: an empty schema, which costs less than a database."""
    return postgresql.new_schema()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """URL of a broker that is a cluster."""
    from tests.cluster import running_cluster

    with running_cluster(tmp_path) as url:
        yield url


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[PrivateBroker]:
    """A real broker."""
    with PrivateBroker(tmp_path / "broker.log") as broker:
        yield broker


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    with own_disk(tmp_path / "disk", "1m") as folder:
        yield folder
