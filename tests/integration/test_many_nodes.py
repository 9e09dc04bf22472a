"""Services on one node and agents on others: nodes are network namespaces that ssh, a stand-in, enters."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from chimbuko.capture.trace.discovery import Transport
from chimbuko.capture.trace.tausettings import application_settings
from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.errors import ChimbukoError
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.protocol.rankclaims import rivalries
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.runs.directory import RunDirectory
from examples.findings import all_anomalies
from tests.capture.trace.whole_streams import read_stream
from tests.integration.conftest import STAND_IN, command_line
from tests.integration.namespaces import Network, NotPermitted
from tests.patience import PATIENCE_S
from tests.places import STAND_INS
from tests.thorough import first

CHIMBUKO = [sys.executable, "-m", "chimbuko"]
SSH = STAND_INS / "ssh"
RANKS = 4
DELAYS = 2
CHECKPOINT = "checkpoint [{app.c} {40,0}]"
CHECKPOINT_EVERY_S = 0.5
"""The stand-in calls it so often."""
PROGRAM = f"""
import time

def relax(number):
    time.sleep(0.25 if number in (200, 300)[:{DELAYS}] else 0.004)

def exchange():
    time.sleep(0.002)

for number in range(400):
    relax(number)
    exchange()
"""


class Hosts:
    """Namespaces that know each other by name."""

    def __init__(self, network: Network, nodes: int, folder: Path) -> None:
        self.names = [network.name(node) for node in range(nodes)]
        known = [f"{network.address(node)} {name}" for node, name in enumerate(self.names)]
        (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *known, ""]))
        (folder / "bin").mkdir()
        (folder / "bin" / "ssh").symlink_to(SSH)
        path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "STAND_IN_HOSTS": str(folder / "hosts")}

    def start(self, name: str, command: str, log: Path) -> subprocess.Popen[bytes]:
        """Run a shell's command on a host."""
        with log.open("wb") as output:
            return subprocess.Popen(
                [SSH, name, command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment,
            )


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    nodes = 3
    try:
        with Network(nodes) as network:
            yield Hosts(network, nodes, tmp_path)
    except NotPermitted as reason:
        pytest.skip(f"no network namespaces here: {reason}")


def wait_until(
    condition: Callable[[], bool], process: subprocess.Popen[bytes], timeout_s: float = PATIENCE_S
) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)


@contextmanager
def ended(*processes: subprocess.Popen[bytes]) -> Iterator[None]:
    """None of them is left behind by a failed test."""
    try:
        yield
    finally:
        for process in processes:
            if process.poll() is None:
                process.terminate()
        for process in processes:
            process.wait(PATIENCE_S)


def processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def spec_of(agent: int, line: str) -> str:
    """What an agent was given at its start: a file that it has open."""
    return Path(line.split()[-1].replace("self", str(agent))).read_text()


def health_of(run: RunDirectory) -> list[StreamHealth]:
    """Nothing before there is a store."""
    try:
        with open_run(run) as provenance:
            return provenance.health()
    except ChimbukoError:
        return []


@pytest.mark.skipif(shutil.which("mpirun", path=str(Path(sys.executable).parent)) is None, reason="no mpirun")
@pytest.mark.thorough
def test_job_script_for_hosts_runs_services_agents_and_ranks(hosts: Hosts, tmp_path: Path) -> None:
    program, script, log = tmp_path / "program.py", tmp_path / "job.sh", tmp_path / "job.log"
    program.write_text(PROGRAM)
    run, core = RunDirectory(tmp_path / "run"), min(os.sched_getaffinity(0))
    options = ["--hosts", ",".join(hosts.names), "--dedicated", "-n", str(RANKS), "--cores", str(core)]
    options += ["--run", str(run.path), "--streams", str(tmp_path / "local"), "-o", str(script)]
    traced = [*CHIMBUKO, "trace", str(program)]
    subprocess.run([*CHIMBUKO, "launch", *options, "--", *traced], check=True)
    job = hosts.start(hosts.names[0], f"bash {script}", log)
    with ended(job):
        wait_until(lambda: len(list(tmp_path.glob("local/*/*/*.bp"))) == RANKS, job)
        url = run.read_broker_url()
        token = run.dashboard_path.read_text().rpartition("=")[2]
        secrets = [str(urlsplit(url).password), token]
        assert urlsplit(url).hostname not in ("127.0.0.1", None)
        commands = {pid: command_line(pid) for pid in processes()}
        assert not [line for line in commands.values() if any(secret in line for secret in secrets)]
        agents = [
            pid
            for pid, line in commands.items()
            if "chimbuko.ad.agent" in line and any(name in spec_of(pid, line) for name in hosts.names)
        ]
        assert len(agents) == 2
        assert all(os.sched_getaffinity(pid) == {core} for pid in agents)
        assert job.wait(PATIENCE_S) == 0, log.read_text()
    for secret in secrets:
        assert secret not in log.read_text() + script.read_text()
        assert not [
            path for path in run.path.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()
        ]
    assert run.path.stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "local").iterdir()) == []
    with open_run(run) as provenance:
        found, health = all_anomalies(provenance), provenance.health()
    assert run.read_info().state == "finished"
    assert {stream.node for stream in health} == set(hosts.names[1:])
    assert len(found) == sum(stream.anomalies for stream in health), log.read_text()
    assert [(s.state, s.gap_steps, s.losses) for s in health] == [("ended", 0, {})] * RANKS, log.read_text()
    for rank in range(RANKS):
        delayed = [c for c in found if c.rank == rank and c.inclusive_us > 200_000 and "relax" in c.function]
        assert len(delayed) == DELAYS, log.read_text()


