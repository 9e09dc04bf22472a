"""Entry of a run for the index, read from its store."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping

import msgspec

from chimbuko.core.calls.functionnames import shown_name
from chimbuko.provenance.budget.budget import Budget
from chimbuko.provenance.budget.runbudget import run_budget
from chimbuko.provenance.history.entry import (
    FUNCTION,
    LOST,
    NODES,
    PART,
    WALL,
    Details,
    Entry,
    IncidentKind,
    Version,
)
from chimbuko.provenance.history.known import incident_key
from chimbuko.provenance.history.priors import own_model, packed_model
from chimbuko.provenance.history.series import at_end, at_start
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.run import Provenance
from chimbuko.runtime.runs.directory import RunDirectory, RunInfo

MOST_FUNCTIONS = 24
MOST_PACED = 12
"""Number of functions whose time on each node is kept."""
MOST_NODES = 512
"""Number of nodes that are kept of a function: the slowest of them."""
MOST_INCIDENT_KINDS = 300
MOST_LOST_STEPS = 0.05
"""Share of steps that were not analysed beyond which a run is no example for others."""


def read_entry(run: RunDirectory, info: RunInfo, provenance: Provenance) -> Entry:
    """Return the entry of a run that has ended.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    health = provenance.health()
    nodes = {(stream.program, stream.rank): stream.node for stream in health}
    programs = provenance.programs()
    series = at_end(info, list(programs.values()), len(health), len(set(nodes.values())))
    paces = _paces(provenance, nodes)
    kinds, troubles = _incidents(provenance, programs, nodes)
    seen, missed = sum(stream.steps for stream in health), sum(stream.gap_steps for stream in health)
    is_whole = seen > 0 and missed <= MOST_LOST_STEPS * (seen + missed)
    return Entry(
        id=info.id,
        name=info.name,
        folder=str(run.path),
        key=series.key,
        start_key=at_start(info).key,
        title=series.title,
        program=series.program,
        started_us=info.started_us,
        is_good=is_whole and info.state in ("finished", "imported") and not info.exit_code,
        quantities=_quantities(provenance, run_budget(provenance), paces),
        version=version_of(info),
        details=Details(kinds, paces, troubles),
        model=packed_model(own_model(provenance)),
    )


def version_of(info: RunInfo) -> Version:
    """Return the version of what ran in a run."""
    facts = info.environment
    return Version(facts.get("commit", ""), facts.get("build", ""), facts.get("LOADEDMODULES", ""))


def _quantities(
    provenance: Provenance, budget: Budget, paces: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    parts = {f"{PART}{name}": us for name, us in msgspec.structs.asdict(budget.shares).items()}
    lost = {f"{LOST}{name}": us for name, us in msgspec.structs.asdict(budget.lost).items()}
    times: dict[str, float] = defaultdict(float)
    for (_, name), one in provenance.function_times().items():
        times[f"{FUNCTION}{shown_name(name)}"] += one.exclusive_us
    longest = sorted(times.items(), key=lambda one: (-one[1], one[0]))[:MOST_FUNCTIONS]
    quantities = {WALL: budget.wall_us, **parts, **lost, **dict(longest)}
    slowest = [max(of_nodes.values()) for of_nodes in paces.values() if len(of_nodes) > 1]
    if slowest:
        quantities[NODES] = max(slowest)
    return {name: float(f"{value:.6g}") for name, value in quantities.items()}


def _paces(provenance: Provenance, nodes: Mapping[tuple[int, int], str]) -> dict[str, dict[str, float]]:
    """Return the mean time of a call on each node, relative to the median of the nodes, of the functions with
    most time.
    """
    if len(set(nodes.values())) < 2:
        return {}
    times = provenance.times_of_ranks()
    longest = sorted(times, key=lambda key: (-sum(one.exclusive_us for one in times[key].values()), key))
    found: dict[str, dict[str, float]] = {}
    for program, name in longest[:MOST_PACED]:
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for rank, one in times[program, name].items():
            of_node = sums[nodes.get((program, rank), "")]
            of_node[0] += one.calls
            of_node[1] += one.exclusive_us
        means = {node: us / calls for node, (calls, us) in sums.items() if calls and us > 0.0 and node}
        if len(means) < 2:
            continue
        middle = statistics.median(means.values())
        slowest = sorted(means, key=lambda node: (-means[node], node))[:MOST_NODES]
        found[shown_name(name)] = {node: float(f"{means[node] / middle:.4g}") for node in slowest}
    return found


def _incidents(
    provenance: Provenance, programs: Mapping[int, str], nodes: Mapping[tuple[int, int], str]
) -> tuple[list[IncidentKind], dict[str, dict[str, int]]]:
    """Return incidents that are the same, the most costly first, and how many of each cause nodes had."""
    known: dict[tuple[str, str, str, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
    troubles: dict[str, Counter[str]] = defaultdict(Counter)
    found = Incidents(provenance.reader)
    for details in found.each():
        one = details.summary
        key = incident_key(programs, one.program, one.function, one.kind, one.rank)
        known[key][0] += 1
        known[key][1] += one.cost_us
        node = nodes.get((one.program, -1 if one.rank is None else one.rank))
        if node:
            troubles[node][one.kind] += 1
    for again in found.recurrences():
        one_again = again.recurrence
        key = incident_key(programs, one_again.program, one_again.function, one_again.kind.value, None)
        known[key][0] += 1
        known[key][1] += one_again.cost_us
    kinds = [IncidentKind(*key, int(number), cost_us) for key, (number, cost_us) in known.items()]
    kinds.sort(key=lambda one: (-one.cost_us, one.key))
    return kinds[:MOST_INCIDENT_KINDS], {node: dict(causes) for node, causes in troubles.items()}
