"""Each part of a run on three nodes fails at each moment: what was lost, and what was said when.

Prints one row of a table for each with ``pytest -s``. ``make faults-nodes`` tries all, in half an hour;
``make thorough`` tries those that only many nodes have.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import requests

from chimbuko.provenance.query.run import open_run
from tests.integration.conftest import AGENT, BROKER, READER, SERVER, STORE
from tests.integration.farm import SERVICES, Farm, kill_tree
from tests.integration.marked import RANKS, STEPS, all_steps, learned_offline
from tests.integration.namespaces import Network, NotPermitted
from tests.integration.test_faults import assert_nothing_lost, learned_of
from tests.patience import PATIENCE_S

NODES = 3
STOPPED_S = 12.0
DOWN_S = 30.0
HIT = "node1"
"""The node on which something happens."""
ALL_VARIABLE = "CHIMBUKO_NODE_FAULTS"

Strike = Callable[[Farm], None]


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """A signal to processes that may be gone."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_on_node(module: str) -> Strike:
    """kill -9 of processes of the node's agent."""
    return lambda farm: send(farm.of_agent(HIT, module), signal.SIGKILL)


def kill_service(module: str) -> Strike:
    """kill -9 of a service, over when it is there again."""

    def strike(farm: Farm) -> None:
        services = farm.services[-1]
        (killed, *_) = services.processes(module)
        os.kill(killed, signal.SIGKILL)
        services.wait_until(lambda: services.processes(module) not in ([], [killed]))

    return strike


def stop_agent(farm: Farm) -> None:
    """All that is the agent's on the node, and its readers, stands still."""
    pids = farm.of_agent(HIT, "chimbuko")
    send(pids, signal.SIGSTOP)
    time.sleep(STOPPED_S)
    send(pids, signal.SIGCONT)


def kill_dashboard(farm: Farm) -> None:
    """Somebody looks at it before and after."""
    url = farm.run.dashboard_path.read_text().strip()
    with farm.network.inside(SERVICES):
        assert requests.get(url, timeout=PATIENCE_S).ok
        kill_service("chimbuko.viz ")(farm)
        assert requests.get(url, timeout=PATIENCE_S).ok


def kill_all_services(farm: Farm) -> None:
    """And have them go on, as the user does."""
    farm.kill_services()
    farm.serve("--resume")


def take_link_down(farm: Farm) -> None:
    """The node has no carrier for a while."""
    with farm.network.cable_pulled(farm.nodes[HIT]):
        time.sleep(DOWN_S)


def switch_off(farm: Farm) -> None:
    """The node is gone for good, with the part of the program on it."""
    for process in (farm.programs[HIT], farm.agents[HIT]):
        kill_tree(process)


ON_MANY_NODES: dict[str, Strike] = {
    "link down 30 s": take_link_down,
    "all services killed, resumed": kill_all_services,
    "node gone for good": switch_off,
}
PARTS: dict[str, Strike] = {
    **ON_MANY_NODES,
    "agent killed": kill_on_node(AGENT),
    "agent and its supervisor killed": kill_on_node("chimbuko"),
    "agent stopped 12 s": stop_agent,
    "readers killed": kill_on_node(READER),
    "server killed": kill_service(SERVER),
    "writer killed": kill_service(STORE),
    "broker killed": kill_service(BROKER),
    "dashboard killed": kill_dashboard,
}


def steps_read(farm: Farm) -> int:
    """By what is stored."""
    return sum(stream.steps for stream in farm.health_so_far)


def at_start(farm: Farm) -> None:
    """The first steps have come."""
    farm.services[-1].wait_until(lambda: steps_read(farm) > 0)


def in_the_middle(farm: Farm) -> None:
    """A third of the program was read."""
    farm.services[-1].wait_until(lambda: steps_read(farm) > RANKS * STEPS // 3)


def at_end(farm: Farm) -> None:
    """The program has ended; agents may still have something to deliver."""
    for program in farm.programs.values():
        program.wait(120)


MOMENTS: dict[str, Callable[[Farm], None]] = {"start": at_start, "middle": in_the_middle, "end": at_end}
TIMES = (1, 3)
CASES = [
    (part, moment, times)
    for part in PARTS
    for moment in MOMENTS
    for times in TIMES
    if times == 1 or (moment == "middle" and part.endswith("killed"))
]
IS_ALL = ALL_VARIABLE in os.environ
IN_SHORT = [(part, "middle", 1) for part in ON_MANY_NODES]
TELLING = ("ended early", "nothing is heard", "heard again", "did not come to an end", "Problem:", "Lost:")
"""What of the output belongs into the table."""


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        with Network(1 + NODES) as nodes:
            yield nodes
    except NotPermitted as reason:
        pytest.skip(f"no network namespaces here: {reason}")


def row(farm: Farm, part: str, moment: str, times: int, struck_s: float) -> str:
    """Of the table."""
    with open_run(farm.run) as provenance:
        calls = sum(function.calls for function in provenance.function_statistics())
    records, health = len(farm.anomalies), farm.health
    told = [f"{at_s:.0f} s: {line}" for at_s, line in farm.said(struck_s) if any(t in line for t in TELLING)]
    read = f"{sum(stream.steps for stream in health)} of {RANKS * STEPS} steps"
    found = f"{calls:,} calls, {records} records"
    return f"| {part} | {moment} | {times} | {read} | {found} | {'; '.join(told)} |"


def assert_others_lost_nothing(farm: Farm, marked: Path, gone: set[int]) -> None:
    """All that ranks on other nodes have done is there, once; of what is gone some may be."""
    steps = learned_of(farm).steps
    others = {rank: list(range(STEPS)) for rank in range(RANKS) if rank not in gone}
    assert {rank: steps[rank] for rank in others} == others
    health = {stream.rank: stream for stream in farm.health if stream.rank in others}
    for rank in others:
        one = health[rank]
        assert (one.steps, one.gap_steps, one.state) == (STEPS, 0, "ended"), one
    records = Counter(call.rank for call in farm.anomalies)
    assert all(records[rank] == one.anomalies for rank, one in health.items())
    counted, all_of = (
        learned_of(farm).functions,
        learned_offline(marked, all_steps(), farm.info.config).functions,
    )
    least = learned_offline(marked, others, farm.info.config).functions
    for name, row in least.items():
        assert row[0, 0] <= counted[name][0, 0] <= all_of[name][0, 0], name


@pytest.mark.thorough
@pytest.mark.parametrize(("part", "moment", "times"), CASES if IS_ALL else IN_SHORT)
def test_a_part_fails(
    network: Network, marked: Path, tmp_path: Path, part: str, moment: str, times: int
) -> None:
    streams = sorted(marked.glob("*.bp"))
    parts = [streams[number::NODES] for number in range(NODES)]
    with Farm(network, tmp_path / "run", parts, "--period", "0.2") as farm:
        MOMENTS[moment](farm)
        struck_s = time.monotonic()
        for _ in range(times):
            PARTS[part](farm)
        farm.end()
        print(row(farm, part, moment, times, struck_s))
        if part == "node gone for good":
            assert "nothing is heard of agent-node1 for 8 s" in farm.output
            assert "agent-node1 did not come to an end" in farm.output
            assert "what agent-node1 had not delivered" in farm.output
            assert_others_lost_nothing(farm, marked, set(range(0, RANKS, NODES)))
        else:
            assert_nothing_lost(farm, marked)
        if part in ("link down 30 s", "agent stopped 12 s"):
            assert "nothing is heard of agent-node1 for 8 s" in farm.output
            assert "agent-node1 is heard again" in farm.output
