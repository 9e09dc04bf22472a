"""Load of each part of the pipeline, by what a unit of its work costs: work in a second, and the share of
its cores that it takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec

from chimbuko.core.errors import ConfigError

# Costs of a unit of work in each part of the pipeline, as they were measured.


READERS = "readers"
"""Parts on each node with ranks: the processes of its streams, and its agent."""
SERVICES = ("broker", "server", "writer", "dashboard", "serve")
"""Processes on the node of the services."""
KEEPER = "keeper"
"""Process beside several writers of one store, which explains what these have stored."""
LEAF = "leaf"
"""A leaf server, which merges what some of the agents learn."""
FILE = "unitcosts.json"
"""File of measured costs, written by ``python -m benchmarks.scaling --measure``."""


class Units(msgspec.Struct, frozen=True, kw_only=True):
    """Units of work: how many of each there are, or what one of each takes."""

    second: float = 0.0
    agent: float = 0.0
    """Cost of an agent per second."""
    rank: float = 0.0
    """Cost of a rank per second."""
    message: float = 0.0
    """Cost of a message of an agent, with what its ranks have learned."""
    step: float = 0.0
    """Cost of a step of a stream."""
    cold_step: float = 0.0
    """A step on a core which idles otherwise: its cost beside that of a step, since caches are cold then.

    Where a core idles for a part of the time that part of all steps is cold.
    """
    row: float = 0.0
    """A row of the trace."""
    finding: float = 0.0
    """An abnormal call with all that is kept of it."""

    def of(self, work: Units) -> float:
        """Return the cost of all of the work, each unit at what it takes."""
        mine, its = msgspec.structs.astuple(self), msgspec.structs.astuple(work)
        return float(sum(one * count for one, count in zip(mine, its, strict=True)))


class PartCosts(msgspec.Struct, frozen=True):
    """Costs of one part."""

    cpu_s: Units
    memory_bytes: Units
    """Memory in bytes, proportional (PSS)."""
    wait_s: Units = Units()
    """Seconds until the part turns to what has come, though it has time: what it does together takes the
    longer the more comes in a second.
    """


class UnitCosts(msgspec.Struct, frozen=True):
    """Costs of all parts, and bytes."""

    parts: dict[str, PartCosts]
    wire_bytes: Units
    """Bytes between agents and broker, both ways."""
    frame_bytes: Units
    """Bytes for dashboards."""
    store_bytes: Units


@cache
def measured() -> UnitCosts:
    """Return the costs that come with this version."""
    text = (files("chimbuko.plan") / FILE).read_bytes()
    return msgspec.json.decode(text, type=UnitCosts)


_HALVINGS = 20
"""Number of halvings that find the share of time in which a core is busy, to a millionth."""


@dataclass(frozen=True)
class SharedStore:
    """Costs of several writers that share one store, of one unit of all their work."""

    writer: Units
    """CPU time of a writer."""
    serial: Units
    """Time in which all other writers wait."""


STORES = {
    "sqlite": SharedStore(
        Units(second=0.0226, step=26.5e-6, finding=62e-6), Units(step=1 / 45_000, finding=1 / 25_000)
    ),
    "postgresql": SharedStore(
        Units(second=0.0226, step=39e-6, finding=74e-6), Units(step=1e-6, finding=7e-6)
    ),
}
"""Measured with two writers and their keeper at full speed: ``python benchmarks/store.py``."""
KEEPER_COSTS = PartCosts(
    Units(second=0.0226 + 0.2, finding=113e-6), Units(second=64e6, rank=4_800.0), Units(second=0.3)
)
"""Costs of the keeper; of a second the share of a core that it may take for its looks (``MOST_SHARE``)."""
LEAF_COSTS = PartCosts(
    Units(second=0.0087, message=150e-6, step=4.9e-6), Units(second=50e6), Units(second=0.1)
)
"""Costs of a leaf server, which waits 0.1 s for more to merge (``ROUND_S``)."""
LEAF_ROUNDS_PER_S = 10.0
SAVED_STEP_S = 1.5e-6
"""Time that the parameter server saves for each step of a rank that comes by a leaf server; of messages there
are fewer. Measured, as the former: ``python -m benchmarks.server.leaves`` for 8 and for 32 ranks of a node.
"""
KEPT_PER_S = 2_000.0
"""Abnormal calls that the keeper explains in a second while the run goes on; the rest come at its end."""


@dataclass(frozen=True)
class Pipeline:
    """Size of a run, and the resources of its analysis."""

    ranks: int
    per_node: int = 40
    """Ranks on a node, which one agent reads."""
    period_s: float = 1.0
    """Seconds between two steps of the trace, and between two messages of an agent."""
    rows_per_s: float = 5_000.0
    """Rows that each rank writes in a second."""
    findings_per_s: float = 1.0
    """Abnormal calls of each node in a second."""
    agent_cores: float = 1.0
    """Cores of a node for its agent and readers."""
    server_parts: int = 1
    store_writers: int = 1
    store: str = "sqlite"
    """Engine of the store, ``sqlite`` or ``postgresql``."""
    leaf_servers: int = 0
    """Leaf servers between agents and parameter server; 0 for none."""
    broker_nodes: int = 1
    """Nodes of the cluster that is the broker; what is between leaf servers and agents is divided among
    them.
    """
    service_cores: float = 8.0
    """Cores of the services' node; no process of theirs fills more than one."""

    def __post_init__(self) -> None:
        """See that there can be such a run.

        Raises
        ------
        ConfigError
            A number is not positive.
        """
        for name in (
            *("ranks", "per_node", "period_s", "rows_per_s"),
            *("agent_cores", "server_parts", "store_writers", "broker_nodes", "service_cores"),
        ):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name}: {getattr(self, name):g} is given; it is a positive number")
        if self.store not in STORES:
            raise ConfigError(f"store: {self.store!r} is given; it is {' or '.join(STORES)}")
        if not 0 <= self.findings_per_s < float("inf"):
            raise ConfigError(f"findings_per_s: {self.findings_per_s:g} is given; it is 0 or more")

    @property
    def nodes(self) -> int:
        """Number of nodes that have ranks."""
        return -(-self.ranks // self.per_node)

    @property
    def on_node(self) -> int:
        """Ranks of a full node."""
        return min(self.per_node, self.ranks)


@dataclass(frozen=True)
class Load:
    """Load of one part."""

    part: str
    cores: float
    """Cores that the part needs."""
    share: float
    """Share of its cores that the part needs."""
    memory_bytes: float
    work: Units
    """Work that comes to the part in a second."""


def work_of(run: Pipeline) -> Units:
    """Return the work of the services in a second."""
    return Units(
        second=1.0,
        agent=float(run.nodes),
        rank=float(run.ranks),
        message=run.nodes / run.period_s,
        step=run.ranks / run.period_s,
        row=run.ranks * run.rows_per_s,
        finding=run.nodes * run.findings_per_s,
    )


def node_work(run: Pipeline) -> Units:
    """Return the work of one node's readers in a second."""
    return Units(
        second=1.0,
        agent=1.0,
        rank=float(run.on_node),
        message=1.0 / run.period_s,
        step=run.on_node / run.period_s,
        row=run.on_node * run.rows_per_s,
        finding=run.findings_per_s,
    )


def part_work(part: str, run: Pipeline, busy: float = 1.0) -> Units:
    """Return the work that comes to one process of a part: of a server in parts to the fullest one.

    Parameters
    ----------
    busy
        Share of the time in which its core has something to do.
    """
    if part == READERS:
        return node_work(run)
    work = work_of(run)
    if part == KEEPER:
        return msgspec.structs.replace(work, finding=min(work.finding, KEPT_PER_S))
    if part == LEAF:
        own = {name: getattr(work, name) / run.leaf_servers for name in ("agent", "message", "rank", "step")}
        return msgspec.structs.replace(work, **own)
    # A message is cut into one for each part, and what is of ranks or functions is divided.
    parts = {"server": run.server_parts, "writer": _writers_at_once(run, work)}.get(part, 1.0)
    changed = {name: getattr(work, name) / parts for name in ("rank", "step", "finding")}
    from_leaves = min(run.leaf_servers * LEAF_ROUNDS_PER_S, work.message)
    if part == "server" and run.leaf_servers:
        changed["message"] = from_leaves
    if part == "broker":
        nodes = run.broker_nodes if run.leaf_servers else 1
        changed["message"] = (work.message / nodes + from_leaves) * run.server_parts
    work = msgspec.structs.replace(work, **changed)
    return msgspec.structs.replace(work, cold_step=(1.0 - busy) * work.step)


def _writers_at_once(run: Pipeline, work: Units) -> float:
    """Return how many of the writers can work at the same time: some of the work waits for that of others."""
    if run.store_writers == 1:
        return 1.0
    shared = STORES[run.store]
    both = msgspec.structs.replace(work, second=0.0)
    return max(min(run.store_writers, shared.writer.of(both) / max(shared.serial.of(both), 1e-12)), 1.0)


def services(run: Pipeline) -> tuple[str, ...]:
    """Return the parts on the node of the services."""
    return (*SERVICES, *([LEAF] if run.leaf_servers else []), *([KEEPER] if run.store_writers > 1 else []))


def costs_of(run: Pipeline, costs: UnitCosts) -> UnitCosts:
    """Return the costs of a run's own parts: of several writers each takes other ones than a single one, and
    so does a server above leaf servers.
    """
    parts = dict(costs.parts)
    if run.store_writers > 1:
        parts["writer"] = msgspec.structs.replace(parts["writer"], cpu_s=STORES[run.store].writer)
        parts[KEEPER] = KEEPER_COSTS
    if run.leaf_servers:
        cpu_s = parts["server"].cpu_s
        cpu_s = msgspec.structs.replace(cpu_s, step=cpu_s.step - SAVED_STEP_S)
        parts["server"] = msgspec.structs.replace(parts["server"], cpu_s=cpu_s)
        parts[LEAF] = LEAF_COSTS
    return msgspec.structs.replace(costs, parts=parts)


def loads(run: Pipeline, costs: UnitCosts) -> tuple[Load, ...]:
    """Return the loads of all parts, in the order in which the trace passes them."""
    found = []
    costs = costs_of(run, costs)
    for part in (READERS, *services(run)):
        cost, work = costs.parts[part], part_work(part, run, _busy(part, run, costs))
        cores = cost.cpu_s.of(work)
        has = run.agent_cores if part == READERS else min(1.0, run.service_cores)
        found.append(Load(part, cores, cores / has, cost.memory_bytes.of(work), work))
    return tuple(found)


def _busy(part: str, run: Pipeline, costs: UnitCosts) -> float:
    """Return the share of the time in which the core of a part has something to do: its own, or that of all
    services where these share few cores.
    """

    def asked(part: str, busy: float) -> float:
        return costs.parts[part].cpu_s.of(part_work(part, run, busy))

    if not costs.parts[part].cpu_s.cold_step:
        return 1.0
    low, high = 0.0, 1.0
    # The busier it is the less each step takes: there is one share at which both agree.
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        of_all = sum(asked(one, middle) for one in services(run)) / run.service_cores
        if max(asked(part, middle), of_all) > middle:
            low = middle
        else:
            high = middle
    return high