PROGRESS = "progress"


def begin_by_hand(folder: Path, transport: Transport) -> tuple[subprocess.Popen[bytes], Path, Path]:
    """A job that streams without us, until its input ends; with the folder of its stream, and its report."""
    streams, settings, report = folder / "streams", folder / "settings", folder / "report.json"
    for made in (streams, settings):
        made.mkdir()
    environment = application_settings(settings, streams, 200_000, os.environ, transport)
    command = [*map(str, STAND_IN), "-T", "serial", "-adios2_trace", "cat"]
    job = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        env={
            **os.environ,
            **environment,
            "STAND_IN_REPORT": str(report),
            "STAND_IN_PROGRESS": str(folder / PROGRESS),
        },
    )
    return job, streams, report


def written(folder: Path) -> int:
    """Steps that the job has written until now."""
    return (folder / PROGRESS).stat().st_size


def begin_services(run: RunDirectory, job: subprocess.Popen[bytes], *options: str) -> subprocess.Popen[bytes]:
    services = subprocess.Popen([*CHIMBUKO, "serve", str(run.path), "--no-dashboard", *options])
    wait_until(run.broker_path.exists, job)
    return services


@pytest.mark.parametrize("transport", first(1, [Transport.FILES, Transport.SST]))
def test_agents_join_a_job_that_runs_already_and_one_of_them_reads_it(
    transport: Transport, tmp_path: Path
) -> None:
    run = RunDirectory(tmp_path / "run")
    job, streams, report = begin_by_hand(tmp_path, transport)
    with ended(job):
        wait_until(lambda: any(streams.iterdir()), job)
        # All but the first steps are written when somebody comes, with names of their own.
        time.sleep(2 * CHECKPOINT_EVERY_S)
        services = begin_services(run, job)
        agents = [
            subprocess.Popen([*CHIMBUKO, "agent", str(run.path), "--streams", str(streams), "--node", node])
            for node in ("node0", "node1")
        ]
        with ended(services, *agents):
            broker = RunBroker.connect(run.read_broker_url(), run.read_info().id)
            wait_until(lambda: bool(rivalries(broker)), job)
            (line,) = rivalries(broker)
            broker.client.close()
            wait_until(lambda: sum(stream.steps for stream in health_of(run)) >= 5, job)
            job.communicate()
            assert job.returncode == 0
            subprocess.run([*CHIMBUKO, "stop", str(run.path)], check=True)
            assert [agent.wait(PATIENCE_S) for agent in agents] == [0, 0]
            assert services.wait(PATIENCE_S) == 0
    assert line.startswith("cat, rank 0, is on several nodes")
    measured = json.loads(report.read_text())
    (stream,) = health_of(run)
    if transport is Transport.FILES:
        # They are left as they were written, and so all is there, whoever comes late.
        assert (stream.state, stream.steps, stream.gap_steps) == ("ended", measured["steps"], 0)
        assert (stream.rows, stream.losses) == (measured["rows"], {})
        assert len(read_stream(streams / "tau-metrics-cat-0.bp", "BPFile")) == measured["steps"]
    else:
        assert stream.gap_steps > 0
        # On a busy machine the last step may be thrown away, which leaves no gap.
        missing = measured["steps"] - stream.steps - stream.gap_steps
        assert missing == 0 if stream.state == "ended" else missing > 0
    with open_run(run) as provenance:
        names = {function.name for function in provenance.function_statistics()}
    # Most names come with the first step, which waits for every reader; one in a lost step is reported.
    assert "step [{app.c} {20,0}]" in names
    assert (CHECKPOINT in names) or "rows of a timer whose name was in a lost step" in stream.losses
    assert not run.broker_path.exists()


@pytest.mark.parametrize("transport", [Transport.FILES, Transport.SST])
@pytest.mark.thorough
def test_a_run_that_is_stopped_leaves_its_job_alone(transport: Transport, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    job, streams, report = begin_by_hand(tmp_path, transport)
    with ended(job):
        services = begin_services(run, job)
        agent = subprocess.Popen([*CHIMBUKO, "agent", str(run.path), "--streams", str(streams)])
        with ended(services, agent):
            wait_until(lambda: bool(health_of(run)), job)
            services.send_signal(signal.SIGTERM)
            assert agent.wait(PATIENCE_S) == 0
            assert services.wait(PATIENCE_S) == 0
        before = written(tmp_path)
        wait_until(lambda: written(tmp_path) > before + 5, job)
        job.communicate()
        assert job.returncode == 0
    measured = json.loads(report.read_text())
    (stream,) = health_of(run)
    assert 0 < stream.steps < measured["steps"]
    late = subprocess.run([*CHIMBUKO, "agent", str(run.path)], capture_output=True, text=True, check=False)
    assert late.returncode == 0 and "has ended" in late.stderr
