"""Telemetry that the parameter server has for others beside the model: of ranks, counters, messages, agents.

Bulk data travels as little-endian rows of the dtypes below; numbers of functions are the sender's own.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from chimbuko.core.calls.record import CounterStatistics

FLAGGED = np.dtype(
    [
        ("program", np.int32),
        ("rank", np.int32),
        ("function", np.int32),
        ("anomalies", np.int32),
        ("severity_us", np.float64),
        ("highest_score", np.float64),
    ]
)
"""Flagged calls of one function on one rank; the function's number is the sender's."""


TRAFFIC = np.dtype(
    [
        ("program", np.int32),
        ("rank", np.int32),
        ("destination", np.int32),
        ("messages", np.int64),
        ("size_bytes", np.int64),
    ]
)
"""Messages that a rank sent to another one, or to all those together for which there was no room."""

PACE = np.dtype(
    [
        ("program", np.int32),
        ("rank", np.int32),
        ("window", np.int64),
        ("function", np.int32),
        ("calls", np.int32),
        ("time_us", np.float64),
    ]
)
"""Pace of a rank in one function during one window of trace time: its calls, and the sum of their exclusive
runtimes, without the excess of the abnormal ones over what was expected.
"""

TIMER = np.dtype(
    [
        ("program", np.int32),
        ("rank", np.int32),
        ("function", np.int32),
        ("calls", np.int64),
        ("inclusive_us", np.float64),
        ("exclusive_us", np.float64),
    ]
)
"""Runtimes of the calls of one function on one rank that have ended. As TAU counts it, the inclusive time of
a call within another one of the same function is part of that one's, and does not count again.
"""

BEGUN = np.dtype([("function", np.int32), ("calls", np.int64)])
"""Calls of one function that have begun, on all ranks of a sender: also first and doubtful ones, which do not
count for the detector.
"""

OTHERS = -1
"""Destination that stands for ranks without a row of their own, and function that stands for functions
without one.
"""

PERIODS_PER_WINDOW = 10
"""Number of trace periods in a window of ``PACE``: ten seconds, unless the user chooses another period."""


class StreamCounters(msgspec.Struct, frozen=True, array_like=True):
    """Totals of counters of one stream since it began: the newest of a counter replaces those before."""

    program: int
    rank: int
    counters: list[CounterStatistics]


SILENT_AFTER_S = 25.0
"""Time in seconds after which an agent counts as silent. It reports every ten seconds, even where its ranks
give no steps; two of its messages may be late. Services of many nodes hear more of theirs, and report
earlier which are silent.
"""

SilentAgents = dict[str, int]
"""Agents that are not heard, and when each was heard last, in µs since the epoch."""


class AgentLoad(msgspec.Struct, frozen=True, array_like=True):
    """Work that came to an agent during an interval, and the resources it took."""

    seconds: float
    streams: int
    steps: int
    rows: int
    size_bytes: int
    cpu_s: float
    """CPU time of its process, its fork server and its streams' processes."""
    wait_s: float | None = None
    """Mean time from the end of a step to when its analysis had reached the agent; None for a trace that was
    recorded.
    """


class AgentFigures(msgspec.Struct, frozen=True, array_like=True):
    """Resources of an agent, its fork server and its streams' processes, as it last reported."""

    node: str
    streams: int
    """Number of streams that are being read."""
    pss_bytes: int
    """Memory of all its processes; what they share is divided among those who share it."""
    cpu_s: float
    """CPU time of all its processes since it began."""
    spool_bytes: int
    """Size of its streams' spools: what is not known to be in the store, and the last segment of each."""
    lag_s: float
    """Largest lag of the analysis behind a rank, relative to each stream's smallest lag, in seconds."""
    loads: list[AgentLoad] = []
    """Loads in intervals since it began, in order, at most 16; when there are more, neighbours are joined."""


class _ReportedAnalysis(msgspec.Struct, frozen=True):
    agents: dict[str, dict[str, Any]] = {}


