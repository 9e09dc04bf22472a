"""One load on the real server: simulated agents in this process, server and broker beside it."""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
import redis

from benchmarks.server.agents import Follower, RealAgent, SimulatedAgent, encode
from benchmarks.server.driving import Driver
from benchmarks.server.load import Load, Seconds
from benchmarks.server.services import KEYS, RUN_ID, SEAL, Services
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import TableSchema, schema_of
from chimbuko.runtime.protocol.broker import connect
from chimbuko.runtime.protocol.messages import Frame
from chimbuko.runtime.protocol.runbroker import RunBroker

MOST_REAL = 25_000
"""Agents times functions; where there are more, only some agents are real: 50 of the loads here."""
LEAST_FOLLOWERS = 4
"""Agents that follow a real one, where not all are real."""
JOIN_PERIODS = 10
"""How long it takes until all agents have joined."""
KINDS = {True: 8, False: 64}
"""Drawn seconds per program, by whether agents have several ranks: those of one rank hold few calls each."""
SNAPSHOT_S = 10.0
MOST_FRAMES = 1000


@dataclass
class Result:
    """What was measured under one load."""

    load: str
    agents: int
    ranks: int
    functions: int
    """Of all programs."""
    seconds: float
    messages: int
    put_off: int
    """Periods in which an agent sent nothing, because its last message was not known to be merged."""
    server_cores: float
    broker_cores: float
    driver_cores: float
    delay_p50_ms: float
    delay_p99_ms: float
    delay_max_ms: float
    wait_p99_ms: float
    """From the moment a message was due."""
    delays: int
    """How many messages' delays were measured."""
    driver_lag_p99_ms: float
    """How late the driver itself was: part of the waits."""
    bytes_per_message: float
    """On the wire between agents and broker, both ways, with all that the protocol adds."""
    table_bytes_per_message: float
    """Of them statistics of functions, in messages."""
    row_bytes_per_message: float
    """Rows of the model, on the way back."""
    telemetry_bytes_per_message: float
    """What is for dashboards: messages between ranks, flagged calls, paces of ranks."""
    full_table_bytes: float
    """Statistics in a message that holds all functions."""
    full_row_bytes: float
    """Rows of the model of all functions that an agent uses."""
    lost_messages: int
    wrong_functions: int
    """Functions of which the server has counted other calls than were sent."""
    server_mb: float
    broker_mb: float
    """Largest."""
    frame_bytes_per_s: float
    """What a dashboard gets."""

    @property
    def cores(self) -> float:
        """Server and broker."""
        return self.server_cores + self.broker_cores

    @property
    def message_us(self) -> float:
        """CPU time of server and broker per message."""
        return 1e6 * self.cores * self.seconds / self.messages

    @property
    def rank_us(self) -> float:
        """CPU time of the server per rank and second."""
        return 1e6 * self.cores / self.ranks

    @property
    def full_bytes_per_message(self) -> float:
        """If each message held all functions, and each agent got all of them back: the rest is the same."""
        rest = self.bytes_per_message - self.table_bytes_per_message - self.row_bytes_per_message
        return rest + self.full_table_bytes + self.full_row_bytes

    def as_json(self) -> dict[str, Any]:
        """All that was measured."""
        return asdict(self)


@dataclass
class Sample:
    """At one moment."""

    at_s: float
    server_s: float
    broker_s: float
    driver_s: float
    server_mb: float
    broker_mb: float


def measure(
    load: Load,
    periods: int,
    period_s: float = 1.0,
    are_few_real: bool = False,
    sample_periods: int = 1,
) -> tuple[Result, list[Sample]]:
    """Let all agents send one message per period.

    Parameters
    ----------
    are_few_real
        Most agents are followers, however few there are.
    sample_periods
        Number of periods from one sample to the next.
    """
    schema = schema_of(AnalysisConfig().detector)
    drawn = Seconds(load, schema, KINDS[load.ranks_per_agent > 1])
    agents = make_agents(load, drawn, schema, are_few_real or load.agents * load.functions > MOST_REAL)
    samples: list[Sample] = []
    for_agents, for_services = cores_apart()
    allow_connections(load.agents)
    with (
        tempfile.TemporaryDirectory(prefix="chimbuko-server-") as folder,
        Services(Path(folder), for_services) as services,
    ):
        with connect(services.broker.url) as broker:
            for program in range(load.programs):
                assert RunBroker(broker, RUN_ID).program_number(f"program{program}") == program

        def sample() -> None:
            samples.append(
                Sample(time.monotonic(), *services.cpu_s(), time.process_time(), *services.memory_mb())
            )
            if load.timed and len(samples) == periods // 2:
                # As who publishes them does, which at that size asks every 200 s.
                with connect(services.broker.url) as broker:
                    broker.set(KEYS.part(0).timers_wanted, b"1")

        driver = Driver(
            services.broker.url_elsewhere, agents, periods, period_s, JOIN_PERIODS, sample, sample_periods
        )
        with on_cores(for_agents):
            driver.run()
        with connect(services.broker.url) as broker:
            snapshot = everything_at(broker)
            rows = cast(dict[bytes, bytes], broker.hgetall(KEYS.part(0).model))
            frames = RunBroker(broker, RUN_ID).read(KEYS.frames, b"0", MOST_FRAMES)
    lost, wrong = losses(load, agents, driver, snapshot)
    first, last = samples[0], samples[-1]
    elapsed_s = last.at_s - first.at_s
    traffic = driver.traffic
    result = Result(
        load=load.name,
        agents=load.agents,
        ranks=load.ranks,
        functions=load.programs * load.functions,
        seconds=elapsed_s,
        messages=traffic.messages,
        put_off=traffic.put_off,
        server_cores=(last.server_s - first.server_s) / elapsed_s,
        broker_cores=(last.broker_s - first.broker_s) / elapsed_s,
        driver_cores=(last.driver_s - first.driver_s) / elapsed_s,
        delay_p50_ms=1e3 * percentile(traffic.delays_s, 0.5),
        delay_p99_ms=1e3 * percentile(traffic.delays_s, 0.99),
        delay_max_ms=1e3 * max(traffic.delays_s),
        wait_p99_ms=1e3 * percentile(traffic.waits_s, 0.99),
        delays=len(traffic.delays_s),
        driver_lag_p99_ms=1e3 * percentile(traffic.lags_s, 0.99),
        bytes_per_message=(traffic.sent_bytes + traffic.received_bytes) / traffic.messages,
        table_bytes_per_message=traffic.table_bytes / traffic.messages,
        row_bytes_per_message=traffic.row_bytes / traffic.messages,
        telemetry_bytes_per_message=traffic.telemetry_bytes / traffic.messages,
        full_table_bytes=full_table_bytes(load, schema, drawn),
        full_row_bytes=sum(map(len, rows.values())) / load.programs,
        lost_messages=lost,
        wrong_functions=wrong,
        server_mb=max(sample.server_mb for sample in samples),
        broker_mb=max(sample.broker_mb for sample in samples),
        frame_bytes_per_s=bytes_per_s(frames),
    )
    return result, samples


