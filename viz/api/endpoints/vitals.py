"""Health of the analysis: how much of the trace was read, lost and kept, and what the analysis costs."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from chimbuko.core.calls.census import Census, census_of
from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.errors import ConfigError
from chimbuko.plan.placingadvice import AgentAdvice, advise, points
from chimbuko.provenance.query.placing import measured_nodes
from chimbuko.provenance.query.run import Dropped, Pruning
from chimbuko.runtime.protocol.telemetry import SlowRank
from chimbuko.viz.api.endpoint import Answer, ServedRun, get
from chimbuko.viz.api.parameters import PageParameters, page_of, rank_text
from chimbuko.viz.live.healthhistory import AgentState, StreamSums, Vital
from chimbuko.viz.live.status import Status

MOST_NODES = 4
MOST_NAMED = 100
"""Most agents, functions and ranks in one answer, the most important first."""

MOST_LOSSY = 50
"""Most ranks whose gaps are reported: as many lines as a picture has room for."""
MOST_GAPS = 200
"""Most gaps of one rank, the longest ones."""

Order = Literal["loss", "rank", "rows", "largest_step_bytes"]


class Unrecorded(msgspec.Struct, frozen=True):
    """Abnormal calls of one function, over all streams, that were counted and not recorded."""

    function: str
    anomalies: int


class Storage(msgspec.Struct, frozen=True):
    """Sizes of the trace, and of what is kept of it."""

    trace_bytes: int
    """Bytes of the trace read so far."""
    stored_bytes: int | None
    """Size of the store in bytes; None if it holds other runs too, or is elsewhere."""


class VitalsAnswer(Answer, frozen=True, kw_only=True):
    """Health of the analysis as a whole."""

    status: Status
    sums: StreamSums
    census: Census
    """Calls that were analysed, and those that their sources saw."""
    agents: list[AgentState]
    """Agents, those furthest behind first, at most a hundred; empty if no agent has reported."""
    agent_sums: AgentState | None
    """Figures of all agents together: the largest lag and age; sums of the rest."""
    agents_total: int
    slow_ranks: list[SlowRank]
    storage: Storage
    transport: str
    """Transport of the trace: ``files``, ``sst`` or ``recorded``; empty if that is not known any more."""
    unrecorded: list[Unrecorded]
    """Functions with unrecorded calls, most anomalies first."""
    unrecorded_total: int
    pruned: list[Pruning]
    """Anomalies removed from the store later on, the latest first."""
    pruned_total: int
    """Number of anomalies that were removed."""
    history: list[Vital]
    """History since this dashboard follows the run, at most 256 intervals; empty if the run had ended by
    then.
    """


class StreamsParameters(PageParameters, frozen=True, kw_only=True):
    """Order of the streams, and the wanted page of the list."""

    sort: Annotated[
        Order,
        Meta(description="Order of the streams: by loss, rows or step, the most first; or by rank."),
    ] = "loss"
    state: Annotated[
        Literal["reading", "silent", "ended", "broken", "lost"] | None,
        Meta(description="State of the wanted streams."),
    ] = None


class StreamsAnswer(Answer, frozen=True, kw_only=True):
    """Page of the list of streams."""

    streams: list[StreamHealth]
    next: str | None
    total: int


class Gaps(msgspec.Struct, frozen=True):
    """Steps of one rank that were not analysed."""

    rank: str
    gap_steps: int
    gaps: list[tuple[int, int]]
    """First and last step of each gap, in order; of more than 200 the longest."""
    gaps_total: int


class GapsAnswer(Answer, frozen=True, kw_only=True):
    """Gaps of the ranks that lost steps."""

    ranks: list[Gaps]
    """Ranks, those that lost most first, at most 50."""
    lossy_ranks: int
    """Number of ranks that lost steps."""
    last_step: int | None
    """Newest analysed step of all ranks."""


class PredictedPlacement(msgspec.Struct, frozen=True):
    """Prediction for the analysis in one place."""

    where: str
    """Place of the analysis: ``shared`` on all cores; ``inside`` on some of the application's; ``own`` on
    cores of its own.
    """
    cores: float
    """Number of cores of the analysis; below 1 the share that a CPU quota gives it of one core, or of all
    that it shares.
    """
    application_cores: int
    """Number of cores that are left to the application."""
    step_us: float
    """Time of a step of the trace, in µs."""
    added_share: float
    """Added time, as a share of a step without an analysis."""
    busy_share: float
    """Share of the analysis' cores that is busy."""
    keeps_up: bool


