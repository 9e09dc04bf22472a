"""Registry of all analyses by name: built-in ones, and those of installed packages.

A package declares its own as plugins. They run here, and whatever goes wrong in them is one line.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path

from chimbuko.core import plugins
from chimbuko.core.errors import ConfigError, ObservationError
from chimbuko.observe.namespaces.analyses.metricanomalies import metric_anomalies
from chimbuko.observe.namespaces.analyses.standard import cpu_utilisation, load_balance, task_states
from chimbuko.observe.namespaces.exchange.namespacereader import Observation
from chimbuko.observe.namespaces.exchange.tree import Nested, Tree, flattened, leaf_at

Analysis = Callable[[Sequence[Observation]], Nested]
OURS: Mapping[str, Analysis] = {
    "cpu-utilisation": cpu_utilisation,
    "load-balance": load_balance,
    "metric-anomalies": metric_anomalies,
    "task-states": task_states,
}


def names() -> list[str]:
    """Return the names of all analyses."""
    return [*OURS, *(name for name in plugins.declared("analyses") if name not in OURS)]


def check_analysis(name: str) -> None:
    """Check that there is such an analysis, without loading it.

    Raises
    ------
    ConfigError
        There is none.
    """
    if name not in OURS and name not in plugins.declared("analyses"):
        raise ConfigError(f"{name!r}: no analysis; there are {', '.join(names())}")


def analyse(name: str, observations: Sequence[Observation]) -> Tree:
    """Return the results of an analysis. Output that an analysis of a package prints goes to standard
    error.

    Raises
    ------
    ConfigError
        There is no such analysis, or it cannot be loaded, or fails.
    ObservationError
        Its results cannot be published.
    """
    if name in OURS:
        return _as_tree(name, OURS[name](observations))
    check_analysis(name)
    what = f"analysis {name} ({plugins.declared('analyses')[name].value})"
    with redirect_stdout(sys.stderr):
        analysis: Analysis = plugins.load("analyses", name)
        try:
            found = analysis(observations)
        except (Exception, SystemExit) as error:
            raise ConfigError(f"{what} failed: {_said(error)}") from error
    return _as_tree(what, found)


def _as_tree(what: str, found: object) -> Tree:
    if not isinstance(found, Mapping):
        raise ObservationError(f"{what} returns a {type(found).__name__}; let it return nested dictionaries")
    try:
        return Tree((path, leaf_at(path, value)) for path, value in flattened(found))
    except ObservationError as error:
        raise ObservationError(f"{what}: {error}") from error


def _said(error: BaseException) -> str:
    """Return an error in one line, with its place in the source."""
    text = next(iter(str(error).splitlines()), "")
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}{': ' if text else ''}{text} ({Path(last.filename).name}:{last.lineno})"
