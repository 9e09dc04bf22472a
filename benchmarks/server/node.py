"""What a service node carries: all services of a run, for 250 nodes of 40 ranks.

Run: python -m benchmarks.server.node [--nodes N] [--seconds S] [--findings F] [--json]

``chimbuko serve`` as users start it, with SQLite and a dashboard that was looked at, on one core; simulated
agents on another. Each agent exchanges its model once a second as in ``benchmarks.server``, calls the roll
twice a second, and sends findings and the steps of its ranks to the store: those of three seconds together,
as agents do with steps that are fine. Delays of the model are from sending a message to its merging; of the
store from sending a batch to its acknowledgement.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import requests

from benchmarks.measuring import descendants, table
from benchmarks.server.agents import SimulatedAgent, encode
from benchmarks.server.driving import Driver
from benchmarks.server.load import Load, Seconds, health, step_count
from benchmarks.server.measure import (
    JOIN_PERIODS,
    KINDS,
    MOST_FRAMES,
    allow_connections,
    bytes_per_s,
    cores_apart,
    make_agents,
    on_cores,
    percentile,
)
from benchmarks.server.services import KEYS, RUN_ID, SEAL, cpu_seconds_of, pss_mb
from benchmarks.server.wire import Life, Requests, command
from benchmarks.store import record
from chimbuko.core.calls.record import StepCount
from chimbuko.core.calls.recordarrays import PackedRecords, pack
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import schema_of
from chimbuko.launcher.host import Host
from chimbuko.launcher.options import HostOptions
from chimbuko.launcher.outcome.summary import Result
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.protocol.membership import Answer, ask_to_end
from chimbuko.runtime.protocol.messages import PAYLOAD, RecordBatch
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.runs.directory import RunDirectory, new_run

ROLL_CALL_S = 0.5
QUIET_PERIODS = 3
"""Steps of so many periods go to the store together."""
WATCHED = 25
"""Agents that look when the store has their findings."""
LOOK_S = 0.02
SAMPLE_PERIODS = 10
PARTS = {
    "chimbuko.pserver": "server",
    "valkey-server": "broker",
    "chimbuko.provenance.service": "writer",
    "chimbuko.viz": "dashboard",
}


@dataclass
class Part:
    """What one of the services takes."""

    name: str
    cores: float
    pss_mb: float


@dataclass
class NodeResult:
    """What was measured."""

    nodes: int
    ranks: int
    seconds: float
    parts: list[Part]
    model_p50_ms: float
    model_p99_ms: float
    store_p50_ms: float
    store_p99_ms: float
    messages_per_s: float
    findings_per_s: float
    not_merged: int
    not_stored: int
    end_s: float
    """From the last message of the agents until all was stored, and the services had ended."""
    driver_lag_p99_ms: float
    wire_bytes_per_s: float
    """Between agents and broker, both ways."""
    frame_bytes_per_s: float
    store_bytes: int
    """All that is stored in the end."""


class NodeDriver(Driver):
    """Agents that call the roll and have findings, too."""

    def __init__(
        self,
        url: str,
        agents: list[SimulatedAgent],
        load: Load,
        periods: int,
        findings_per_s: float,
        sample: Any,
        period_s: float,
    ) -> None:
        super().__init__(url, agents, periods, period_s, JOIN_PERIODS, sample, SAMPLE_PERIODS)
        self.store_s: list[float] = []
        """From sending a batch to its acknowledgement."""
        self.findings = 0
        self._load, self._findings_per_period = load, findings_per_s * period_s
        for number, agent in enumerate(agents):
            joins = JOIN_PERIODS * number / len(agents)
            self._wire.connect(self._roll_call(agent, joins))
            self._wire.connect(self._deliver(agent, number, joins))

    def _roll_call(self, agent: SimulatedAgent, joins: float) -> Life:
        yield self._moment(joins)
        while self._living:
            answer = encode(Answer(time.monotonic_ns(), False, []))
            said = command(b"HSET", KEYS.roll_call.encode(), agent.name.encode(), answer)
            yield Requests(said + command(b"GET", KEYS.ending.encode()), 2)
            yield time.monotonic() + ROLL_CALL_S
        answer = encode(Answer(time.monotonic_ns(), True, []))
        yield Requests(command(b"HSET", KEYS.roll_call.encode(), agent.name.encode(), answer))

    def _deliver(self, agent: SimulatedAgent, number: int, joins: float) -> Life:
        owed = 0.0
        for turn in range(QUIET_PERIODS, self._periods - int(joins), QUIET_PERIODS):
            yield self._moment(joins + turn)
            owed += QUIET_PERIODS * self._findings_per_period
            found, owed = int(owed), owed - int(owed)
            sent_s = time.monotonic()
            frames = self._frames(agent, turn, found)
            yield Requests(
                b"".join(
                    command(b"XADD", KEYS.records.encode(), b"*", PAYLOAD, SEAL.encode(one)) for one in frames
                ),
                len(frames),
            )
            if number % max(len(self._links) // WATCHED, 1) == 0:
                yield from self._await_store(frames[0], sent_s)

    def _await_store(self, batch: RecordBatch, sent_s: float) -> Any:
        acknowledged = 0
        while acknowledged < batch.sequence:
            yield time.monotonic() + LOOK_S
            (answer,) = yield Requests(command(b"HGET", KEYS.record_acks.encode(), batch.stream.encode()))
            acknowledged = int(answer or 0)
        self.store_s.append(time.monotonic() - sent_s)

    def _frames(self, agent: SimulatedAgent, turn: int, found: int) -> list[RecordBatch]:
        load, program = self._load, agent.program
        frames = []
        for place, rank in enumerate(agent.ranks):
            steps: list[StepCount] = [
                step_count(load, program, rank, step, 0, 0.0) for step in range(turn - QUIET_PERIODS, turn)
            ]
            records = PackedRecords()
            if place == 0 and found:
                made = [record(10 * turn + number) for number in range(found)]
                records = pack([self._of(one, program, rank, agent.name) for one in made])
                self.findings += found
            totals = health(load, program, rank, agent.name, turn, 0)
            frames.append(RecordBatch(f"{program}:{rank}", turn, records, steps, [], totals, {}))
        return frames

    def _of(self, one: Any, program: int, rank: int, node: str) -> Any:
        place = one.id.split(":", 2)[2]
        return msgspec.structs.replace(
            one, id=f"{program}:{rank}:{place}", program=program, rank=rank, node=node
        )


class Services:
    """``chimbuko serve`` in a process of its own, with a run whose id the simulated agents know."""

    def __init__(self, folder: Path, cores: set[int]) -> None:
        self.run = RunDirectory(folder / "run")
        words = [sys.executable, "-m", "benchmarks.server.node", "--lead", str(self.run.path)]
        with on_cores(cores):
            self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not self.run.dashboard_path.exists():
            if self.process.poll() is not None:
                raise SystemExit("the services did not start")
            time.sleep(0.05)
        requests.get(self.run.dashboard_path.read_text().strip(), timeout=60).raise_for_status()

    def parts(self) -> dict[str, list[int]]:
        """Processes of each service; what leads them is ``serve``."""
        found: dict[str, list[int]] = {"serve": [self.process.pid]}
        for process in descendants(self.process.pid):
            name = next((PARTS[key] for key in PARTS if key in process.command), "serve")
            found.setdefault(name, []).append(process.pid)
        return found


def lead(folder: Path) -> None:
    """Be the services, until asked to end."""
    run = new_run(folder, ["benchmark"], AnalysisConfig(), None)
    run.write_info(msgspec.structs.replace(run.read_info(), id=RUN_ID))

    def show(result: Result) -> None:
        """Nobody reads it."""

    sys.exit(Host(run, HostOptions(), is_resumed=False).lead(show))


def inner_url(url: str, pid: int) -> str:
    """The broker's URL for processes of its node: others come by a door with TLS. It is process ``pid``."""
    title = Path(f"/proc/{pid}/cmdline").read_text()
    path = title.partition("unixsocket:")[2].split("\0")[0].split()[0]
    place = urlsplit(url)
    return f"unix://{place.username}:{place.password}@{path}"


