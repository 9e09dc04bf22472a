"""Whatever happens to server, broker and agents: each step counts once, or is reported lost.

A small version of it; ``make faults`` does everything again and again.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest
from redis.cluster import RedisCluster

from chimbuko.core.statistics.model import load_model
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.protocol.broker import PrivateBroker, connect
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE
from chimbuko.runtime.protocol.runbroker import RunBroker, RunKeys
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.runtime.runs.namedstores import STORE_VARIABLE
from chimbuko.runtime.runs.scratch import left_behind
from tests.integration.conftest import AGENT, BROKER, ROUNDS, SERVER, STORE, Command, Outcome, Run, Start
from tests.integration.faults import (
    Fault,
    assert_all_counted_once,
    assert_all_stored_once,
    fill_memory,
    kill,
    kill_agents_at_end,
    kill_agents_for_good_and_the_server_at_end,
    kill_at_end,
    kill_each_part,
    kill_readers,
    kill_server_at_the_very_end,
    stop,
    take_memory,
)
from tests.integration.marked import RANKS, STEPS, Learned, all_steps, learned_offline
from tests.integration.namespaces import Network, NotPermitted
from tests.postgresql import PostgresqlServer
from tests.thorough import first

AGENTS = 2
WHOLE = f"replayed {RANKS} streams, {RANKS * STEPS} steps"
"""The program has written all that it had to write."""
PACE = 1.25
"""Of the program, which then takes 8 s."""
CUT_S = (1.0, 3.0) if ROUNDS == 1 else (1.0, 8.0)
"""A connection gives up after 5 s."""
QUIET_S = 3.0
"""All faults begin within so long."""


def learned_of(run: Outcome) -> Learned:
    """What a run has left."""
    return Learned.of_model(load_model(RunDirectory(run.folder).model_path, run.info.config))


@pytest.fixture(scope="module")
def undisturbed(marked: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Its analysis in lockstep."""
    run = Run(tmp_path_factory.mktemp("undisturbed") / "run", "--trace", marked / "*.bp", "--period", "0.2")
    assert run.end() == 0, run.output
    return run


def live_run(
    start: Start,
    marked: Path,
    moments: random.Random,
    faults: list[Fault],
    *options: str,
    transport: str = "files",
) -> Run:
    """A live run of the program with these faults, at any moments; ended."""
    with ExitStack() as stack:
        environment = dict(os.environ)
        if any(fault in (take_memory, fill_memory) for fault in faults):
            # Who takes part in a run has no right to limit the memory of a broker that is the run's own.
            private = PrivateBroker(marked.parent / "broker.log")
            environment[BROKER_VARIABLE] = stack.enter_context(private).keeper_url
        run = start(
            *("--replay", marked / "*.bp", "--pace", str(PACE), "--agents", str(AGENTS), "--period", "0.2"),
            *("--no-dashboard", "--transport", transport),
            *options,
            environment=environment,
        )
        strike(run, moments, faults)
        assert run.end() == 0, run.output
    assert WHOLE in run.output
    return run


def strike(run: Run, moments: random.Random, faults: list[Fault]) -> None:
    """Let these faults come over a run, at any moments; over when all are."""
    run.wait_until(lambda: len(run.health_so_far) == RANKS)
    # In threads, so that one may strike during another.
    with ThreadPoolExecutor() as at_once:
        struck = [at_once.submit(fault, run, moments.uniform(0.0, QUIET_S)) for fault in faults]
    for fault in struck:
        fault.result()


def assert_nothing_lost(run: Outcome, marked: Path) -> None:
    """As if nothing had happened."""
    learned = learned_of(run)
    assert learned.steps == all_steps()
    learned.assert_same(learned_offline(marked, all_steps(), run.info.config))
    assert_all_stored_once(run)
    assert_all_counted_once(run)
    assert [(s.steps, s.gap_steps, s.state) for s in run.health] == [(STEPS, 0, "ended")] * RANKS


def assert_analysed_is_learned_and_stored(run: Outcome, marked: Path) -> None:
    """What steps have brought stands or falls together: calls, statistics and findings."""
    learned = learned_of(run)
    learned.assert_same(learned_offline(marked, learned.steps, run.info.config))
    assert_all_stored_once(run)
    assert_all_counted_once(run)
    with open_run(RunDirectory(run.folder)) as provenance:
        stored = {(step.rank, step.step) for step in provenance.steps.counts()}
    assert stored == {(rank, step) for rank, steps in learned.steps.items() for step in steps}
    assert {s.rank: s.steps for s in run.health} == {r: len(steps) for r, steps in learned.steps.items()}


@pytest.mark.thorough
def test_undisturbed_lockstep_learns_what_is_expected(undisturbed: Run, marked: Path) -> None:
    assert_nothing_lost(undisturbed, marked)