class AnalysisInterval(msgspec.Struct, frozen=True):
    """Cost of the analysis during one interval: measured, and predicted from all other intervals."""

    rows_per_s: float
    measured_us: float
    """Measured CPU time for a step of all streams, in µs."""
    predicted_us: float


class AdvisedNode(msgspec.Struct, frozen=True):
    """Advice for one node."""

    node: str
    agents: int
    """Number of agents that is recommended; the fields that follow hold for it."""
    cores: str
    """Recommended cores, in the form that ``--cores`` takes; empty for all."""
    period_us: float
    transport: str
    streams: int
    step_us: float
    """Time that a step of the trace would take without an analysis, in µs."""
    analysis_us: float
    """CPU time of the analysis of such a step, in µs."""
    wait_us: float | None
    """Time in µs from the end of a step to when the agent had analysed up to it; None if that was not
    measured.
    """
    placements: list[PredictedPlacement]
    """Predicted placements, the best first."""
    intervals: list[AnalysisInterval]
    """Measured intervals, in order of time."""


class PlacementAnswer(Answer, frozen=True, kw_only=True):
    """Recommended placement of the analysis."""

    nodes: list[AdvisedNode]
    """Nodes, those with most events, at most four; empty before an agent has reported the cost of some steps.
    """


@get("/vitals")
def vitals(run: ServedRun) -> VitalsAnswer:
    """Return the health of the analysis as a whole: what was read, lost, kept and dropped, and its cost."""
    feed = run.feed
    agents = sorted(feed.agents(), key=lambda agent: (-agent.lag_s, agent.name))
    unrecorded: Counter[str] = Counter()
    for dropped in run.provenance.dropped():
        unrecorded[dropped.function] += dropped.anomalies
    pruned = run.provenance.prunings()
    streams = feed.state.totals.streams()
    sums = StreamSums.of(streams)
    return VitalsAnswer(
        status=feed.status(),
        sums=sums,
        census=census_of(streams),
        agents=agents[:MOST_NAMED],
        agent_sums=_summed(agents) if agents else None,
        agents_total=len(agents),
        slow_ranks=feed.state.agents.slow_ranks[:MOST_NAMED],
        storage=_storage(run, sums.size_bytes),
        transport=run.provenance.run().transport,
        unrecorded=[Unrecorded(*one) for one in unrecorded.most_common(MOST_NAMED)],
        unrecorded_total=unrecorded.total(),
        pruned=pruned[:MOST_NAMED],
        pruned_total=sum(one.anomalies for one in pruned),
        history=list(feed.state.vitals),
    )


@get("/streams")
def streams(run: ServedRun, wanted: StreamsParameters) -> StreamsAnswer:
    """List what each stream read and lost, in pages; those that lost most first."""
    rows = [stream for stream in run.feed.state.totals.streams() if wanted.state in (None, stream.state)]
    if wanted.sort == "loss":
        rows.sort(key=lambda stream: (-stream.gap_steps, -sum(stream.losses.values())))
    elif wanted.sort != "rank":
        rows.sort(key=lambda stream: -getattr(stream, wanted.sort))
    page, following = page_of(rows, wanted)
    return StreamsAnswer(streams=page, next=following, total=len(rows))


