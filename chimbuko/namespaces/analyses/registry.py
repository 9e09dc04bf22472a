"""All analyses by name: ours, and those of installed packages.

A package declares its own as entry points of the group ``chimbuko.analyses``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points

from chimbuko.errors import ConfigError
from chimbuko.namespaces.analyses.cpuutilisation import cpu_utilisation
from chimbuko.namespaces.analyses.loadbalance import load_balance
from chimbuko.namespaces.analyses.metricanomalies import metric_anomalies
from chimbuko.namespaces.analyses.taskstates import task_states
from chimbuko.namespaces.exchange.reader import Observation
from chimbuko.namespaces.tree.leaves import as_leaf
from chimbuko.namespaces.tree.tree import Nested, Tree, flattened

Analysis = Callable[[Sequence[Observation]], Nested]
GROUP = "chimbuko.analyses"
OURS: Mapping[str, Analysis] = {
    "cpu-utilisation": cpu_utilisation,
    "load-balance": load_balance,
    "metric-anomalies": metric_anomalies,
    "task-states": task_states,
}


def names() -> list[str]:
    """Names of all analyses."""
    return [*OURS, *sorted(entry.name for entry in entry_points(group=GROUP) if entry.name not in OURS)]


def analyse(name: str, observations: Sequence[Observation]) -> Tree:
    """What an analysis finds.

    Raises
    ------
    ConfigError
        There is no such analysis, or it cannot be loaded.
    ObservationError
        What it gives cannot be published.
    """
    found = _find(name)(observations)
    return Tree((path, as_leaf(value)) for path, value in flattened(found))


def _find(name: str) -> Analysis:
    if name in OURS:
        return OURS[name]
    for entry in entry_points(group=GROUP, name=name):
        try:
            loaded: Analysis = entry.load()
        except Exception as error:
            raise ConfigError(f"analysis {name} ({entry.value}) cannot be loaded: {error}") from error
        return loaded
    raise ConfigError(f"{name!r}: no analysis; there are {', '.join(names())}")
