"""Load of each part of the pipeline: work in a second, and the share of its cores that it takes."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from chimbuko.core.errors import ConfigError
from chimbuko.plan.unitcosts import READERS, SERVICES, UnitCosts, Units

_HALVINGS = 20
"""Number of halvings that find the share of time in which a core is busy, to a millionth."""


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
            *("agent_cores", "server_parts", "service_cores"),
        ):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name}: {getattr(self, name):g} is given; it is a positive number")
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
    # A message is cut into one for each part, and what is of ranks or functions is divided.
    names = ("rank", "step", "finding") if part == "server" else ()
    changed = {name: getattr(work, name) / run.server_parts for name in names}
    if part == "broker":
        changed["message"] = work.message * run.server_parts
    work = msgspec.structs.replace(work, **changed)
    return msgspec.structs.replace(work, cold_step=(1.0 - busy) * work.step)


def loads(run: Pipeline, costs: UnitCosts) -> tuple[Load, ...]:
    """Return the loads of all parts, in the order in which the trace passes them."""
    found = []
    for part in (READERS, *SERVICES):
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
        of_all = sum(asked(one, middle) for one in SERVICES) / run.service_cores
        if max(asked(part, middle), of_all) > middle:
            low = middle
        else:
            high = middle
    return high