class _Report(msgspec.Struct, frozen=True):
    analysis: _ReportedAnalysis = _ReportedAnalysis()


def reported_agents(report: bytes) -> dict[str, AgentFigures]:
    """Return the agents in the report that a run ends with, by name.

    Raises
    ------
    msgspec.MsgspecError
        The bytes are no such report.
    """
    # A report has names; what travels between processes has none. Of an older one the last may be missing.
    agents = msgspec.json.decode(report, type=_Report).analysis.agents
    fields = AgentFigures.__struct_fields__
    return {
        name: msgspec.convert([figures[field] for field in fields if field in figures], AgentFigures)
        for name, figures in agents.items()
    }


class ProgramPaths(msgspec.Struct, frozen=True, array_like=True):
    """Calls of one program by call path."""

    program: int
    rows: bytes
    """Rows of ``chimbuko.core.calls.pathtable.PATH``: those with calls, and their parents."""


class TelemetryDelta(msgspec.Struct, frozen=True, array_like=True):
    """Changes of telemetry at one agent."""

    flagged: bytes = b""
    """``FLAGGED`` rows."""
    traffic: bytes = b""
    """``TRAFFIC`` rows of messages since the last delta."""
    paces: bytes = b""
    """``PACE`` rows."""
    counters: list[StreamCounters] = []
    figures: AgentFigures | None = None
    paths: list[ProgramPaths] = []
    """Calls by call path since they were last reported."""
    flagged_steps: bytes = b""
    """``FLAGGED_STEPS`` rows, of all ranks of the agent."""
    node: str = ""
    """Node of the agent, where there are paces."""
    timers: bytes = b""
    """``TIMER`` rows of each rank since they were last reported, with the call paths."""
    begun: bytes = b""
    """``BEGUN`` rows of calls since they were last reported, with the call paths."""


class ProgramCounter(msgspec.Struct, frozen=True, array_like=True):
    """Totals of one counter over all ranks of a program; its moments are those of ``core.statistics``."""

    program: int
    ranks: int
    statistics: CounterStatistics


class SlowRank(msgspec.Struct, frozen=True):
    """One rank that is slower than the others all the time, in one function or in all together."""

    program: int
    rank: int
    node: str
    """Node of the rank; empty if its agent has not reported it."""
    function: str
    """Function; empty for all that the rank computes, together."""
    ratio: float
    """Ratio of the runtimes of its calls to those of the middle rank."""
    deviations: float
    """Distance from the middle rank, in spreads of the ranks: a robust z."""
    lost_us: float
    """Time that the rank has lost by it so far, in µs."""
    windows: int
    """Number of windows in which the rank was compared."""
    ranks: int
    """Number of ranks it is compared with, itself among them."""


class TelemetryChanges(msgspec.Struct, frozen=True, array_like=True):
    """Changes of the telemetry since the last frame. All are totals; functions have global numbers."""

    flagged: bytes = b""
    """``FLAGGED`` rows."""
    traffic: bytes = b""
    """``TRAFFIC`` rows that have grown by a tenth since they were last sent."""
    counters: list[ProgramCounter] = []
    """Counters whose number of values has grown by a tenth."""
    agents: dict[str, AgentFigures] = {}
    """Resources of each agent."""
    slow_ranks: list[SlowRank] | None = None
    """All slow ranks, the most time lost first; None if nothing changed."""
    silent: SilentAgents | None = None
    """All silent agents, as services of many nodes report them; None if nothing changed."""

    def __bool__(self) -> bool:
        changed = self.flagged or self.traffic or self.counters or self.agents
        return bool(changed) or self.slow_ranks is not None or self.silent is not None


class RankTimers(msgspec.Struct, frozen=True, array_like=True):
    """Runtimes of functions on each rank since the run began; all of them at one part of the server."""

    rows: bytes
    """``TIMER`` totals; functions have global numbers, or are ``OTHERS``."""
    programs: dict[int, str]
    functions: dict[int, str]
    """Names of the functions in the rows."""
    nodes: list[tuple[int, int, str]]
    """Program, rank and node, where that is known."""
