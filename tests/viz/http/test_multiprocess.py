"""Several server processes on one port: over a run that has ended, and over one that goes on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from chimbuko.core.errors import ServiceError
from chimbuko.runtime.process import supervisor
from chimbuko.runtime.protocol.broker import PrivateBroker, connect
from chimbuko.runtime.protocol.messages import PAYLOAD
from chimbuko.viz.http.multiprocess import serving_together
from tests.patience import PATIENCE_S
from tests.sockets import sockets_of
from tests.thorough import first
from tests.viz.asking import EventSocket, children, folders, wait_until, wait_until_gone
from tests.viz.conftest import TOKEN, DashboardProcess, dashboard
from tests.viz.made_run import MadeRun, make_run

BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    """A run that has ended, with another beside it."""
    folder = tmp_path_factory.mktemp("runs")
    make_run(folder / "before")
    return make_run(folder / "heat")


@pytest.fixture(scope="module")
def both(ended: MadeRun) -> Iterator[DashboardProcess]:
    """A dashboard of two processes, for tests that leave them alone."""
    with dashboard(ended, words=["--processes", "2"]) as process:
        yield process


@pytest.fixture
def alone(ended: MadeRun) -> Iterator[DashboardProcess]:
    """A dashboard of two processes that may be hurt."""
    with dashboard(ended, words=["--processes", "2"]) as process:
        yield process


def servers(dashboard: DashboardProcess) -> list[int]:
    """The server processes."""
    return [pid for pid, words in children(dashboard.process.pid).items() if "--shared" in words]


def pages_on_both(dashboard: DashboardProcess) -> list[EventSocket]:
    """Pages until each process has one."""
    before = {pid: len(sockets_of(pid)) for pid in servers(dashboard)}
    pages: list[EventSocket] = []
    while not all(len(sockets_of(pid)) > count for pid, count in before.items()):
        pages.append(EventSocket(dashboard.base))
        assert len(pages) < 200, "one process gets all"
    return pages


def close(pages: list[EventSocket]) -> None:
    """Close them all."""
    for page in pages:
        page.close()


def test_pages_of_both_are_answered(both: DashboardProcess) -> None:
    pages = pages_on_both(both)
    first, last = pages[0], pages[-1]
    jobs = [(page, page.ask("export", {"form": "v2"})) for page in (first, last)]
    for page, job in jobs:
        reported = page.end(job)
        for _ in range(8):
            # Whichever process is asked has it.
            saved = requests.get(
                f"{both.base}api/v1/{reported['address']}", headers=BEARER, timeout=PATIENCE_S
            )
            assert len(saved.content) == reported["bytes"]
    workers = [words for words in children(both.process.pid).values() if "viz.jobs" in words]
    assert len(set(workers)) == 1
    close(pages)


@pytest.mark.thorough
def test_pages_of_both_hear_of_a_run_that_goes_on(tmp_path: Path, broker: PrivateBroker) -> None:
    made = make_run(tmp_path / "heat", "running", 20)
    with dashboard(made, broker.url, words=["--processes", "2"]) as process, connect(broker.url) as client:
        pages = pages_on_both(process)
        client.xadd(made.keys.frames, {PAYLOAD: made.seal.encode(made.frame(20, 20))})
        anomalies = sum(step.anomalies for step in made.steps if step.step <= 20)
        for page in pages:
            while page.next("frame")["status"]["anomalies"] < anomalies:
                pass
        reported = pages[-1].end(pages[-1].ask("export", {"form": "v2"}))
        assert reported["name"] == "heat-v2.zip"
        close(pages)


def test_one_that_is_killed_is_replaced_and_the_other_goes_on(alone: DashboardProcess) -> None:
    pages = pages_on_both(alone)
    killed, stays = servers(alone)
    os.kill(killed, signal.SIGKILL)
    ended = 0
    for page in pages:
        try:
            page.next("frame")
            page.next("frame")
        except ConnectionError:
            ended += 1
    assert 0 < ended < len(pages)
    wait_until(lambda: len(servers(alone)) == 2 and killed not in servers(alone))
    assert stays in servers(alone)
    assert requests.get(f"{alone.base}api/v1/run", headers=BEARER, timeout=PATIENCE_S).status_code == 200
    close(pages)
    # A page that asked the one that is gone asks again.
    with EventSocket(alone.base) as page:
        assert page.end(page.ask("comparison", {"with": "before"}))["ok"]


def test_no_page_waits_where_none_of_them_lasts(ended: MadeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "MOST_IN_A_ROW", 1)
    stopping = threading.Event()
    with (
        pytest.raises(ServiceError, match="ended soon after its start"),
        serving_together(ended.directory, 0, TOKEN, None, frozenset(), 2, stopping) as url,
    ):
        while not stopping.wait(0.05):
            for pid, words in children(os.getpid()).items():
                if "--shared" in words:
                    os.kill(pid, signal.SIGKILL)
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=PATIENCE_S)


def test_polling_is_refused_for_it_does_not_stay_with_one(both: DashboardProcess, finished: MadeRun) -> None:
    polling = "socket.io/?EIO=4&transport=polling"
    assert requests.get(both.base + polling, headers=BEARER, timeout=PATIENCE_S).status_code == 400
    with dashboard(finished) as alone:
        assert requests.get(alone.base + polling, headers=BEARER, timeout=PATIENCE_S).status_code == 200


@pytest.mark.thorough
@pytest.mark.parametrize("number", first(1, [signal.SIGKILL, signal.SIGTERM]))
def test_none_outlives_the_one_that_looks_after_them(alone: DashboardProcess, number: int) -> None:
    with EventSocket(alone.base) as page:
        assert page.end(page.ask("export", {"form": "v2"}))["name"] == "heat-v2.zip"
        below = children(alone.process.pid)
        assert len(below) == 5, "two servers, a broker, and a worker of two"
        folder = folders(alone)[0].parent
        os.kill(alone.process.pid, number)
        wait_until_gone([alone.process.pid, *below])
        assert not folder.exists()


def test_they_need_the_token_too(both: DashboardProcess) -> None:
    assert {requests.get(f"{both.base}api/v1/run", timeout=PATIENCE_S).status_code for _ in range(8)} == {401}
