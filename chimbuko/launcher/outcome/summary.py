"""Summary of a run, as a few lines for people or as JSON."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from chimbuko.capture.symbols.taunames import is_offset_name
from chimbuko.capture.trace.discovery import Transport
from chimbuko.causes.incidents.drift import Drift
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.causes.wording import Bound, bounded
from chimbuko.core.calls.census import AT_THE_END, Census, census_of, share_of
from chimbuko.core.calls.functionnames import shown_name, shown_names
from chimbuko.core.calls.record import BEYOND_BUDGET, NO_ROOM_RECORDS, StreamHealth
from chimbuko.core.calls.waiting import Waits, waits_in
from chimbuko.core.traceschema import UNNAMED_FUNCTIONS, UNRESOLVED
from chimbuko.core.units import format_duration_us, number_of
from chimbuko.launcher.outcome.filteradvice import LARGEST_STEP_BYTES, LargeStep, advise, mend_step
from chimbuko.launcher.outcome.losses import (
    DROPPED_STEPS,
    MAKE_ROOM,
    MISSED_STEPS,
    WITHOUT_END,
    Loss,
    LossyStream,
    TracerReports,
    counted,
    everything,
    loss_lines,
    no_stream_line,
    place_lines,
    report_lines,
    tracer_reports,
    undelivered,
    unrecorded,
    without_end,
)
from chimbuko.provenance.explain.explaining import slow_ranks_of
from chimbuko.provenance.history.known import KnownFinding
from chimbuko.provenance.incidents.budget import Budget
from chimbuko.provenance.incidents.incidentlist import IncidentPage, Incidents, RecurrenceSummary
from chimbuko.provenance.incidents.metricfindings import MetricFinding, metric_findings
from chimbuko.provenance.incidents.origins import OriginList, origins
from chimbuko.provenance.incidents.runbudget import run_budget
from chimbuko.provenance.manage.inventory import bytes_elsewhere
from chimbuko.provenance.manage.lifecycle import left_bytes
from chimbuko.provenance.query.filters import CallFilter, CallSummary
from chimbuko.provenance.query.nodelist import NodeCost, node_costs
from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.runtime.protocol.messages import FunctionStatistics, RankStatistics
from chimbuko.runtime.protocol.telemetry import SlowRank
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.runtime.runs.environment import BASELINE

_ADVICE = {
    AT_THE_END: f"their reader was killed, was replaced or could not keep up; {MAKE_ROOM}",
}


def _missing_calls(census: Census) -> list[Loss]:
    """Return the calls that are missing, a loss for each reason."""
    return [
        Loss(f"{share_of(number, census.seen)} {reason}", _ADVICE.get(reason, ""))
        for reason, number in census.differences.items()
    ]


def _without_loss(census: Census, reservations: Sequence[str]) -> str:
    """Return the words for a run of which nothing is known to be lost.

    Parameters
    ----------
    reservations
        Why more may be lost than was counted, in words.
    """
    if reservations:
        return f"no loss known, but {' and '.join(reservations)}: see below"
    return census.sentence


CAME = {
    Transport.FILES.value: " through files",
    Transport.SST.value: " over SST",
    Transport.RECORDED.value: "",
    "": "",
}
MOST_SHOWN = 5
MOST_ORIGINS = 100
"""Functions that incidents began in or held up: those that only waited follow the others."""
LEAST_REDUCTION = 1.5
"""Least reduction of the trace that is reported; the empty tables outweigh the trace of a run of seconds."""
DRIFT = 1.2
"""Least ratio of the usual runtime at the end to the one at first, or its inverse, for which a function is
named.
"""


class Summary(msgspec.Struct, frozen=True):
    """Findings of a run, with how far they can be trusted."""

    budget: Budget
    """Time budget of the run: where its time went, and how much of it was lost."""
    run: str
    transport: str
    """Transport of its trace, as in ``RunInfo``."""
    programs: int
    ranks: int
    steps: int
    rows: int
    calls: int
    anomalies: int
    normal_calls: int
    trace_bytes: int
    stored_bytes: int
    """Size of all that the run leaves, in bytes: store, report, model, logs and settings."""
    store: str | None
    """URL of its provenance, if that is not in the folder."""
    elsewhere_bytes: int
    """Size of its rows in a store elsewhere, in bytes; a part of ``stored_bytes``."""
    gap_steps: int
    losses: dict[str, int]
    """Rows or calls not used, by kind, over all streams."""
    dropped: int
    """Anomalies that are counted, but not recorded: too many of their function, more than the store can take,
    or no room in a spool."""
    broken_streams: list[str]
    """Streams whose end is missing: their program was killed, or they could not be read to it."""
    unread_streams: list[str]
    """Streams whose program ended in order, but which were not read to their end."""
    census: Census
    """Calls that were analysed, and those that their sources saw."""
    unresolved: dict[str, int]
    """Functions of which only the address is known, by program."""
    unnamed: dict[str, list[str]]
    """Reasons and remedies, by program: a text for each binary."""
    reports: TracerReports
    """Reports of our tracers about the program."""
    large_step: LargeStep | None
    """The largest step, if it is so large that it can hold up the application."""
    incidents: IncidentPage
    """Incidents that cost most, the worst first."""
    recurrences: list[RecurrenceSummary]
    """Causes that cost time again and again."""
    nodes: list[NodeCost]
    """Findings about nodes that cost time, the most costly first, and those about memory."""
    metrics: list[MetricFinding]
    """Anomalies of quantities that the programs publish."""
    lost_by_function: OriginList
    """Functions because of which core time was lost, on whatever ranks."""
    lost_by_rank: OriginList
    functions: list[FunctionStatistics]
    """Functions with the most time lost in their own abnormal calls, worst first."""
    drifted: list[FunctionStatistics]
    """Functions that have slowly become slower or faster, the most first."""
    unended: list[CallSummary]
    """Overdue calls that never ended, the longest first."""
    worst_ranks: list[RankStatistics]
    """Ranks that lost the most time in their abnormal calls, worst first."""
    slow_ranks: list[SlowRank]
    """Ranks that are slower than the others all the time, the most time lost first."""
    problems: list[str]
    is_interrupted: bool = False
    """Whether it was asked to end while its programs ran."""
    no_stream: str = ""
    """Line that says what it most often means that nothing was recorded; empty where something was."""
    known: dict[str, KnownFinding] = {}
    """Findings that earlier runs of the series had, too, by their ids."""
    slower_than_usual: list[Drift] = []
    """Functions all of whose calls take longer than in the series, those that cost most first."""
    baseline: str = ""
    """Runs whose model it began with, in words; empty if it began with none of its series."""
    lossy: list[LossyStream] = []
    """Streams of which something was lost, by node and rank."""
    lost_agents: list[str] = []
    """Agents on other nodes of which nothing was heard at the end."""
    dropped_of: dict[str, int] = {}
    """Those that are counted, but not recorded, by function, the most first."""

    @property
    def reduction(self) -> float:
        """Bytes of trace per byte that is left."""
        return self.trace_bytes / self.stored_bytes if self.stored_bytes else 0.0


def summarize(run: RunDirectory, problems: list[str], exit_code: int | None = None) -> Summary:
    """Read the summary of a run from its store.

    Parameters
    ----------
    exit_code
        Exit code of the program, where the run's folder does not have it yet.
    """
    with open_run(run) as provenance:
        return _summary(run, provenance, problems, exit_code)


def _drifted(
    known: Sequence[FunctionStatistics], recurrences: Sequence[Recurrence]
) -> list[FunctionStatistics]:
    """Return functions whose calls take longer than at first, without those of which a finding says so."""
    are_told = {(one.program, one.function) for one in recurrences if one.kind is RecurrenceKind.DRIFT}
    # What ranks wait for drifts, and not their waits.
    own = [f for f in known if waits_in(f.name) is Waits.NOT and (f.program, f.name) not in are_told]
    return [f for f in own if _extent(f) >= math.log(DRIFT)]


def _summary(
    run: RunDirectory, provenance: Provenance, problems: list[str], exit_code: int | None
) -> Summary:
    health = provenance.health()
    dropped = Counter[str]()
    for item in provenance.dropped():
        dropped[item.function] += item.anomalies
    elsewhere_bytes = bytes_elsewhere(run.used_store_url(provenance.run()), provenance.run().id)
    known = provenance.function_statistics()
    functions = [f for f in known if f.anomalies]
    recurrences = Incidents(provenance.reader).recurrences()
    drifted = _drifted(known, [one.recurrence for one in recurrences])
    ranks = [r for r in provenance.steps.rank_statistics() if r.total]
    info, is_interrupted = run.read_info(), run.interrupted_path.exists()
    is_over_sst = info.transport == Transport.SST.value
    ended_with = info.exit_code if exit_code is None else exit_code
    missing = no_stream_line(ended_with, is_interrupted, bool(problems), is_over_sst)
    return Summary(
        budget=run_budget(provenance),
        run=str(run.path),
        transport=provenance.run().transport,
        programs=len(provenance.programs()),
        ranks=len(health),
        steps=sum(stream.steps for stream in health),
        rows=sum(stream.rows for stream in health),
        calls=sum(stream.calls for stream in health),
        anomalies=provenance.calls.count(CallFilter()),
        normal_calls=provenance.calls.count(CallFilter(label="normal")),
        trace_bytes=sum(stream.size_bytes for stream in health),
        stored_bytes=left_bytes(run) + elsewhere_bytes,
        store=None if run.store_path.exists() else provenance.run().store_url,
        elsewhere_bytes=elsewhere_bytes,
        gap_steps=sum(stream.gap_steps for stream in health),
        losses=_total_losses(health),
        dropped=dropped.total(),
        dropped_of=dict(dropped.most_common()),
        broken_streams=[f"{s.program}:{s.rank}" for s in health if s.state != "ended"],
        unread_streams=[f"{s.program}:{s.rank}" for s in health if s.state != "ended" and s.source],
        census=census_of(health),
        unresolved=_unresolved(provenance),
        unnamed=_unnamed(provenance),
        reports=tracer_reports(provenance),
        large_step=_large_step(provenance, health),
        incidents=Incidents(provenance.reader).page(limit=MOST_SHOWN),
        recurrences=recurrences,
        nodes=node_costs(provenance.reader),
        metrics=metric_findings(provenance.reader),
        lost_by_function=origins(provenance.reader, "function", MOST_ORIGINS),
        lost_by_rank=origins(provenance.reader, "rank", MOST_SHOWN),
        functions=sorted(functions, key=lambda f: f.severity_us, reverse=True)[:MOST_SHOWN],
        drifted=sorted(drifted, key=_extent, reverse=True)[:MOST_SHOWN],
        unended=provenance.calls.page(CallFilter(is_open=True), limit=MOST_SHOWN).calls,
        worst_ranks=sorted(ranks, key=lambda r: r.severity_us, reverse=True)[:MOST_SHOWN],
        slow_ranks=slow_ranks_of(run),
        problems=problems,
        is_interrupted=is_interrupted,
        no_stream="" if health or info.transport == Transport.RECORDED else missing,
        baseline=info.environment.get(BASELINE, ""),
        lossy=_lossy(health, _gaps(provenance.run().transport)),
    )


class Result(msgspec.Struct, frozen=True):
    """Result of a run that has ended."""

    run: str
    """Folder of the run."""
    problems: list[str]
    """One line each, for what did not go as it should."""
    summary: Summary | None
    """Summary of the run; None if its store cannot be read."""
    exit_code: int | None
    """Exit code of the program, as a shell would give it; None if there was none."""
    store_code: int
    """0, or the exit code that says why there is no summary."""


def _unended_lines(summary: Summary) -> list[str]:
    calls = [
        f"  {format_duration_us(call.inclusive_us):>8}  {call.id}  {shown_name(call.function)}"
        for call in summary.unended
    ]
    return ["Calls that never ended, the longest first:", *calls] if calls else []


def summary_lines(summary: Summary) -> list[str]:
    """Return the summary for people."""
    lines = [f"Time: {summary.budget.sentence}"] if summary.budget.threads else []
    lines += [
        f"{number_of(summary.anomalies, 'anomalies')} among {number_of(summary.calls, 'calls')} of "
        f"{number_of(summary.ranks, 'ranks')} ({number_of(summary.steps, 'steps')}, "
        f"{number_of(summary.rows, 'events')})"
    ]
    if summary.baseline:
        lines.append(f"Began with what is known of {summary.baseline}")
    if summary.no_stream:
        lines.append(summary.no_stream)
    lines += incident_lines(summary.incidents, summary.recurrences, summary.nodes, summary.known)
    lines += [
        f"Slower than in its series: {shown_name(one.function)} takes {one.factor:.2g} times as long "
        f"({format_duration_us(one.usual_us)} → {format_duration_us(one.typical_us)} a call), "
        f"{format_duration_us(one.lost_us)} in all; 'chimbuko history' says since when"
        for one in summary.slower_than_usual[:MOST_SHOWN]
    ]
    if summary.budget.not_judged_line:
        lines.append(f"Not judged: {summary.budget.not_judged_line}")
    if summary.metrics:
        lines.append("Wrong in what the programs publish:")
        lines += [f"  {one.id:<6} {one.sentence}" for one in summary.metrics[:MOST_SHOWN]]
    worst = worst_lines(summary.lost_by_function, summary.lost_by_rank, summary.programs)
    lines += worst or _abnormal_lines(summary)
    lines += [
        f"Drifted: {shown_name(f.name)} now takes {f.drift:.2g} times as long as at first"
        for f in summary.drifted
    ]
    if summary.slow_ranks:
        lines.append("Slow all the time, compared with the other ranks:")
        lines += slow_lines(summary.slow_ranks)
    lines += _unended_lines(summary)
    lines.append(
        f"Data: {summary.trace_bytes / 1e6:.1f} MB of trace{CAME.get(summary.transport, '')}, "
        f"{(summary.stored_bytes - summary.elsewhere_bytes) / 1e6:.2f} MB left in the run's folder"
        + (f", {summary.elsewhere_bytes / 1e6:.2f} MB in {summary.store}" if summary.store else "")
        + (f" ({summary.reduction:.0f}× less)" if summary.reduction >= LEAST_REDUCTION else "")
    )
    if summary.ranks:
        lines += loss_lines(losses_of(summary), _without_loss(summary.census, _reservations(summary)))
        lines += place_lines(summary.lossy)
    lines += _only_counted_lines(summary.dropped_of)
    lines += [
        f"Unresolved: {number_of(number, 'functions')} of {program}, known by address only; "
        f"{'; '.join(summary.unnamed.get(program, ['see the logs of the run']))}"
        for program, number in summary.unresolved.items()
    ]
    lines += report_lines(summary.reports)
    if summary.large_step is not None:
        lines.append(_large_step_text(summary.large_step, summary.run))
    lines += problem_lines(summary.problems)
    lines.append(f"Provenance: {summary.run}")
    run = shlex.quote(summary.run)
    lines.append(f"Look again: chimbuko view {run}   or   chimbuko query {run}")
    return lines


def _only_counted_lines(dropped_of: Mapping[str, int]) -> list[str]:
    """Return a line that names the functions with abnormal calls that are not recorded."""
    if not dropped_of:
        return []
    most = list(dropped_of)[:MOST_SHOWN]
    named = ", ".join(
        f"{dropped_of[name]:,} of {shown}" for name, shown in zip(most, map(shown_name, most), strict=True)
    )
    others = len(dropped_of) - len(most)
    rest = sum(dropped_of.values()) - sum(dropped_of[name] for name in most)
    more = f", {rest:,} of {number_of(others, 'functions')} more" if others else ""
    return [f"Only counted: {named}{more}"]


def _abnormal_lines(summary: Summary) -> list[str]:
    """Return lines for calls that were abnormal, and of which no incident is known."""
    if not summary.functions:
        return []
    shown = shown_names(f.name for f in summary.functions)
    lines = ["Worst functions, by time lost:"]
    lines += [
        f"  {format_duration_us(f.severity_us):>8}  {f.anomalies:>5}×  {shown[f.name]}"
        for f in summary.functions
    ]
    lines.append("Worst ranks, by time lost:")
    programs = summary.programs
    lines += [
        f"  {format_duration_us(r.severity_us):>8}  {r.total:>5}×  {_rank(r.program, r.rank, programs)}"
        for r in summary.worst_ranks
    ]
    return lines


def _rank(program: int | None, rank: int | None, programs: int) -> str:
    return f"rank {rank}" if programs < 2 else f"rank {program}:{rank}"


def problem_lines(problems: list[str]) -> list[str]:
    """Return lines for people about what did not go as it should."""
    return [f"Problem: {problem}" for problem in problems]


def slow_lines(slow_ranks: list[SlowRank]) -> list[str]:
    """Return lines for people: each rank once, those of a node together, the most time lost first."""
    worst: dict[tuple[int, int], SlowRank] = {}
    # What it computes all together says more than any one function.
    for slow in sorted(slow_ranks, key=lambda slow: slow.function != ""):
        worst.setdefault((slow.program, slow.rank), slow)
    nodes: dict[str, list[SlowRank]] = {}
    for slow in sorted(worst.values(), key=lambda slow: slow.lost_us, reverse=True):
        nodes.setdefault(slow.node, []).append(slow)
    lost = {node: sum(slow.lost_us for slow in ranks) for node, ranks in nodes.items()}
    lines = []
    for node in sorted(nodes, key=lost.__getitem__, reverse=True)[:MOST_SHOWN]:
        ranks = nodes[node]
        named = ", ".join(f"{slow.program}:{slow.rank}" for slow in ranks[:MOST_SHOWN])
        more = f" and {len(ranks) - MOST_SHOWN} more" if len(ranks) > MOST_SHOWN else ""
        ratio = math.exp(sum(math.log(slow.ratio) for slow in ranks) / len(ranks))
        functions = sorted(
            {shown_name(slow.function) if slow.function else "all they compute" for slow in ranks}
        )
        lines.append(
            f"  {format_duration_us(lost[node]):>8}  {named}{more} on {node}: {ratio:.2f} times as long in "
            f"{', '.join(functions[:MOST_SHOWN])}"
        )
    return lines


def _extent(function: FunctionStatistics) -> float:
    return abs(math.log(function.drift))


def _unresolved(provenance: Provenance) -> dict[str, int]:
    programs = provenance.programs()
    functions = provenance.function_statistics()
    found = Counter(programs[f.program] for f in functions if UNRESOLVED in f.name or is_offset_name(f.name))
    return dict(sorted(found.items()))


def _unnamed(provenance: Provenance) -> dict[str, list[str]]:
    programs = provenance.programs()
    reported = {
        (programs[item.program], f"{item.key.removeprefix(UNNAMED_FUNCTIONS)}: {item.value}")
        for item in provenance.metadata(key=UNNAMED_FUNCTIONS)
    }
    found: dict[str, list[str]] = {}
    for program, text in sorted(reported):
        found.setdefault(program, []).append(text)
    return found


def _large_step(provenance: Provenance, health: list[StreamHealth]) -> LargeStep | None:
    if provenance.run().transport == Transport.FILES:
        # Their writer waits for nobody.
        return None
    largest = max(health, key=lambda stream: stream.largest_step_bytes, default=None)
    if largest is None or largest.largest_step_bytes <= LARGEST_STEP_BYTES:
        return None
    steps = provenance.steps.counts([(largest.program, largest.rank)])
    mean_step_s = (steps[-1].end_us - steps[0].start_us) / len(steps) / 1e6
    return mend_step(largest, advise(provenance.function_statistics(), health), mean_step_s)


def _large_step_text(step: LargeStep, run: str) -> str:
    remedies = [f"a trace period of {step.period_s:g} s (--period {step.period_s:g})"]
    if step.exclude:
        remedies.append(f"leaving out {', '.join(step.exclude)} (chimbuko filter {shlex.quote(run)} -o FILE)")
    return (
        f"Largest step: {step.size_bytes / 1e6:.1f} MB, of rank {step.program}:{step.rank}; above "
        f"{LARGEST_STEP_BYTES / 1e6:.0f} MB one can hold up the application; mended by "
        f"{' or by '.join(remedies)}"
    )


def _reservations(summary: Summary) -> list[str]:
    """Why more may be lost than was counted."""
    reports = summary.reports
    # Where the calls are counted, the census says how many are missing.
    is_partial = (reports.unrecorded and summary.census.uncounted) or reports.untraced
    found = {"not all was recorded": is_partial, "there were problems": summary.problems}
    return [text for text, holds in found.items() if holds]


def losses_of(summary: Summary) -> list[Loss]:
    """Return everything that was lost; not empty if no call was seen."""
    losses = _missing_calls(summary.census)
    losses += [counted(kind, number) for kind, number in summary.losses.items()]
    if summary.gap_steps:
        losses.append(counted(_gaps(summary.transport), summary.gap_steps))
    elsewhere = sum(summary.losses.get(kind, 0) for kind in (NO_ROOM_RECORDS, BEYOND_BUDGET))
    too_many = summary.dropped - elsewhere
    if too_many > 0:
        losses.append(unrecorded(too_many))
    # Of those whose source has ended in order the census says what is missing.
    broken = [stream for stream in summary.broken_streams if stream not in summary.unread_streams]
    if broken:
        is_recorded = summary.transport == Transport.RECORDED
        losses.append(without_end(broken, summary.is_interrupted, is_recorded))
    if summary.lost_agents:
        losses.append(undelivered(summary.lost_agents))
    if not summary.calls:
        losses.append(everything(summary.steps))
    return losses


def _gaps(transport: str) -> str:
    """Return the words for steps that were not read."""
    return DROPPED_STEPS if transport == Transport.FILES else MISSED_STEPS


def _lossy(health: list[StreamHealth], gaps: str) -> list[LossyStream]:
    found = []
    for stream in health:
        losses = stream.losses | ({gaps: stream.gap_steps} if stream.gap_steps else {})
        losses |= {f"calls {reason}": n for reason, n in census_of([stream]).differences.items()}
        losses |= {} if stream.state == "ended" or stream.source else {WITHOUT_END: 1}
        if losses:
            found.append(LossyStream(f"{stream.program}:{stream.rank}", stream.node, losses))
    return found


def _total_losses(health: list[StreamHealth]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for stream in health:
        for kind, number in stream.losses.items():
            totals[kind] = totals.get(kind, 0) + number
    return totals


def incident_lines(
    page: IncidentPage,
    recurrences: list[RecurrenceSummary],
    nodes: list[NodeCost],
    known: Mapping[str, KnownFinding],
) -> list[str]:
    """Return lines for people about what happened, the most costly first."""
    exact = Bound.EXACT
    found = [(one.cost_us, one.id, one.sentence, one.bound) for one in page.incidents]
    found += [(one.recurrence.cost_us, one.id, one.sentence, exact) for one in recurrences]
    found += [(one.cost_us, "node", one.sentence, exact) for one in nodes[:MOST_SHOWN]]
    total = page.total + len(recurrences) + len(nodes)
    lines = [f"Worst of {number_of(total, 'findings')}, by time lost on all ranks together:"]
    lines += [
        f"  {bounded(cost_us, bound, is_short=True) if cost_us else '':>8}  {name:<6} {text}"
        + (f" ({known[name].words})" if name in known else "")
        for cost_us, name, text, bound in sorted(found, reverse=True)
    ]
    return lines if found else []


def worst_lines(functions: OriginList, ranks: OriginList, programs: int) -> list[str]:
    """Return lines of the functions and ranks that cost most core time, with the waits that they caused.

    The list is empty if no incident has a known origin.
    """
    began = [one for one in functions.origins if one.lost_us > 0]
    if not began:
        return []
    shown = shown_names(one.function or "" for one in functions.origins)
    lines = ["Worst functions, by time lost because of them:"]
    lines += [
        f"  {bounded(one.lost_us, one.bound, is_short=True):>8}  {one.incidents:>5}×  "
        + shown[one.function or ""]
        for one in began[:MOST_SHOWN]
    ]
    waits = sorted(functions.origins, key=lambda one: one.waited_us, reverse=True)[:MOST_SHOWN]
    waited = [
        f"{format_duration_us(one.waited_us)} in {shown[one.function or '']}"
        for one in waits
        if one.waited_us > 0
    ]
    if waited:
        lines.append(f"Held up: {', '.join(waited)}")
    lines.append("Worst ranks, by time lost because of them:")
    lines += [
        f"  {bounded(one.lost_us, one.bound, is_short=True):>8}  {one.incidents:>5}×  "
        + _rank(one.program, one.rank, programs)
        for one in ranks.origins[:MOST_SHOWN]
        if one.lost_us > 0
    ]
    return lines
