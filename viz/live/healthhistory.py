"""Health of the analysis: its agents and streams as of their last reports, slow ranks, and the history
since the run began, in bounded memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import msgspec

from chimbuko.core.calls.record import StreamHealth
from chimbuko.runtime.protocol.messages import Frame
from chimbuko.runtime.protocol.telemetry import (
    SILENT_AFTER_S,
    AgentFigures,
    SilentAgents,
    SlowRank,
    TelemetryChanges,
    reported_agents,
)
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.viz.live.feedevents import Moment

# Agents of a run as of their last reports, and ranks that are slow all the time.


class AgentState(msgspec.Struct, frozen=True):
    """Resources of an agent, and the age of its last report."""

    name: str
    node: str
    streams: int
    """Number of streams that the agent is reading."""
    pss_bytes: int
    cpu_s: float
    spool_bytes: int
    lag_s: float
    """Lag in seconds of the agent's stream that is furthest behind its rank, beyond the least that it ever
    had.
    """
    age_s: float | None
    """Age of its last report in seconds; None if the run has ended."""
    is_silent: bool
    """Whether the agent has not reported for long, and should have."""


class _Report(msgspec.Struct, frozen=True):
    """Parts of the report that a run ends with, beside its agents."""

    slow_ranks: list[SlowRank] = []


_SHOWN = [field for field in AgentState.__struct_fields__ if field in AgentFigures.__struct_fields__]


@dataclass(frozen=True)
class Agents:
    """Agents by name, as they last reported. They never change: news make others."""

    figures: Mapping[str, AgentFigures] = field(default_factory=dict)
    """Last report of each agent, by name."""
    _slow_ranks: Mapping[int, list[SlowRank]] = field(default_factory=dict)
    """Slow ranks, by the part of the parameter server that compares them."""
    _heard_s: Mapping[str, float] = field(default_factory=dict)
    _silent: SilentAgents = field(default_factory=dict)
    """Nodes of silent agents, as the services report, which hear more than is known here."""

    @classmethod
    def at_end(cls, run: RunDirectory) -> Self:
        """Return the agents' state at the end of a run; none if it left no report."""
        try:
            report = run.read_report()
            slow_ranks = msgspec.json.decode(report, type=_Report).slow_ranks
            return cls(reported_agents(report), {0: slow_ranks})
        except (OSError, msgspec.MsgspecError):
            return cls()

    @property
    def slow_ranks(self) -> list[SlowRank]:
        """Return the ranks that are slower than the others all the time, the most time lost first."""
        everywhere = [rank for ranks in self._slow_ranks.values() for rank in ranks]
        return sorted(everywhere, key=lambda rank: -rank.lost_us)

    def with_changes(self, changes: TelemetryChanges, at: Moment, part: int = 0) -> Self:
        """Return the agents after the changes in a frame of one part of the parameter server."""
        if not changes:
            return self
        slow_ranks = {} if changes.slow_ranks is None else {part: changes.slow_ranks}
        return replace(
            self,
            figures={**self.figures, **changes.agents},
            _slow_ranks={**self._slow_ranks, **slow_ranks},
            _heard_s={**self._heard_s, **dict.fromkeys(changes.agents, at.clock_s)},
            _silent=self._silent if changes.silent is None else changes.silent,
        )

    def states(self, at: Moment | None) -> list[AgentState]:
        """Return the states of all agents by name; without a moment the run has ended."""
        return [
            AgentState(
                name=name,
                **{field: getattr(figures, field) for field in _SHOWN},
                age_s=None if at is None else self._age_s(name, at),
                is_silent=at is not None and self._is_silent(name, at),
            )
            for name, figures in sorted(self.figures.items())
        ]

    def silent(self, at: Moment) -> list[str]:
        """Return the nodes of agents that have streams to read, and have not reported for long."""
        return [self.figures[name].node for name in sorted(self.figures) if self._is_silent(name, at)]

    def _is_silent(self, name: str, at: Moment) -> bool:
        age_s = self._age_s(name, at)
        is_old = age_s is not None and age_s > SILENT_AFTER_S
        # An agent that has read all its streams need not report any more.
        return name in self._silent or (is_old and self.figures[name].streams > 0)

    def _age_s(self, name: str, at: Moment) -> float | None:
        heard_s = self._heard_s.get(name)
        if heard_s is None:
            return None
        if name in self._silent:
            return (at.epoch_us - self._silent[name]) / 1e6
        return at.clock_s - heard_s


MOST_SAMPLES = 256
"""Most samples of the history: a chart of the page is about as many pixels wide."""
SHORTEST_US = 1_000_000