FAULTS = {
    "server killed, broker killed": [kill(SERVER), kill(BROKER)],
    "server stopped, broker full": [stop(SERVER), take_memory],
    "parts of a server killed, broker killed": [kill_each_part, kill(BROKER)],
    "server stopped, broker killed": [stop(SERVER), kill(BROKER)],
    "server and broker killed again and again": [kill(SERVER), kill(BROKER)] * 3,
    "broker filled": [fill_memory],
    "server killed at the end": [kill_at_end(SERVER)],
    "server killed at the very end": [kill_server_at_the_very_end],
    "broker killed at the end": [kill_at_end(BROKER)],
}
IN_SHORT = first(
    1,
    [
        "parts of a server killed, broker killed",
        "server killed, broker killed",
        "server stopped, broker full",
    ],
)
"""The others take part in ``make faults``."""


@pytest.mark.parametrize("transport", first(1, ["files", "sst"]))
@pytest.mark.parametrize("faults", FAULTS if ROUNDS > 1 else IN_SHORT)
def test_faults_of_server_and_broker(
    start: Start, marked: Path, moments: random.Random, faults: str, transport: str
) -> None:
    options = ("--server-parts", "3", "--leaf-servers", "2") if "parts" in faults else ()
    run = live_run(start, marked, moments, FAULTS[faults], *options, transport=transport)
    assert_nothing_lost(run, marked)


@pytest.mark.skipif(ROUNDS == 1, reason="part of make faults")
def test_lockstep_flags_the_same_whatever_happens(
    start: Start, marked: Path, moments: random.Random, undisturbed: Run
) -> None:
    run = live_run(start, marked, moments, [kill(SERVER), kill(BROKER)], "--lockstep")
    assert run.ids == undisturbed.ids, run.output
    assert_nothing_lost(run, marked)


AGENT_FAULTS = {
    "agent killed": [kill(AGENT)],
    "both agents killed": [kill(AGENT)] * 2,
    "agent killed, server killed": [kill(AGENT), kill(SERVER)],
    "agent killed, broker killed": [kill(AGENT), kill(BROKER)],
    "agents killed at the end": [kill_agents_at_end],
    "readers killed": [kill_readers] * 3,
    "readers and agents killed": [kill_readers, kill(AGENT), kill_readers],
}


@pytest.mark.parametrize("faults", AGENT_FAULTS if ROUNDS > 1 else ["readers and agents killed"])
@pytest.mark.thorough
def test_files_lose_nothing_by_dying_readers_and_agents(
    start: Start, marked: Path, moments: random.Random, faults: str
) -> None:
    run = live_run(start, marked, moments, AGENT_FAULTS[faults])
    assert_nothing_lost(run, marked)


@pytest.mark.thorough
@pytest.mark.parametrize("faults", AGENT_FAULTS if ROUNDS > 1 else ["readers and agents killed"])
def test_lockstep_over_files_flags_the_same_whoever_dies(
    start: Start, marked: Path, moments: random.Random, undisturbed: Run, faults: str
) -> None:
    run = live_run(start, marked, moments, AGENT_FAULTS[faults], "--lockstep")
    assert run.ids == undisturbed.ids, run.output
    assert_nothing_lost(run, marked)


@pytest.mark.parametrize("faults", AGENT_FAULTS if ROUNDS > 1 else ["agent killed"])
@pytest.mark.thorough
def test_faults_of_agents(start: Start, marked: Path, moments: random.Random, faults: str) -> None:
    run = live_run(start, marked, moments, AGENT_FAULTS[faults], transport="sst")
    assert_analysed_is_learned_and_stored(run, marked)
    for stream in run.health:
        # A successor that begins when the program is about to end comes too late.
        assert stream.steps + stream.gap_steps == STEPS or f"0:{stream.rank}" in run.output


@pytest.mark.thorough
def test_what_agents_left_that_died_for_good_is_stored_at_the_end(
    start: Start, marked: Path, moments: random.Random
) -> None:
    """What they had not read by then is lost, and what they had found is not."""
    run = live_run(start, marked, moments, [kill_agents_for_good_and_the_server_at_end])
    assert "could not be delivered" not in run.output
    assert_analysed_is_learned_and_stored(run, marked)
    assert left_behind(RunDirectory(run.folder)) == []


def test_what_waits_for_delivery_outlives_its_stream_and_its_agent(start: Start, marked: Path) -> None:
    """The program has ended before another agent could read it."""
    # So slow that it goes on when a busy machine has come to end it.
    replay = f"{sys.executable} -m chimbuko replay '{marked}/*.bp' --pace 0.5"
    replay += " --to $(dirname $TAU_ADIOS2_FILENAME)"
    run = start("--period", "0.2", "--no-dashboard", "--", "sh", "-c", f"{replay}; sleep 3; exit 3")
    run.wait_until(lambda: len(run.health_so_far) == RANKS)
    store = run.service(STORE)
    directory = RunDirectory(run.folder)
    broker = RunBroker.connect(directory.read_broker_url(), directory.read_info().id)
    with closing(broker.client):
        os.kill(store, signal.SIGSTOP)
        delivered = broker.client.xlen(broker.keys.records)
        run.wait_until(lambda: broker.client.xlen(broker.keys.records) >= delivered + RANKS)
    os.kill(run.service(AGENT), signal.SIGKILL)
    # The first one is the shell.
    os.kill(run.processes("chimbuko replay")[1], signal.SIGTERM)
    run.wait_for_line("ended early")
    os.kill(store, signal.SIGCONT)
    assert run.end() == 3, run.output
    assert_analysed_is_learned_and_stored(run, marked)
    # One that was in the middle of a step when its writer was told to end is broken.
    assert {stream.state for stream in run.health} <= {"lost", "broken"}


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    """Two nodes, where nobody answers ADIOS2's questions about names: it shall not wait 16 s for it."""
    monkeypatch.setenv("RES_OPTIONS", "timeout:1 attempts:1")
    try:
        with Network(2) as nodes:
            yield nodes
    except NotPermitted as reason:
        pytest.skip(f"no network namespaces here: {reason}")


