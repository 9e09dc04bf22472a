"""Options of a run; the command line and Python programs make the same of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from chimbuko.capture.follow.limits import Limits
from chimbuko.capture.trace.discovery import StreamName, Transport
from chimbuko.core.config import MOST_LEAVES, MOST_PARTS, MOST_WRITERS, AnalysisConfig
from chimbuko.core.errors import ConfigError
from chimbuko.core.units import number_of
from chimbuko.launcher.services.choices import ServiceChoices
from chimbuko.runtime.protocol.brokerplace import LOOPBACK, metrics_of_part
from chimbuko.runtime.runs.shares import Share

if TYPE_CHECKING:
    from chimbuko.launcher.transport import StreamPlace


class AnalysisOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for the judging of calls, and for the model.

    Raises
    ------
    ConfigError
        The configuration contradicts itself, or the model cannot be used.
    """

    config: AnalysisConfig = msgspec.field(default_factory=AnalysisConfig)
    load_model: Path | None = None
    """File of the model that an earlier run has learned, to begin with."""
    is_of_series: bool = True
    """Whether a live run begins with the model of its series, where no other is given."""
    labels: tuple[str, ...] = ()
    """Labels ``key=value`` that tell apart what belongs to different series."""
    save_model: Path | None = None
    """File for a copy of the final model."""
    relabel: bool = True
    """Judge the recorded calls again at the end, by the final model."""

    def __post_init__(self) -> None:
        _check(self.config)
        if self.config.is_frozen and self.load_model is None:
            raise ConfigError("--freeze goes with --load-model: otherwise nothing would ever be known")
        if self.load_model is not None:
            # Here because it loads compiled code, for which an agent on another node need not wait.
            from chimbuko.core.statistics import model

            model.load_model(self.load_model, self.config)
        if self.save_model is not None and not self.save_model.absolute().parent.is_dir():
            raise ConfigError(f"{self.save_model}: the model cannot be written, its folder does not exist")


class HostOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The services of a run on many nodes.

    Raises
    ------
    ConfigError
        Options do not go together.
    """

    analysis: AnalysisOptions = msgspec.field(default_factory=AnalysisOptions)
    services: ServiceChoices = msgspec.field(default_factory=ServiceChoices)
    transport: Transport = Transport.FILES
    bind: str = LOOPBACK
    """Address on which the broker listens: an IP address, a network interface or a name, and perhaps a port
    behind it.
    """
    streams: Path | None = None
    """Folder for streams, on each node's own storage; None for one in its memory."""
    trace: tuple[str, ...] = ()
    """Patterns of recorded traces, which agents share; none if programs are analysed while they run."""
    agents: int = 1
    """Number of agents that share recorded traces."""

    def __post_init__(self) -> None:
        if self.agents != 1 and not self.trace:
            raise ConfigError("--agents goes with --trace: of a live run each node has an agent")
        _check_ports(self.services, self.analysis.config)


class TransportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for the way of the trace to its readers."""

    transport: Transport | None = None
    """Transport of the trace; None for files, or for SST where there is no room for them."""
    trace_dir: Path | None = None
    """Folder for the files; None for one in this node's memory."""
    keep_trace: bool = False
    """Keep the whole trace, in the run's folder."""
    limits: Limits = msgspec.field(default_factory=Limits)
    """Limits of what has not been read yet."""
    has_shield: bool = True
    """Whether the program preloads the shield against readers that die, over SST."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A run on this node: of a program, or of what one has recorded.

    Exactly one of ``command``, ``trace`` and ``replay`` is given.

    Raises
    ------
    ConfigError
        It is not so, or options do not go together.
    """

    command: tuple[str, ...] = ()
    """The program to run with the analysis beside it, in its user's words."""
    started: tuple[str, ...] = ()
    """Words by which it is started, such as those that have it recorded; none for its own."""
    trace: tuple[str, ...] = ()
    """Patterns of recorded BP files, and of traces of other tools: analysed as fast as they can be read."""
    replay: tuple[str, ...] = ()
    """Patterns of recorded BP files, which are analysed as a live stream."""
    pace: str = "original"
    """Pace of a replay: ``original``, ``N`` times, or ``max``."""
    lockstep: bool = False
    """Streams of a replay wait for each other, as recorded ones always do."""
    folder: Path | None = None
    """A new folder for what is found; None for one under ``chimbuko-runs``."""
    agents: int = 1
    """Number of agents that share the ranks."""
    is_separate: bool = False
    """Whether each service, and each agent, has a process of its own. Otherwise services share one, and one
    process is all that analyses a recorded trace.
    """
    cores: str = ""
    """Cores to which all processes of the analysis keep, such as ``0,2-5``; empty for all. The program does
    not.
    """
    keep: bool = False
    """Keep the dashboard after the end, until the process is interrupted."""
    analysis: AnalysisOptions = msgspec.field(default_factory=AnalysisOptions)
    services: ServiceChoices = msgspec.field(default_factory=ServiceChoices)
    transport: TransportOptions = msgspec.field(default_factory=TransportOptions)

    @property
    def is_in_one_process(self) -> bool:
        """Whether a recorded trace is analysed in one process: nothing is wanted that needs the services."""
        wanted = self.services
        needs_services = (wanted.broker, wanted.dashboard, self.keep, wanted.metrics, wanted.alerts)
        config = self.analysis.config
        is_split = self.agents > 1 or config.server_parts > 1 or config.store_writers > 1
        has_others = any(needs_services) or wanted.namespaces is not None
        return bool(self.trace) and not (self.is_separate or is_split or has_others)

    def __post_init__(self) -> None:
        if sum(map(bool, (self.trace, self.replay, self.command))) != 1:
            raise ConfigError("give one of: a COMMAND after '--', --trace PATTERN, --replay PATTERN")
        if self.lockstep and not self.replay:
            raise ConfigError(
                "--lockstep goes with --replay: how many streams a live program has is not known"
            )
        _check_ports(self.services, self.analysis.config)


class AgentOptions(msgspec.Struct, frozen=True):
    """Agents that are wanted on this node, and the streams that they read."""

    config: AnalysisConfig
    node: str
    names: tuple[str, ...]
    """Names of the agents, among which the ranks are dealt out."""
    place: StreamPlace | None = None
    """Place where streams appear; None if they are recorded."""
    recorded: list[StreamName] = msgspec.field(default_factory=list)
    """Recorded streams to analyse."""
    share: Share | None = None
    """Share of the recorded streams that the only agent here reads; None if agents here read them all."""
    is_revived: bool = False
    """Whether the process that starts the agents is started again where it is killed."""


def check_agents(agents: int, recorded: list[StreamName]) -> None:
    """Refuse a number of agents that makes no sense.

    Raises
    ------
    ConfigError
        It is below 1, or above the number of recorded streams.
    """
    if agents < 1:
        raise ConfigError(f"--agents {agents}: at least one agent is needed")
    if recorded and agents > len(recorded):
        raise ConfigError(f"--agents {agents}: there are only {number_of(len(recorded), 'streams')}")


def _check_ports(services: ServiceChoices, config: AnalysisConfig) -> None:
    """Refuse ports that cannot be used, before there is a folder of the run, which would stay."""
    if services.metrics is not None:
        metrics_of_part(services.metrics, config.server_parts - 1)


def _check(config: AnalysisConfig) -> None:
    config.check_detector()
    for name, value, least in (
        ("the period", config.period_us, 1),
        ("the window", config.window_calls, 0),
        ("the most anomalies per function", config.max_anomalies_per_function, 1),
        ("the least difference", config.min_anomaly_us, 0),
    ):
        if value < least:
            raise ConfigError(f"{name} must not be {value}; at least {least} is possible")
    if not 1 <= config.server_parts <= MOST_PARTS:
        raise ConfigError(f"a server of {config.server_parts} parts is not possible; give 1 to {MOST_PARTS}")
    if not 0 <= config.leaf_servers <= MOST_LEAVES:
        raise ConfigError(f"{config.leaf_servers} leaf servers are not possible; give 0 to {MOST_LEAVES}")
    if not 1 <= config.store_writers <= MOST_WRITERS:
        raise ConfigError(
            f"{config.store_writers} writers of the store are not possible; give 1 to {MOST_WRITERS}"
        )
    if config.record_to_step is not None and config.record_to_step < config.record_from_step:
        raise ConfigError(
            f"no step is from {config.record_from_step} to {config.record_to_step}; exchange the two"
        )
