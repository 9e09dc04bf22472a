"""Choices for a run's services, and how they begin."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chimbuko.core.config import AnalysisConfig
from chimbuko.viz.http.listening import Front


class AlertOptions(msgspec.Struct, frozen=True):
    """Choice of the findings that are worth an alert, and of the sinks that take it."""

    least_us: float
    """Least severity or cost of a finding that alerts, in µs."""
    sinks: dict[str, str]
    """Addresses and commands of sinks, by the environment variables that name them; they may hold secrets."""


class ServiceChoices(msgspec.Struct, frozen=True, kw_only=True):
    """User's choices for the services of a run: where they are, and which are wanted."""

    store: str | None = None
    """URL of a database; None for SQLite in the run's folder."""
    broker: str | None = None
    """URL of a broker; None for one of our own."""
    dashboard: bool | None = None
    """Whether a dashboard is wanted; None for the default of the verb."""
    is_opened: bool = False
    """Whether the browser of this desktop shows the dashboard."""
    port: int = 0
    """Port of the dashboard; 0 for any that is free."""
    front: Front = msgspec.field(default_factory=Front)
    """Address at which browsers reach the dashboard."""
    dashboard_processes: int = 1
    metrics: str | None = None
    """Address at which Prometheus may ask, as ``[WHERE:]PORT``; None for nowhere."""
    alerts: AlertOptions | None = None
    namespaces: str | None = None
    """Place of a job's namespaces, in which programs publish what is watched; None for none."""


class ServiceOptions(msgspec.Struct, frozen=True):
    """Services that a run has, and how they begin."""

    config: AnalysisConfig
    lockstep_streams: int = 0
    programs: tuple[str, ...] = ()
    """Programs that are numbered in this order, so that ids of calls are the same every time."""
    choices: ServiceChoices = msgspec.field(default_factory=ServiceChoices)
    """User's choices for the services."""
    bind: tuple[str, int] | None = None
    """Address and port of our own broker, port 0 for any that is free; None if all is on this node."""
    has_dashboard: bool = True
    load_model: Path | None = None
    """File of the model that an earlier run has learned, to begin with."""
    is_of_series: bool = False
    """Whether the run begins with the model of its series, where one is known."""
    save_model: Path | None = None
    """File for a copy of the final model."""
    is_separate: bool = False
    """Whether each service has a process of its own, as on many nodes."""
    is_resumed: bool = False
    """Whether the run has begun before, and its services have died."""

    @property
    def are_together(self) -> bool:
        """Whether parameter server and writer share a process: several processes of either are for
        several cores, and a watch of namespaces ends after the one and before the other.
        """
        config = self.config
        is_whole = config.server_parts == config.store_writers == 1 and not config.leaf_servers
        return not self.is_separate and is_whole and self.choices.namespaces is None
