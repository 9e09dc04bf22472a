"""Long questions over a real broker, with a real worker: progress, answers, cancel, and how it can break."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from chimbuko.cli import main
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.viz.jobs.celeryapp import LARGEST_EVENT_BYTES, TOO_LONG
from chimbuko.viz.jobs.queue import LOST, MOST_OF_PAGE, NO_BROKER, NO_WORKER, NOT_UNDERSTOOD, TOO_MANY
from tests import simulated_runs as simulated
from tests.patience import PATIENCE_S
from tests.simulated_runs import Noise, SimulatedFunction, SimulatedRun, log_normal
from tests.thorough import first
from tests.viz.asking import (
    GATED,
    EventSocket,
    Gate,
    children,
    fetch,
    folders,
    wait_until,
    wait_until_gone,
    workers,
)
from tests.viz.conftest import DashboardProcess, dashboard
from tests.viz.made_run import MadeRun, make_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    """A run, with another beside it."""
    folder = tmp_path_factory.mktemp("runs")
    make_run(folder / "before")
    return make_run(folder / "heat")


@pytest.fixture(scope="module")
def shared(runs: MadeRun) -> Iterator[DashboardProcess]:
    """A dashboard whose worker is started once for all tests that leave it alone."""
    with dashboard(runs, environment=GATED) as process:
        yield process


@pytest.fixture
def page(shared: DashboardProcess) -> Iterator[EventSocket]:
    """A page of it."""
    with EventSocket(shared.base) as page:
        yield page


@pytest.fixture
def alone(runs: MadeRun) -> Iterator[DashboardProcess]:
    """A dashboard that may be hurt."""
    with dashboard(runs, environment=GATED) as process:
        yield process


@pytest.fixture
def gate(runs: MadeRun) -> Iterator[Gate]:
    """Comparisons that do not end before the test wants it."""
    with Gate(runs.directory.path.parent / "a-gate") as gate:
        yield gate


def begin(page: EventSocket, job: str = "") -> str:
    """A comparison that waits at the gate, and of which has been heard."""
    job = page.ask("comparison", {"with": "before"}, job)
    assert page.next("progress", job=job)["text"] == "Reading runs"
    return job


def test_nothing_is_started_before_the_first_question(alone: DashboardProcess) -> None:
    with EventSocket(alone.base):
        assert children(alone.process.pid) == {}


def test_a_worker_starts_when_a_question_may_come(alone: DashboardProcess) -> None:
    with EventSocket(alone.base) as page:
        page.emit("prepare", None)
        wait_until(lambda: len(workers(alone)) == 2)


def test_a_comparison_is_what_the_api_says(page: EventSocket, shared: DashboardProcess) -> None:
    answer = page.end(page.ask("comparison", {"with": "before"}))
    assert answer["ok"] and answer["comparison"]["before"]["name"] == "before"
    assert answer == fetch(shared.base, "../comparison?with=before").json()


@pytest.mark.thorough
def test_answers_that_are_too_large_for_an_event_are_fetched(tmp_path: Path) -> None:
    functions = tuple(SimulatedFunction(f"function_{number}", log_normal(100.0, 0.1)) for number in range(99))
    simulated.make_run(tmp_path / "before", functions, SimulatedRun(1, Noise()))
    after = simulated.make_run(tmp_path / "after", functions, SimulatedRun(2, Noise()))
    with dashboard(MadeRun(after)) as process, EventSocket(process.base) as page:
        reported = page.next("answer", job=page.ask("comparison", {"with": "before"}))
        whole = fetch(process.base, "../comparison?with=before")
        assert len(whole.content) > LARGEST_EVENT_BYTES and reported["answer"] is None
        assert fetch(process.base, reported["job"]).json() == whole.json()


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("perfetto", "heat.pftrace"),
        ("chrome", "heat.chrome.json"),
        ("speedscope", "heat.speedscope.json"),
        ("parquet", "heat-parquet.zip"),
        ("v2", "heat-v2.zip"),
    ],
)
def test_an_export_is_the_file_that_the_command_writes(
    page: EventSocket, shared: DashboardProcess, runs: MadeRun, tmp_path: Path, form: str, name: str
) -> None:
    job = page.ask("export", {"form": form, "label": "any", "step_max": "30"})
    reported = page.end(job)
    assert reported["name"] == name
    saved = fetch(shared.base, reported["address"].removeprefix("answers/"))
    assert saved.headers["Content-Disposition"] == f"attachment; filename={name}"
    assert len(saved.content) == reported["bytes"]
    output = tmp_path / name.removesuffix(".zip")
    words = ["export", str(runs.directory.path), "--format", form, "--step", ":30", "-o", str(output)]
    assert CliRunner().invoke(main, words).exit_code == 0
    if output.is_file():
        assert saved.content == output.read_bytes()
    else:
        with zipfile.ZipFile(io.BytesIO(saved.content)) as archive:
            packed = {found: archive.read(found) for found in archive.namelist()}
        written = {path for path in output.rglob("*") if path.is_file()}
        assert packed == {str(path.relative_to(tmp_path)): path.read_bytes() for path in written}


def test_how_far_an_export_is_can_be_seen(page: EventSocket) -> None:
    job = page.ask("export", {"form": "v2", "label": "any"})
    page.end(job)
    shares = [data["share"] for name, data in page.heard if name == "progress" and data["id"] == job]
    assert shares == sorted(shares) and all(0 <= share <= 1 for share in shares)


@pytest.mark.parametrize(
    ("question", "parameters", "sentence"),
    [
        ("comparison", {"with": "nowhere"}, "'nowhere': none of this name beside this one"),
        ("comparison", {}, "missing required field `with`"),
        ("comparison", None, "Expected `object`"),
        ("export", {"form": "tar"}, "'tar': no format; there are perfetto"),
        ("export", {"form": "v2", "rank": "x"}, "matching regex"),
        ("nothing", {}, NOT_UNDERSTOOD),
        (None, {}, NOT_UNDERSTOOD),
    ],
)
def test_what_cannot_be_answered_is_said_in_one_line(
    page: EventSocket, question: str, parameters: object, sentence: str
) -> None:
    said = page.end(page.ask(question, parameters))
    assert sentence in said and "\n" not in said


@pytest.mark.parametrize("data", [None, 1, [], {}, {"id": 5}, {"id": "../../etc"}, {"id": "a" * 31}])
def test_what_is_no_question_is_passed_over(page: EventSocket, data: object) -> None:
    page.emit("ask", data)
    page.emit("cancel", data)
    assert "none of this name" in page.end(page.ask("comparison", {"with": "nowhere"}))


@pytest.mark.parametrize("job", ["f" * 32, "..%2f..%2fetc", "x", "." * 32])
def test_an_answer_that_is_not_there(shared: DashboardProcess, job: str) -> None:
    refused = fetch(shared.base, job)
    assert refused.status_code == 404
    assert "\n" not in refused.json()["error"]


def test_a_question_is_cancelled_within_a_second(
    page: EventSocket, shared: DashboardProcess, gate: Gate
) -> None:
    job = begin(page)
    assert any(folder.name == job for folder in folders(shared))
    page.emit("cancel", {"id": job})
    wait_until(lambda: all(folder.name != job for folder in folders(shared)))
    gate.open()
    assert page.end(page.ask("comparison", {"with": "before"}))["ok"]


def test_a_page_asks_a_few_things_at_once(page: EventSocket, gate: Gate) -> None:
    jobs = [begin(page), *(page.ask("comparison", {"with": "before"}) for _ in range(MOST_OF_PAGE - 1))]
    assert page.end(page.ask("comparison", {"with": "before"})) == TOO_MANY
    gate.open()
    assert all(page.end(job)["ok"] for job in jobs)


def test_the_same_question_of_two_pages_is_answered_once(
    page: EventSocket, shared: DashboardProcess, gate: Gate
) -> None:
    with EventSocket(shared.base) as other:
        first, second = begin(page), other.ask("comparison", {"with": "before"})
        gate.open()
        reported = page.next("answer", job=first)
        assert reported["job"] == first
        assert other.next("answer", job=second) == {**reported, "id": second}


def test_a_page_that_was_away_goes_on_where_it_was(shared: DashboardProcess, gate: Gate) -> None:
    with EventSocket(shared.base) as page:
        job = begin(page)
    with EventSocket(shared.base) as back:
        back.ask("comparison", {"with": "before"}, job)
        gate.open()
        assert back.end(job)["ok"]
    # And once more, for it may have been away when the answer came.
    with EventSocket(shared.base) as later:
        later.ask("comparison", {"with": "before"}, job)
        assert later.next("answer", job=job)["job"] == job


def test_jobs_of_a_page_that_has_gone_end(shared: DashboardProcess, gate: Gate) -> None:
    with EventSocket(shared.base) as page:
        job = begin(page)
    wait_until(lambda: all(folder.name != job for folder in folders(shared)))
    gate.open()


def test_a_page_cannot_end_the_question_of_another(
    page: EventSocket, shared: DashboardProcess, gate: Gate
) -> None:
    job = begin(page)
    with EventSocket(shared.base) as other:
        other.emit("cancel", {"id": job})
        # What is said to one server is done in order.
        others = [other.ask("comparison", {"with": "before"}) for _ in range(MOST_OF_PAGE + 1)]
        assert other.end(others[-1]) == TOO_MANY
    gate.open()
    assert page.end(job)["ok"]


@pytest.mark.thorough
def test_what_takes_too_long_is_stopped(alone: DashboardProcess, gate: Gate) -> None:
    with EventSocket(alone.base) as page:
        job = begin(page)
        # As Celery does when the time is over.
        os.kill(workers(alone)[1], signal.SIGUSR1)
        assert page.end(job) == TOO_LONG
        gate.open()
        assert page.end(page.ask("comparison", {"with": "before"}))["ok"]


def test_a_worker_that_is_killed_is_said_and_replaced(alone: DashboardProcess, gate: Gate) -> None:
    with EventSocket(alone.base) as page:
        job = begin(page)
        waits, works = workers(alone)
        os.kill(waits, signal.SIGKILL)
        assert page.end(job) == LOST
        wait_until_gone([works])
        gate.open()
        assert page.end(page.ask("comparison", {"with": "before"}))["ok"]
        assert waits not in workers(alone)


@pytest.mark.thorough
def test_questions_in_the_queue_outlive_the_worker(alone: DashboardProcess, gate: Gate) -> None:
    with EventSocket(alone.base) as page:
        job, queued = begin(page), page.ask("export", {"form": "v2"})
        os.kill(workers(alone)[0], signal.SIGKILL)
        assert page.end(job) == LOST
        assert page.end(queued)["name"] == "heat-v2.zip"


@pytest.mark.thorough
def test_an_answering_process_that_is_killed_is_said_and_replaced(
    alone: DashboardProcess, gate: Gate
) -> None:
    with EventSocket(alone.base) as page:
        job = begin(page)
        waits, works = workers(alone)
        os.kill(works, signal.SIGKILL)
        assert page.end(job) == LOST
        gate.open()
        assert page.end(page.ask("comparison", {"with": "before"}))["ok"]
        assert waits in workers(alone)


@pytest.mark.thorough
@pytest.mark.parametrize("number", first(1, [signal.SIGKILL, signal.SIGTERM]))
def test_nothing_outlives_the_server(alone: DashboardProcess, gate: Gate, number: int) -> None:
    with EventSocket(alone.base) as page:
        job = begin(page)
        folder = next(folder for folder in folders(alone) if folder.name == job)
        below = children(alone.process.pid)
        assert len(below) == 3, "broker, and two processes of the worker"
        os.kill(alone.process.pid, number)
        wait_until_gone([alone.process.pid, *below])
        assert not folder.parent.exists()


@pytest.mark.thorough
def test_a_broker_that_is_lost_is_said_and_replaced(alone: DashboardProcess, gate: Gate) -> None:
    with EventSocket(alone.base) as page:
        job = begin(page)
        broker = next(pid for pid, words in children(alone.process.pid).items() if "valkey" in words)
        os.kill(broker, signal.SIGKILL)
        assert page.end(job) in (NO_BROKER, LOST)
        gate.open()
        assert page.end(page.ask("comparison", {"with": "before"}))["ok"]


@pytest.mark.thorough
def test_the_broker_of_a_live_run_is_left_alone(tmp_path: Path, broker: PrivateBroker) -> None:
    """It may be a cluster, with which Celery cannot speak, and large answers would hold the run up."""
    made = make_run(tmp_path / "heat", "running", 20)
    with redis.Redis.from_url(broker.url) as client, dashboard(made, broker.url) as process:
        with EventSocket(process.base) as page:
            assert page.end(page.ask("export", {"form": "v2"}))["name"] == "heat-v2.zip"
            assert any("valkey" in words for words in children(process.process.pid).values())
        assert client.keys("*chimbuko*") == []
        assert (made.directory.logs / "jobs.log").exists()


@pytest.mark.thorough
def test_workers_that_somebody_started_answer_too(
    runs: MadeRun, broker: PrivateBroker, tmp_path: Path
) -> None:
    shared = {"CHIMBUKO_JOBS_BROKER": broker.url, "CHIMBUKO_JOBS_FOLDER": str(tmp_path)}
    with dashboard(runs, environment=shared) as process, EventSocket(process.base) as page:
        command = [sys.executable, "-m", "celery", "--quiet", "-A", "chimbuko.viz.jobs.worker", "worker"]
        with subprocess.Popen([*command, "--loglevel", "ERROR"], env=os.environ | shared) as worker:
            try:
                # On a busy machine it takes longer to come than a question waits for one.
                reported: Any = NO_WORKER
                while reported == NO_WORKER:
                    job = page.ask("export", {"form": "v2"})
                    reported = page.end(job)
                assert reported["name"] == "heat-v2.zip"
                assert len(fetch(process.base, job).content) == reported["bytes"]
                assert children(process.process.pid) == {}
            finally:
                worker.terminate()
        assert process.stop()[0] == 0
        assert tmp_path.is_dir()


def test_without_workers_it_is_said_where_to_start_one(
    runs: MadeRun, broker: PrivateBroker, tmp_path: Path
) -> None:
    shared = {"CHIMBUKO_JOBS_BROKER": broker.url, "CHIMBUKO_JOBS_FOLDER": str(tmp_path)}
    with dashboard(runs, environment=shared) as process, EventSocket(process.base) as page:
        assert page.end(page.ask("export", {"form": "v2"})) == NO_WORKER


@pytest.mark.thorough
def test_a_worker_without_work_ends(tmp_path: Path, broker: PrivateBroker) -> None:
    command = [sys.executable, "-m", "chimbuko.viz.jobs", "--folder", str(tmp_path), "--idle", "1"]
    environment = os.environ | {"CHIMBUKO_JOBS_BROKER": broker.url}
    worker = subprocess.run(command, env=environment, timeout=PATIENCE_S, capture_output=True)
    assert worker.returncode == 0
    assert tmp_path.is_dir()


@pytest.mark.thorough
def test_a_second_worker_over_a_folder_ends_at_once(alone: DashboardProcess, gate: Gate) -> None:
    with EventSocket(alone.base) as page:
        begin(page)
        folder = folders(alone)[0].parent
        command = [sys.executable, "-m", "chimbuko.viz.jobs", "--folder", str(folder), "--idle", "1000"]
        environment = os.environ | {"CHIMBUKO_JOBS_BROKER": "redis://127.0.0.1:1/0"}
        assert (
            subprocess.run(command, env=environment, timeout=PATIENCE_S, capture_output=True).returncode == 0
        )


@pytest.mark.thorough
def test_a_cluster_is_refused_as_broker_of_questions(runs: MadeRun, cluster: str, tmp_path: Path) -> None:
    shared = {"CHIMBUKO_JOBS_BROKER": cluster, "CHIMBUKO_JOBS_FOLDER": str(tmp_path)}
    with dashboard(runs, environment=shared) as process, EventSocket(process.base) as page:
        job = page.ask("export", {"form": "v2"})
        assert "single server" in str(page.end(job))