def make_agents(load: Load, drawn: Seconds, schema: TableSchema, are_few_real: bool) -> list[SimulatedAgent]:
    """All agents of a load, in the order in which they join."""
    # Leaders join right before their followers, so these send what they would have learned themselves.
    group = max(load.agents // JOIN_PERIODS, (1 + LEAST_FOLLOWERS) * load.programs)
    agents: list[SimulatedAgent] = []
    leaders: dict[tuple[int, int], RealAgent] = {}
    for number in range(load.agents):
        of_group, place = divmod(number, group)
        if not are_few_real or place < load.programs:
            leader = RealAgent(load, number, drawn, schema)
            leaders[of_group, load.program_of(number)] = leader
            agents.append(leader)
        else:
            agents.append(Follower(load, number, leaders[of_group, load.program_of(number)], drawn))
    return agents


def full_table_bytes(load: Load, schema: TableSchema, drawn: Seconds) -> float:
    """Statistics in a message that holds all functions: mean over what was drawn."""
    sizes = [
        4 * load.functions + len(encode(schema.pack(drawn.of(program, turn).learned.table)))
        for program in range(load.programs)
        for turn in range(8)
    ]
    return sum(sizes) / len(sizes)


def everything_at(broker: redis.Redis) -> Frame:
    """What a dashboard gets that comes late."""
    broker.set(KEYS.part(0).snapshot_wanted, "1")
    deadline = time.monotonic() + SNAPSHOT_S
    while time.monotonic() < deadline:
        answer = broker.get(KEYS.part(0).snapshot)
        if isinstance(answer, bytes):
            return SEAL.decode(answer, msgspec.msgpack.Decoder(Frame))
        time.sleep(0.05)
    raise SystemExit("the server gave no snapshot")


def bytes_per_s(entries: Sequence[tuple[bytes, bytes]]) -> float:
    """Of a stream, over the time in which these entries were written; their ids begin with it, in ms."""
    first, last = (int(entries[at][0].partition(b"-")[0]) for at in (0, -1))
    return 1e3 * sum(len(payload) for _, payload in entries[1:]) / max(last - first, 1)


def losses(load: Load, agents: Sequence[SimulatedAgent], driver: Driver, snapshot: Frame) -> tuple[int, int]:
    """Messages that are not in the server's counts, and functions of which it counted other calls."""
    calls: Counter[tuple[int, str]] = Counter()
    for agent in agents:
        for timer, name in load.timers(agent.program).items():
            calls[agent.program, name] += int(agent.calls[timer])
    counted = {(one.program, one.name): one.calls for one in snapshot.functions}
    wrong = sum(counted.get(function, 0) != sent for function, sent in calls.items())
    steps = sum(rank.steps for rank in snapshot.ranks)
    missing = driver.traffic.messages - steps // load.ranks_per_agent
    return max(missing, driver.not_merged), wrong


def allow_connections(count: int) -> None:
    """Let this process, and those that it starts, have so many connections at a time."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 200
    if hard < wanted:
        raise SystemExit(f"{count} connections need 'ulimit -Hn' to be {wanted} at least; it is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def cores_apart() -> tuple[set[int], set[int]]:
    """For the agents, and for server and broker; the same one where there is only one."""
    cores = sorted(os.sched_getaffinity(0))
    return {cores[0]}, {cores[-1]}


@contextmanager
def on_cores(cores: set[int]) -> Iterator[None]:
    """This process has these cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of the values do not exceed."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]
