"""Our own processes: ready, asked to stop, killed, and never left behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chimbuko.core.errors import ServiceError
from chimbuko.runtime.process.service import Service
from tests.patience import PATIENCE_S

READY = """from chimbuko.runtime.process import signals
from chimbuko.runtime.process.lifetime import say_ready
from chimbuko.runtime.process.signals import StopSignal
import os, sys, time
"""

Starter = Callable[[str], Service]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Starter]:
    """Starts a service whose module has this text."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    started: list[Service] = []

    def make(text: str) -> Service:
        (tmp_path / "made_service.py").write_text(READY + text)
        started.append(Service("made", "made_service", ["--flag"], {"SECRET": "s3cret"}, tmp_path))
        return started[-1]

    yield make
    for service in started:
        service.stop(0.0)


def test_a_service_reports_facts_when_it_is_ready_and_stops_in_order(start: Starter, tmp_path: Path) -> None:
    service = start(
        "stop = StopSignal()\n"
        "say_ready(port=4711, arguments=sys.argv[1:], secret=os.environ['SECRET'])\n"
        "while not stop(): time.sleep(0.01)\n"
        "print('bye', file=sys.stderr)"
    )
    assert service.wait_ready() == {"port": 4711, "arguments": ["--flag"], "secret": "s3cret"}
    assert service.is_running
    assert b"s3cret" not in Path(f"/proc/{service.process.pid}/cmdline").read_bytes()
    assert service.stop(10.0)
    assert not service.is_running and service.process.returncode == 0
    assert (tmp_path / "made.log").read_text() == "bye\n"


def test_one_that_is_asked_again_and_again_is_not_killed_by_that(start: Starter) -> None:
    """Also not in Python's last moments, when signals do again what they do by default."""
    service = start("stop = StopSignal()\nsay_ready()\nwhile not stop(): time.sleep(0.01)")
    service.wait_ready()
    while service.is_running:
        service.ask_to_stop()
    assert service.process.returncode == 0


def test_one_that_does_not_listen_is_killed(start: Starter) -> None:
    service = start(
        "import signal; signal.signal(signals.END, signal.SIG_IGN)\nsay_ready()\ntime.sleep(1000)"
    )
    service.wait_ready()
    assert not service.stop(0.1)
    assert service.process.returncode == -signal.SIGKILL


def test_one_that_fails_at_once_is_reported_with_its_last_line(start: Starter, tmp_path: Path) -> None:
    service = start("print('chimbuko: port 1 is taken', file=sys.stderr); sys.exit(4)")
    with pytest.raises(ServiceError) as error:
        service.wait_ready()
    assert str(error.value) == f"made did not start: port 1 is taken (its log is {tmp_path / 'made.log'})"
    assert not service.is_running


def test_one_that_never_becomes_ready_is_ended(start: Starter) -> None:
    service = start("time.sleep(1000)")
    with pytest.raises(ServiceError, match="made did not start: it said nothing"):
        service.wait_ready(timeout_s=0.2)
    assert not service.is_running


def test_a_service_can_be_started_again(start: Starter) -> None:
    service = start("say_ready(pid=os.getpid())\ntime.sleep(1000)")
    first = service.wait_ready()["pid"]
    service.process.send_signal(signal.SIGKILL)
    service.process.wait()
    service.start_again()
    assert service.wait_ready()["pid"] == service.process.pid != first


LAUNCH_AND_WAIT = """
import sys
from pathlib import Path
from chimbuko.core.errors import ServiceError
from chimbuko.runtime.process.service import Service
service = Service("made", "made_service", [], {}, Path(sys.argv[1]))
print(service.wait_ready()["pid"], flush=True)
sys.stdin.read()
"""


def test_services_do_not_outlive_a_killed_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "made_service.py").write_text(READY + "say_ready(pid=os.getpid())\ntime.sleep(1000)")
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCH_AND_WAIT, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert launcher.stdout is not None
    service = os.pidfd_open(int(launcher.stdout.readline()))
    launcher.kill()
    launcher.communicate()
    ended = select.poll()
    ended.register(service, select.POLLIN)
    assert ended.poll(10_000)
    os.close(service)


def test_a_process_that_is_to_end_does_not_wait_for_ever() -> None:
    words = "import threading\nfrom chimbuko.runtime.process.lifetime import end_within\nend_within(0.1)\n"
    for last, code in (("threading.Event().wait()", 0), ("raise SystemExit(3)", 3)):
        command = [sys.executable, "-c", words + last]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert (done.returncode, "is killed" in done.stderr) == (code, code == 0)