def measure(
    load: Load, periods: int, findings_per_s: float, period_s: float = 1.0, has_joining: bool = True
) -> NodeResult:
    """Let all nodes be at work for so many periods; cores count from the first, or once all have joined."""
    schema = schema_of(AnalysisConfig().detector)
    agents = make_agents(load, Seconds(load, schema, KINDS[True]), schema, are_few_real=True)
    for_agents, for_services = cores_apart()
    allow_connections(4 * load.agents)
    samples: list[tuple[float, dict[str, float], int]] = []
    memory_mb: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="chimbuko-node-") as folder:
        services = Services(Path(folder), for_services)
        parts = services.parts()
        url = inner_url(services.run.read_broker_url(), parts["broker"][0])
        broker = RunBroker.connect(url, RUN_ID)
        for program in range(load.programs):
            assert broker.program_number(f"program{program}") == program

        def sample() -> None:
            used = {name: sum(map(cpu_seconds_of, pids)) for name, pids in parts.items()}
            samples.append((time.monotonic(), used, driver.wire_bytes))
            for name, pids in parts.items():
                memory_mb[name] = max(memory_mb[name], round(sum(map(pss_mb, pids))))

        driver = NodeDriver(url, agents, load, periods, findings_per_s, sample, period_s)
        with on_cores(for_agents):
            driver.run()
        ending_s = time.monotonic()
        frames = broker.read(KEYS.frames, b"0", MOST_FRAMES)
        assert ask_to_end(broker)
        broker.client.close()
        if services.process.wait(300):
            raise SystemExit("the services did not end in order")
        end_s = time.monotonic() - ending_s
        with open_run(services.run) as provenance:
            stored = provenance.calls.count(CallFilter())
        store_bytes = services.run.store_path.stat().st_size
    if not has_joining:
        del samples[: -(-JOIN_PERIODS // SAMPLE_PERIODS)]
    (began_s, before, bytes_before), (ended_s, after, bytes_after) = samples[0], samples[-1]
    elapsed_s = ended_s - began_s
    traffic = driver.traffic
    return NodeResult(
        nodes=load.agents,
        ranks=load.ranks,
        seconds=elapsed_s,
        parts=[
            Part(name, (after[name] - before[name]) / elapsed_s, memory_mb[name])
            for name in ("serve", *PARTS.values())
            if name in after
        ],
        model_p50_ms=1e3 * percentile(traffic.delays_s, 0.5),
        model_p99_ms=1e3 * percentile(traffic.delays_s, 0.99),
        store_p50_ms=1e3 * percentile(driver.store_s, 0.5),
        store_p99_ms=1e3 * percentile(driver.store_s, 0.99),
        messages_per_s=traffic.messages / elapsed_s,
        findings_per_s=driver.findings / elapsed_s,
        not_merged=driver.not_merged,
        not_stored=driver.findings - stored,
        end_s=end_s,
        driver_lag_p99_ms=1e3 * percentile(traffic.lags_s, 0.99),
        wire_bytes_per_s=(bytes_after - bytes_before) / elapsed_s,
        frame_bytes_per_s=bytes_per_s(frames),
        store_bytes=store_bytes,
    )


def parts_table(result: NodeResult) -> str:
    """Each service."""
    rows = [(part.name, f"{part.cores:.2f}", f"{part.pss_mb:.0f}") for part in result.parts]
    total = (sum(part.cores for part in result.parts), sum(part.pss_mb for part in result.parts))
    return table(("service", "cores", "PSS MB"), [*rows, ("all", f"{total[0]:.2f}", f"{total[1]:.0f}")])


def delays_table(result: NodeResult) -> str:
    """How long things take, and whether all arrived."""
    heads = (
        *("messages/s", "findings/s", "model p50 ms", "p99 ms", "store p50 ms", "p99 ms"),
        *("messages lost", "findings lost", "end s", "driver late, p99 ms"),
    )
    row = (
        *(f"{rate:,.0f}" for rate in (result.messages_per_s, result.findings_per_s)),
        *(f"{ms:,.0f}" for ms in (result.model_p50_ms, result.model_p99_ms)),
        *(f"{ms:,.0f}" for ms in (result.store_p50_ms, result.store_p99_ms)),
        *(f"{lost:,}" for lost in (result.not_merged, result.not_stored)),
        f"{result.end_s:.1f}",
        f"{result.driver_lag_p99_ms:,.0f}",
    )
    return table(heads, [row])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=250)
    parser.add_argument("--ranks", type=int, default=40, help="of each node")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--findings", type=float, default=1.0, help="abnormal calls of a node per second")
    parser.add_argument("--json", action="store_true", help="print all that was measured as JSON")
    parser.add_argument("--lead", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.lead is not None:
        lead(options.lead)
    result = measure(Load(options.nodes, options.ranks), options.seconds, options.findings)
    if options.json:
        print(json.dumps(asdict(result), indent=1))
        return
    print(f"{result.nodes} nodes of {result.ranks // result.nodes} ranks, {result.seconds:.0f} s")
    print(parts_table(result))
    print("\nDelays, and what arrived")
    print(delays_table(result))


if __name__ == "__main__":
    main()
