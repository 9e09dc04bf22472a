"""Celery workers run analyses of packages for those who ask, and what goes wrong in one is published."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from chimbuko.core.errors import ConfigError, ServiceError
from chimbuko.observe.namespaces.client.asking import Progress
from chimbuko.observe.namespaces.client.client import Client, Namespace
from chimbuko.observe.namespaces.exchange.namespacereader import Reader
from tests.integration.conftest import Command
from tests.observe.namespaces.served import served
from tests.patience import PATIENCE_S

PACKAGE = """
import os, pathlib, signal, time

def count(observations):
    print("not part of what is found")
    return {"publications": len(observations)}

def dies(observations):
    os.kill(os.getpid(), signal.SIGKILL)

def fails(observations):
    return 1 / 0

def hangs(observations):
    time.sleep(1000)

def hangs_once(observations):
    began = pathlib.Path(os.environ["BEGAN"])
    if not began.exists():
        began.touch()
        time.sleep(1000)
    return {"tries": 2}
"""
NAMES = ("count", "dies", "fails", "hangs", "hangs_once")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with these analyses, for processes that are started from now on."""
    folder = tmp_path / "packages"
    about = folder / "slow_analyses-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "slow_analyses.py").write_text(PACKAGE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-analyses\nVersion: 1.0\n")
    entries = "".join(f"{name} = slow_analyses:{name}\n" for name in NAMES)
    (about / "entry_points.txt").write_text(f"[chimbuko.analyses]\n{entries}")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("BEGAN", str(tmp_path / "began"))


def come_to(one: Namespace, into: str, *wanted: Progress) -> str:
    """Wait until an analysis has come so far; why it failed."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (found := one.analysis_progress(into)) is None or found[0] not in wanted:
        assert time.monotonic() < deadline_s, found
        time.sleep(0.05)
    assert found[0] is wanted[0], found
    return found[1]


@pytest.mark.usefixtures("package")
def test_what_a_worker_finds_arrives_in_the_namespace(tmp_path: Path) -> None:
    """Also behind analyses that fail, that bring their process down, and that there are none of."""
    with served(tmp_path / "service", namespaces=("application",), workers=1) as service:
        other = service.admit("other")
        with Client(service.path) as client, Client(other) as stranger:
            one = client.create("application")
            assert one.analysis_progress("found") is None
            one.publish_tree({"step": 1})
            for name, into in (("fails", "a"), ("dies", "b"), ("none", "c"), ("count", "found/x")):
                one.analyse_async(name, into)
            stranger.create("application").analyse_async("count", "found")
            assert come_to(one, "found/x", Progress.DONE, Progress.FAILED) == ""
            assert come_to(one, "a", Progress.FAILED) == (
                "analysis fails (slow_analyses:fails) failed: ZeroDivisionError: division by zero "
                "(slow_analyses.py:12)"
            )
            assert come_to(one, "b", Progress.FAILED).startswith("analysis dies brought its process down: ")
            assert come_to(one, "c", Progress.FAILED).startswith("'none': no analysis; there are ")
            with Reader(service.path) as reader:
                assert reader.read("application", "found")["found"]["x"]["publications"] >= 1
            # Nobody works for the other job.
            assert stranger.create("application").analysis_progress("found") == (Progress.SCHEDULED, "")


@pytest.mark.thorough
@pytest.mark.usefixtures("package")
def test_a_worker_ends_what_hangs_and_another_one_goes_on_for_it_when_it_is_killed(tmp_path: Path) -> None:
    with served(tmp_path / "service", namespaces=("application",)) as service:
        words = ("namespaces", "work", service.path, "--limit", "10s")
        with Client(service.path) as client:
            one = client.create("application")
            one.publish_tree({"step": 1})
            one.analyse_async("hangs_once", "killed")
            worker = Command(*words)
            come_to(one, "killed", Progress.EXECUTING)
            os.kill(worker.process.pid, signal.SIGKILL)
            worker.end()
            worker = Command(*words)
            one.analyse_async("hangs", "late")
            assert come_to(one, "late", Progress.FAILED) == (
                "analysis hangs took longer than 10 s, and was ended"
            )
            assert come_to(one, "killed", Progress.DONE) == ""
            worker.interrupt()
            assert worker.end() == 0, worker.output


@pytest.mark.thorough
@pytest.mark.usefixtures("package")
def test_a_worker_that_is_asked_to_end_leaves_what_it_was_at_to_the_next(tmp_path: Path) -> None:
    with (
        served(tmp_path / "service", namespaces=("application",)) as service,
        Client(service.path) as client,
    ):
        one = client.create("application")
        one.publish_tree({"step": 1})
        one.analyse_async("hangs_once", "ended")
        for number, reached in ((signal.SIGTERM, Progress.EXECUTING), (signal.SIGINT, Progress.DONE)):
            worker = Command("namespaces", "work", service.path)
            worker.wait_for_line("it works for job default")
            come_to(one, "ended", reached)
            worker.process.send_signal(number)
            assert worker.end() == 0, worker.output


@pytest.mark.thorough
def test_celery_has_no_cluster(tmp_path: Path, cluster: str) -> None:
    with served(tmp_path / "service", broker=cluster) as service, Client(service.path) as client:
        one = client.create("application")
        with pytest.raises(ServiceError, match="Celery cannot speak with a Redis Cluster"):
            one.analyse_async("load-balance", "found")
        progress = one.analysis_progress("found")
        assert progress is not None and progress[0] is Progress.FAILED


def test_who_may_read_may_not_ask(tmp_path: Path) -> None:
    from chimbuko.observe.namespaces.service.worker import work

    with served(tmp_path / "service", namespaces=("application",)) as service:
        reader = Client(service.path / "jobs" / "default" / "reader")
        with pytest.raises(ServiceError, match="not permitted"):
            reader.create("application").analyse_async("load-balance", "found")
        with pytest.raises(ServiceError, match="did not arrive"):
            reader.close()
        with pytest.raises(ConfigError, match="'heat': no job of this service, which has default"):
            work(service.folder, "heat", 1, 1.0, lambda: None)
