"""Recorded calls: lists of calls in pages or whole, and single calls with everything kept about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from chimbuko.core.calls.record import CallRecord
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.query.aggregates import By, Total, time_width_us
from chimbuko.provenance.query.besidecall import NodeBeside, node_beside
from chimbuko.provenance.query.filters import MOST, AnomalyFilter, CallFilter, CallSummary, Sort
from chimbuko.provenance.query.names import FindingCalls
from chimbuko.provenance.query.points import MOST_POINTS, PointColumns
from chimbuko.provenance.query.points import points as read_points
from chimbuko.provenance.query.run import settled_state
from chimbuko.viz.api.distribution import Distribution, distribution
from chimbuko.viz.api.endpoint import Answer, Missing, ServedRun, get
from chimbuko.viz.api.parameters import (
    MAX_LIMIT,
    AnyRankText,
    Cursor,
    Limit,
    ListCursor,
    page_of,
    parse_rank,
    rank_text,
)
from chimbuko.viz.api.statements import call_statement, calls_statement, conditions, totals_statement

EventId = Annotated[
    str,
    Meta(
        pattern="^[0-9]{1,9}:[0-9]{1,9}:[0-9]{1,9}:[0-9]{1,9}$",
        description="The id of a call, as PROGRAM:RANK:STEP:ROW.",
    ),
]


RankWanted = Annotated[
    AnyRankText | None, Meta(description="A rank as PROGRAM:RANK, or RANK of the `program` or of any.")
]
MOST_COUNTED = 100_000
"""Most calls that are counted one by one for a list, which takes 0.1 s."""


class AnomalyParameters(AnomalyFilter, frozen=True, kw_only=True):
    """Filter of abnormal calls: those to which all given conditions apply."""

    rank: RankWanted = None  # type: ignore[assignment] # It may name the program, too.

    def call_filter(self) -> CallFilter:
        """Return the filter in the form that provenance takes."""
        asked = msgspec.structs.asdict(self)
        given = {name: asked[name] for name in CallFilter.__struct_fields__ if name in asked}
        if self.rank is not None:
            program, given["rank"] = parse_rank(self.rank)
            given["program"] = self.program if program is None else program
        if given.get("label") == "any":
            given["label"] = None
        return CallFilter(**given)


class FilterParameters(AnomalyParameters, frozen=True, kw_only=True):
    """Filter of calls: those to which all given conditions apply."""

    label: Annotated[
        Literal["anomaly", "normal", "any"], Meta(description="Label that the detector gave.")
    ] = "anomaly"


class OrderedFilterParameters(FilterParameters, frozen=True, kw_only=True):
    """Filter of calls, and their order."""

    sort: Annotated[Sort, Meta(description="Field by which calls are sorted.")] = "severity_us"
    descending: Annotated[bool, Meta(description="Whether the largest comes first.")] = True


class CallsParameters(OrderedFilterParameters, frozen=True, kw_only=True):
    """Filter of calls, their order, and the wanted page of the list."""

    limit: Limit = 50
    cursor: Cursor = None


class CallsAnswer(Answer, frozen=True, kw_only=True):
    """Page of a list of calls."""

    calls: list[CallSummary]
    next: str | None
    """Cursor of the next page; null at the end."""
    total: int
    """Number of calls in the whole list; where that is not exact, there are more."""
    is_total_exact: bool


class CallParameters(msgspec.Struct, frozen=True):
    """Id of a call."""

    event_id: EventId


class CallAnswer(Answer, frozen=True, kw_only=True):
    """One call, and what it can be compared with."""

    record: CallRecord
    normal: CallRecord | None
    """Recorded normal call of the same function that is nearest to this call."""
    distribution: Distribution | None
    """Distribution of the function's runtimes, by the model that judged the call; null where none was kept up
    to then.
    """


def _calls_statement(run: ServedRun, wanted: CallsParameters) -> str | None:
    if wanted.cursor is not None:
        return None
    order = f" ORDER BY {wanted.sort} {'DESC' if wanted.descending else 'ASC'} LIMIT {wanted.limit}"
    chosen = wanted.call_filter()
    return calls_statement(chosen, run.feed.state.info.config.detector, _finding(run, chosen), order)


def _finding(run: ServedRun, chosen: CallFilter) -> FindingCalls | None:
    return run.provenance.reader.names.finding(chosen)


@get("/calls", _calls_statement)
def calls(run: ServedRun, wanted: CallsParameters) -> CallsAnswer:
    """List the calls that a filter matches, in pages."""
    chosen = wanted.call_filter()
    page = run.provenance.calls.page(
        chosen, sort=wanted.sort, descending=wanted.descending, limit=wanted.limit, cursor=wanted.cursor
    )
    total = run.provenance.calls.count(chosen, most=MOST_COUNTED + 1)
    return CallsAnswer(
        calls=page.calls,
        next=page.next,
        total=min(total, MOST_COUNTED),
        is_total_exact=total <= MOST_COUNTED,
    )


@get("/calls.ndjson")
def all_calls(run: ServedRun, wanted: OrderedFilterParameters) -> Iterator[CallSummary]:
    """List all calls that a filter matches, one per line, with the fields of lists."""
    chosen, cursor = wanted.call_filter(), None
    while True:
        # Read in pages: a statement left open for a slow reader would keep the store from removing old data.
        page = run.provenance.calls.page(
            chosen, sort=wanted.sort, descending=wanted.descending, limit=MAX_LIMIT, cursor=cursor
        )
        yield from page.calls
        cursor = page.next
        if cursor is None:
            return


@get("/records.ndjson")
def records(run: ServedRun, wanted: FilterParameters) -> Iterator[CallRecord]:
    """List all calls that a filter matches, one per line, with everything kept about each.

    They come in order of program, rank and step.
    """
    return run.provenance.calls.records(wanted.call_filter())


@get("/calls/{event_id}", lambda _, wanted: call_statement(wanted.event_id))
def call(run: ServedRun, wanted: CallParameters) -> CallAnswer:
    """Return one call with its stack, neighbours, messages and counters, beside a normal one."""
    try:
        record = run.provenance.calls.record(wanted.event_id)
    except ConfigError as error:
        raise Missing(f"{error}{_removed(run)}") from error
    model = run.provenance.models.at(record.program, record.function, record.model_version)
    by_path_to_us = run.provenance.judged_by_path_to_us().get((record.program, record.function), 0.0)
    return CallAnswer(
        record=record,
        normal=run.provenance.calls.normal_like(record),
        distribution=distribution(model, run.feed.state.info.config, by_path_to_us) if model else None,
    )


class BesideAnswer(Answer, frozen=True, kw_only=True):
    """Activity of the node during a call."""

    node: NodeBeside | None
    """Activity of the node; null where there are no samples of the call's thread."""


