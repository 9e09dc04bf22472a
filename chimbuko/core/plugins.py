"""Plugins: what installed packages add to the registries of all rooms, declared as entry points.

A registry looks among its own names first, so that nobody who uses no plugin waits for a look at all
installed packages, which takes 60 ms.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from chimbuko.core.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

KINDS = ("detectors", "causes", "sinks", "exporters", "readers", "schedulers", "analyses")
"""Kinds of plugins; the group of entry points of each is ``chimbuko.KIND``."""

Wanted = TypeVar("Wanted")


def group_of(kind: str) -> str:
    """Return the group of entry points of a kind."""
    return f"chimbuko.{kind}"


@cache
def declared(kind: str) -> dict[str, EntryPoint]:
    """Return the plugins of a kind that packages declare, by name, without loading any of them."""
    from importlib.metadata import entry_points

    found = entry_points(group=group_of(kind))
    return {entry.name: entry for entry in sorted(found, key=lambda entry: (entry.name, entry.value))}


def load(kind: str, name: str, wanted: type[Wanted] | None = None) -> Wanted:
    """Load a plugin that a package declares.

    Parameters
    ----------
    wanted
        Type of the plugin's value; None for a function.

    Raises
    ------
    ConfigError
        It cannot be loaded, or is something else.
    """
    entry = declared(kind)[name]
    what = f"the plugin {name} ({entry.value}, of {group_of(kind)})"
    try:
        value = entry.load()
    except (Exception, SystemExit) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ConfigError(f"{what} cannot be loaded: {reason}; mend or remove its package") from error
    is_right = callable(value) if wanted is None else isinstance(value, wanted)
    if not is_right:
        expected = "a function" if wanted is None else f"a {wanted.__name__}"
        raise ConfigError(f"{what} is of type {type(value).__name__}, where {expected} belongs")
    loaded: Wanted = value
    return loaded


def working(kind: str, wanted: type[Wanted] | None = None) -> Iterator[tuple[str, Wanted]]:
    """Yield all plugins of a kind by name; one that is broken is named on standard error and left out."""
    for name in declared(kind):
        try:
            value = load(kind, name, wanted)
        except ConfigError as error:
            print(f"chimbuko: {error}", file=sys.stderr)
        else:
            yield name, value


def imported(place: str, package: str) -> Any:
    """Return what stands at ``module:name``, or the module ``module``; one that begins with a dot lies in the
    package.
    """
    module, _, name = place.partition(":")
    found = importlib.import_module(module, package)
    return getattr(found, name) if name else found