@pytest.mark.thorough
def test_network_is_cut(
    command: Callable[..., Command], network: Network, marked: Path, tmp_path: Path, moments: random.Random
) -> None:
    """Services on one node, agent and program on the other."""
    folder = tmp_path / "run"
    with network.inside(0):
        services = command(
            *("serve", folder, "--bind", network.address(0), "--no-dashboard", "--period", "0.2"),
            *("--transport", "sst"),
        )
    services.wait_for_line("services are ready")
    with network.inside(1):
        agent = command("agent", folder, "--node", "node1")
        agent.wait_for_line("reads the streams")
        streams = folder / "trace" / "node1"
        program = command("replay", marked / "*.bp", "--to", streams, "--pace", str(PACE))
    outcome = Outcome(folder)
    services.wait_until(lambda: len(outcome.health_so_far) == RANKS)
    time.sleep(moments.uniform(0.0, QUIET_S))
    cut = moments.choice(
        [network.cable_pulled(1), network.swallowed(0), network.swallowed(1)],
    )
    with cut:
        time.sleep(moments.uniform(*CUT_S))
    assert (program.end(), WHOLE in program.output) == (0, True), program.output
    with network.inside(0):
        assert command("stop", folder).end() == 0
    assert agent.end() == 0, agent.output
    assert services.end() == 0, services.output
    assert_nothing_lost(outcome, marked)


def has_noticed(services: Command, died: int) -> bool:
    """Whether so many processes were started again."""
    return services.output.count("ended early") >= died


@pytest.mark.thorough
def test_writers_and_leaf_servers_die_on_four_nodes(
    command: Callable[..., Command],
    marked: Path,
    tmp_path: Path,
    postgresql: PostgresqlServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Services on one node, with PostgreSQL, two writers, their keeper and two leaf servers."""
    monkeypatch.setenv("RES_OPTIONS", "timeout:1 attempts:1")
    # By a socket, which is the same on all nodes here.
    monkeypatch.setenv(STORE_VARIABLE, postgresql.by_socket(postgresql.new_store()))
    folder = tmp_path / "run"
    try:
        network = Network(4)
    except NotPermitted as reason:
        pytest.skip(f"no network namespaces here: {reason}")
    with network:
        with network.inside(0):
            services = command(
                *("serve", folder, "--bind", network.address(0), "--no-dashboard", "--period", "0.2"),
                *("--store-writers", "2", "--leaf-servers", "2"),
            )
        services.wait_for_line("services are ready")
        agents, programs = [], []
        for node, ranks in enumerate(("[01]", "2", "3"), 1):
            with network.inside(node):
                agents.append(command("agent", folder, "--node", f"node{node}"))
                agents[-1].wait_for_line("reads the streams")
                streams = Path(RunDirectory(folder).streams_path.read_text()) / f"node{node}"
                recorded = marked / f"*-{ranks}.bp"
                programs.append(command("replay", recorded, "--to", streams, "--pace", str(PACE)))
        outcome = Outcome(folder)
        services.wait_until(lambda: len(outcome.health_so_far) == RANKS)
        for died, pid in enumerate((*services.processes(STORE), *services.processes(SERVER)), 1):
            os.kill(pid, signal.SIGKILL)
            services.wait_until(partial(has_noticed, services, died))
        for program in programs:
            assert program.end() == 0, program.output
        with network.inside(0):
            assert command("stop", folder).end() == 0
        for agent in agents:
            assert agent.end() == 0, agent.output
        assert services.end() == 0, services.output
    assert_nothing_lost(outcome, marked)


@pytest.mark.thorough
def test_leaf_servers_are_on_other_nodes_of_a_cluster(start: Start, marked: Path, cluster: str) -> None:
    shares = "--leaf-servers", "2", "--store-writers", "2", "--server-parts", "2"
    run = start(
        *("--replay", marked / "*.bp", "--pace", str(PACE), "--agents", str(AGENTS), "--period", "0.2"),
        *("--no-dashboard", "--transport", "files", "--broker", cluster, *shares),
    )
    assert run.end() == 0, run.output
    assert_nothing_lost(run, marked)
    keys = [RunKeys(run.info.id, leaf=leaf) for leaf in range(3)]
    with closing(connect(cluster)) as client:
        assert isinstance(client, RedisCluster)
        assert len({client.keyslot(one.part(0).deltas) for one in keys}) == 3
        assert client.exists(*keys[0].all(2)) == 0
