"""All kinds of sinks that alerts can be handed to."""

from __future__ import annotations

from collections.abc import Mapping

from chimbuko.provenance.alerts.command import COMMAND
from chimbuko.provenance.alerts.pluginsink import PLUGIN
from chimbuko.provenance.alerts.sink import Sink, SinkKind
from chimbuko.provenance.alerts.webhook import WEBHOOK

SINKS: tuple[SinkKind, ...] = (WEBHOOK, COMMAND, PLUGIN)


def sinks_named(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what an environment names sinks by, by the variables of ``SINKS``; empty if it names none."""
    return {kind.variable: environment.get(kind.variable, "") for kind in SINKS}


def sinks_of(environment: Mapping[str, str]) -> list[Sink]:
    """Open the sinks that an environment names.

    Raises
    ------
    ConfigError
        One of them can never work.
    """
    return [kind.open(named) for kind in SINKS if (named := environment.get(kind.variable))]