@get("/calls/{event_id}/node")
def beside(run: ServedRun, wanted: CallParameters) -> BesideAnswer:
    """Return the activity of a call's thread, and of others on its cores, from samples of its node."""
    try:
        record = run.provenance.calls.record(wanted.event_id)
    except ConfigError as error:
        raise Missing(f"{error}{_removed(run)}") from error
    return BesideAnswer(node=node_beside(run.provenance.reader, record))


def _removed(run: ServedRun) -> str:
    """Return an explanation of why a call is not there."""
    rules = Counter[tuple[int, str]]()
    for pruning in run.provenance.prunings():
        rules[pruning.pruned_us, pruning.rule] += pruning.anomalies + pruning.normal_calls
    reported = (
        f"; {calls:,} calls were removed at {datetime.fromtimestamp(pruned_us / 1e6, UTC):%F %T} Z ({rule})"
        for (pruned_us, rule), calls in rules.items()
    )
    return "".join(reported)


class TotalsParameters(AnomalyParameters, frozen=True, kw_only=True):
    """Filter of calls, and the property by which they are grouped."""

    by: Annotated[By, Meta(description="Property that the calls of one total have in common.")]
    width_us: Annotated[
        Annotated[int, Meta(ge=1, le=MOST)] | None,
        Meta(description="Least length of intervals of time; rounded up to whole seconds."),
    ] = None
    limit: Limit = 50
    cursor: ListCursor = None


class TotalsAnswer(Answer, frozen=True, kw_only=True):
    """Page of the list of totals."""

    totals: list[Total]
    """Totals, the most costly first; steps and intervals of time in their order."""
    width_us: int | None
    """Length of the intervals of time, in µs; null where calls are grouped by anything else."""
    next: str | None
    total: int


def _width_us(run: ServedRun, wanted: TotalsParameters) -> int:
    times = run.provenance.steps.time_range() or (0, 0)
    return time_width_us(wanted.by, wanted.width_us, times[1] - times[0])


def _totals_statement(run: ServedRun, wanted: TotalsParameters) -> str | None:
    if wanted.cursor is not None:
        return None
    chosen = wanted.call_filter()
    where = conditions(chosen, run.feed.state.info.config.detector, _finding(run, chosen))
    return totals_statement(where, wanted.by, _width_us(run, wanted), wanted.limit)


@get("/totals", _totals_statement)
def totals(run: ServedRun, wanted: TotalsParameters) -> TotalsAnswer:
    """Return sums over the abnormal calls that a filter matches, grouped by a common property."""
    width_us = _width_us(run, wanted)
    rows = run.provenance.calls.totals(wanted.by, wanted.call_filter(), width_us=width_us)
    page, following = page_of(rows, wanted)
    return TotalsAnswer(
        totals=page,
        width_us=width_us if wanted.by == "time" else None,
        next=following,
        total=len(rows),
    )


class PointsParameters(FilterParameters, frozen=True, kw_only=True):
    """Filter of calls, and the most that are wanted."""

    most: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_POINTS)],
        Meta(description="Most calls in the answer: abnormal ones first, most time lost first."),
    ] = MOST_POINTS


class PointsAnswer(Answer, frozen=True, kw_only=True):
    """Calls in columns, and the number of calls beside them."""

    functions: list[str]
    ranks: list[str]
    """Ranks, as PROGRAM:RANK."""
    nodes: list[str]
    """Node of each of ``ranks``."""
    columns: PointColumns
    anomalies: int
    """Number of anomalies that match; where there are fewer here, these are the worst."""
    normal_calls: int
    """Number of normal calls that were kept and match; where there are fewer here, these are spread evenly
    over them.
    """
    analysed: int | None
    """Number of calls analysed in this range; null where the filter asks for more than ranks, steps and
    label.
    """


@get("/points", state=lambda run, _: settled_state(run.feed.run))
def points(run: ServedRun, wanted: PointsParameters) -> PointsAnswer:
    """Return the calls that a filter matches, as columns of numbers.

    At most 30,000 calls are returned, with the number of all of them. `rank`, `function` and `caller` are
    indexes into the lists of names.
    """
    found = read_points(run.provenance.calls, wanted.call_filter(), wanted.most)
    return PointsAnswer(
        functions=found.functions,
        ranks=[rank_text(key) for key in found.ranks],
        nodes=found.nodes,
        columns=found.columns,
        anomalies=found.anomalies,
        normal_calls=found.normal_calls,
        analysed=found.analysed,
    )