class Vital(msgspec.Struct, frozen=True):
    """Health during one interval: totals at its end, of the other values the largest."""

    time_us: int
    """End of the interval, in µs since the epoch."""
    rows: int
    """Number of rows of the trace read so far."""
    gap_steps: int
    """Number of steps that were not analysed so far."""
    lag_us: int | None
    spool_bytes: int
    """Bytes that wait for the store, of all agents together."""
    pss_bytes: int
    """Memory of all agents together, in bytes."""

    @classmethod
    def of(
        cls,
        time_us: int,
        lag_us: int | None,
        streams: Collection[StreamHealth],
        agents: Collection[AgentFigures | AgentState],
    ) -> Vital:
        """Return the sums of streams and agents at a time."""
        return cls(
            time_us=time_us,
            rows=sum(stream.rows for stream in streams),
            gap_steps=sum(stream.gap_steps for stream in streams),
            lag_us=lag_us,
            spool_bytes=sum(agent.spool_bytes for agent in agents),
            pss_bytes=sum(agent.pss_bytes for agent in agents),
        )


class HealthHistory:
    """History of at most ``MOST_SAMPLES`` intervals; when there are more, pairs become one."""

    def __init__(self) -> None:
        self.samples: list[Vital] = []
        self._interval_us = SHORTEST_US

    def is_due(self, now_us: int) -> bool:
        """Whether the newest sample is as old as samples are apart."""
        return not self.samples or now_us - self.samples[-1].time_us >= self._interval_us

    def add(self, sample: Vital) -> None:
        """Add a newer sample."""
        if len(self.samples) == MOST_SAMPLES:
            pairs = zip(self.samples[::2], self.samples[1::2], strict=True)
            self.samples = [_merged(earlier, later) for earlier, later in pairs]
            self._interval_us *= 2
        self.samples.append(sample)


class Past:
    """Streams and agents in the past, from the frames sent before this dashboard was started.

    A frame says what has changed: so they must all be there, from the first one on. The broker keeps the
    newest 32 MB of them, which are those of a whole run of some ranks.

    Parameters
    ----------
    started_us
        When the run began: a trace that is older was recorded, and nobody is behind it.
    """

    def __init__(self, started_us: int) -> None:
        self._started_us = started_us
        self._ticks: dict[int, int] = {}
        """Ticks, by part of the parameter server."""
        self._is_whole = True
        self._health: dict[tuple[int, int], StreamHealth] = {}
        self._agents: dict[str, AgentFigures] = {}
        self._newest_us = 0

    def take(self, frame: Frame) -> None:
        """Add the next frame."""
        self._is_whole = self._is_whole and frame.tick == self._ticks.get(frame.part, 0) + 1
        self._ticks[frame.part] = frame.tick
        self._health |= {(stream.program, stream.rank): stream for stream in frame.health}
        self._agents |= frame.telemetry.agents
        self._newest_us = max([self._newest_us, *(step.end_us for step in frame.steps)])

    def add_to(self, vitals: HealthHistory, time_us: int) -> None:
        """Add the state at the time of the last frame to a history, if it is known and due."""
        if self._is_whole and vitals.is_due(time_us):
            is_live = self._newest_us >= self._started_us
            lag_us = max(0, time_us - self._newest_us) if is_live else None
            vitals.add(Vital.of(time_us, lag_us, self._health.values(), self._agents.values()))


class StreamSums(msgspec.Struct, frozen=True):
    """Sums over all streams."""

    streams: int
    states: dict[str, int]
    """Number of streams in each state."""
    steps: int
    rows: int
    size_bytes: int
    calls: int
    gap_steps: int
    """Number of steps that were not analysed: counts of their ranks are lower bounds."""
    lossy_ranks: int
    """Number of ranks that lost steps, or rows or calls of steps."""
    losses: dict[str, int]
    """Number of rows or calls that were not used, by kind."""
    largest_step_bytes: int

    @classmethod
    def of(cls, streams: Iterable[StreamHealth]) -> StreamSums:
        """Return the sums over streams."""
        known = list(streams)
        losses: Counter[str] = Counter()
        for stream in known:
            if stream.losses:
                losses.update(stream.losses)
        return cls(
            streams=len(known),
            states=dict(Counter(stream.state for stream in known)),
            steps=sum(stream.steps for stream in known),
            rows=sum(stream.rows for stream in known),
            size_bytes=sum(stream.size_bytes for stream in known),
            calls=sum(stream.calls for stream in known),
            gap_steps=sum(stream.gap_steps for stream in known),
            lossy_ranks=sum(bool(stream.gap_steps or stream.losses) for stream in known),
            losses=dict(losses),
            largest_step_bytes=max((stream.largest_step_bytes for stream in known), default=0),
        )


def _merged(earlier: Vital, later: Vital) -> Vital:
    lags = [lag for lag in (earlier.lag_us, later.lag_us) if lag is not None]
    return msgspec.structs.replace(
        later,
        lag_us=max(lags, default=None),
        spool_bytes=max(earlier.spool_bytes, later.spool_bytes),
        pss_bytes=max(earlier.pss_bytes, later.pss_bytes),
    )