@get("/gaps")
def gaps(run: ServedRun) -> GapsAnswer:
    """Return the steps that were lost, of the ranks that lost most."""
    lossy = [stream for stream in run.feed.state.totals.streams() if stream.gap_steps]
    lossy.sort(key=lambda stream: -stream.gap_steps)
    worst = {(stream.program, stream.rank): stream for stream in lossy[:MOST_LOSSY]}
    found = run.provenance.steps.gaps(list(worst)) if worst else {}
    ranks = [
        Gaps(rank_text(key), stream.gap_steps, _longest(found[key]), len(found[key]))
        for key, stream in worst.items()
    ]
    return GapsAnswer(ranks=ranks, lossy_ranks=len(lossy), last_step=run.feed.status().last_step)


@get("/placement")
def placement(run: ServedRun) -> PlacementAnswer:
    """Return the cost of the analysis with its agents on different cores, predicted and measured."""
    agents = run.feed.state.agents.figures
    found = []
    for measured in measured_nodes(run.provenance, agents, MOST_NODES):
        try:
            found.append(_advised(advise(measured)))
        except ConfigError:
            # The agent has not reported enough yet.
            continue
    return PlacementAnswer(nodes=found)


def _advised(advice: AgentAdvice) -> AdvisedNode:
    return AdvisedNode(
        node=advice.measured.node,
        agents=advice.agents,
        cores=advice.cores,
        period_us=1e6 * advice.period_s,
        transport=advice.transport,
        streams=advice.load.streams,
        step_us=1e6 * advice.load.step_s,
        analysis_us=1e6 * advice.load.analysis_s,
        wait_us=None if advice.wait_s is None else 1e6 * advice.wait_s,
        placements=[
            PredictedPlacement(
                one.placement.where,
                one.placement.cores,
                one.application_cores,
                1e6 * one.step_s,
                one.added_share,
                one.busy_share,
                one.keeps_up,
            )
            for one in advice.outcomes
        ],
        intervals=[
            AnalysisInterval(point.rows_per_s, 1e6 * point.measured_s, 1e6 * point.predicted_s)
            for point in points(advice.measured.loads)
        ],
    )


def _longest(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted(sorted(intervals, key=lambda gap: gap[0] - gap[1])[:MOST_GAPS])


def _summed(agents: list[AgentState]) -> AgentState:
    ages_s = [agent.age_s for agent in agents if agent.age_s is not None]
    return AgentState(
        name="",
        node="",
        streams=sum(agent.streams for agent in agents),
        pss_bytes=sum(agent.pss_bytes for agent in agents),
        cpu_s=sum(agent.cpu_s for agent in agents),
        spool_bytes=sum(agent.spool_bytes for agent in agents),
        lag_s=max(agent.lag_s for agent in agents),
        age_s=max(ages_s, default=None),
        is_silent=any(agent.is_silent for agent in agents),
    )


def _storage(run: ServedRun, trace_bytes: int) -> Storage:
    path = run.feed.run.store_path
    # The write-ahead log counts, too; its index is gone when nobody reads.
    files = [one for one in (path, path.with_name(path.name + "-wal")) if one.exists()]
    return Storage(trace_bytes, sum(one.stat().st_size for one in files) if files else None)


class HealthAnswer(Answer, frozen=True, kw_only=True):
    """State of the analysis: events that were read and lost, and the age of the newest."""

    status: Status
    streams: list[StreamHealth]
    dropped: list[Dropped]
    """Number of anomalies that were found but not kept."""
    prunings: list[Pruning]
    """Prunings: records that were kept, and removed later on."""


@get("/health")
def health(run: ServedRun) -> HealthAnswer:
    """Return the state of the analysis: what each stream read and lost, and what is not kept."""
    return HealthAnswer(
        status=run.feed.status(),
        streams=run.feed.state.totals.streams(),
        dropped=run.provenance.dropped(),
        prunings=run.provenance.prunings(),
    )
