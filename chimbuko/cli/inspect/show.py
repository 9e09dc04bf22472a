"""``chimbuko show``: all that is known of one call, beside a normal one, or of one incident."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from chimbuko.cli.shared.incident import (
    known_findings_of,
    print_incident,
    print_known,
    print_metric_finding,
    print_recurrence,
)
from chimbuko.cli.shared.table import MARK, Column, Output, print_json
from chimbuko.core.calls.functionnames import shown_name, shown_names
from chimbuko.core.calls.record import CallRecord, CounterValue
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.errors import ConfigError
from chimbuko.core.units import against_usual, format_duration_us, format_share, format_signed_us
from chimbuko.launcher.outcome.reach import reachable_run
from chimbuko.provenance.incidents.incidentlist import (
    IncidentDetails,
    Incidents,
    RecurrenceSummary,
    is_incident_id,
    is_recurrence_id,
)
from chimbuko.provenance.incidents.metricfindings import is_metric_finding_id, metric_finding
from chimbuko.provenance.query.besidecall import GpuBeside, NodeBeside, node_beside
from chimbuko.provenance.query.filters import as_object
from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.runtime.runs.directory import RunDirectory

SELF = "▶"
"""Stands beside the call itself."""
MOST_USERS = 8
"""Largest number of users of cores that are listed."""

_ENTRY = Column("ENTRY", is_number=True)
_RUNTIME = Column("RUNTIME", is_number=True)
_TIME = Column("TIME", is_number=True)
_FUNCTION = Column("FUNCTION", may_shrink=True)


@click.command("show", short_help="Show one call, incident or finding with all that is known of it.")
@click.argument("words", metavar="[RUN] ID", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print all fields as JSON.")
def command(words: tuple[str, ...], as_json: bool) -> None:
    """Show the recorded call, incident or finding ID of RUN, a run's folder; by default of the newest run.

    'chimbuko query' lists the ids of calls, 'chimbuko incidents' those of incidents and what recurs. Times
    are relative to the call's entry; ▲ marks abnormal calls, ▶ the call itself.

    \b
    Examples:
      chimbuko show 0:1:30:1547
      chimbuko show chimbuko-runs/heat 0:1:30:1547
      chimbuko show I12
      chimbuko show R1
      chimbuko show M1
      chimbuko show 0:1:30:1547 --json | jq '.call.call_stack[].function'
    """
    *runs, wanted = words
    if len(runs) > 1:
        raise ConfigError(f"{runs[1]}: one RUN at most, and behind it one ID")
    directory = reachable_run(Path(runs[0]) if runs else None, wanted)
    with open_run(directory) as provenance:
        time_range = provenance.steps.time_range()
        start_us = time_range[0] if time_range else None
        if _show_finding(provenance, directory, wanted, as_json, start_us):
            return
        call = provenance.calls.record(wanted)
        normal = provenance.calls.normal_like(call)
        if as_json:
            beside = node_beside(provenance.reader, call)
            answer = {"call": as_object(call), "normal": as_object(normal), "node": beside}
            print_json(answer)
            return
        config = provenance.run().config
        beside = node_beside(provenance.reader, call)
        program = provenance.programs().get(call.program, str(call.program))
    output = Output()
    _print_headline(output, call, config, program, call.step_start_us if start_us is None else start_us)
    _print_stack(output, call)
    _print_window(output, call)
    _print_messages(output, call)
    _print_counters(output, call)
    _print_node_state(output, call)
    if beside is not None:
        _print_beside(output, beside)
    _print_comparison(output, call, normal)


def headline(call: CallRecord, metric: str) -> str:
    """Return the line that says how long the call took, against what is usual of its function."""
    runtime_us = call.inclusive_us if metric == "inclusive" or not call.exit_us else call.exclusive_us
    took = "took" if call.exit_us else "had not ended after"
    took = f"{shown_name(call.function)} {took} {format_duration_us(runtime_us)}"
    return took + against_usual(runtime_us, call.expected_us, format_duration_us(call.expected_us))


def _show_finding(
    provenance: Provenance, directory: RunDirectory, wanted: str, as_json: bool, start_us: int | None
) -> bool:
    """Show an incident or a finding; False where the id is that of neither."""
    output = Output()
    if is_metric_finding_id(wanted):
        metric = metric_finding(provenance.reader, wanted)
        if as_json:
            print_json(metric)
        else:
            print_metric_finding(output, metric, metric.finding.begin_us if start_us is None else start_us)
        return True
    found: IncidentDetails | RecurrenceSummary
    if is_incident_id(wanted):
        found = Incidents(provenance.reader).one(wanted)
        known = known_findings_of(directory).get(found.summary.id)
    elif is_recurrence_id(wanted):
        found = Incidents(provenance.reader).recurrence(wanted)
        known = known_findings_of(directory).get(found.id)
    else:
        return False
    if as_json:
        print_json(msgspec.structs.asdict(found) | {"known": known})
        return True
    if isinstance(found, RecurrenceSummary):
        print_recurrence(output, found, found.recurrence.begin_us if start_us is None else start_us)
    else:
        print_incident(output, found, found.summary.begin_us if start_us is None else start_us)
    print_known(output, known)
    return True


def _print_headline(
    output: Output, call: CallRecord, config: AnalysisConfig, program: str, start_us: int
) -> None:
    metric, is_anomaly = config.metric, call.label is Label.ANOMALY
    output.line(
        f"{MARK if is_anomaly else SELF} {headline(call, metric)}", "bold red" if is_anomaly else "bold"
    )
    node = f", node {call.node}" if call.node else ""
    output.line(
        f"Program {program}, rank {call.rank}, thread {call.thread}, step {call.step}{node}; "
        f"entered {(call.entry_us - start_us) / 1e6:.3f} s after the start"
    )
    output.line(
        f"{'Abnormal' if is_anomaly else 'Normal'} ({metric} runtime, {call.detector}): "
        f"{format_duration_us(call.severity_us)} lost, score {call.score:.2f}, "
        f"usual spread {format_duration_us(call.spread_us)} over {call.seen:,} calls"
    )
    if not is_anomaly and call.score >= config.usual_threshold and call.severity_us < config.min_anomaly_us:
        least = format_duration_us(config.min_anomaly_us)
        output.line(f"So long a call is rare, but normal is what loses less than {least} (--min-anomaly).")
    if call.incident_id:
        output.line(
            f"Part of incident {call.incident_id}; 'chimbuko show {call.incident_id}' says why it was slow."
        )
    if not call.exit_us:
        output.line("It is recorded again when it ends. The calls after it are what it waits in.")
    elif not call.is_final:
        output.line("The calls after it are still being recorded; ask again later.")


def _print_stack(output: Output, call: CallRecord) -> None:
    output.heading("Call stack, innermost first")
    shown = shown_names(frame.function for frame in call.call_stack)
    rows = [
        [
            _marks(call, frame.id, frame.is_anomaly),
            format_signed_us(frame.entry_us - call.entry_us),
            _runtime(frame.entry_us, frame.exit_us),
            shown[frame.function],
        ]
        for frame in call.call_stack
    ]
    output.table([Column(""), _ENTRY, _RUNTIME, _FUNCTION], rows)


def _print_window(output: Output, call: CallRecord) -> None:
    output.heading("Neighbours on the same thread, in order of entry")
    outermost = min((neighbour.depth for neighbour in call.window), default=0)
    shown = shown_names(neighbour.function for neighbour in call.window)
    rows = [
        [
            _marks(call, neighbour.id, neighbour.is_anomaly),
            format_signed_us(neighbour.entry_us - call.entry_us),
            _runtime(neighbour.entry_us, neighbour.exit_us),
            "  " * (neighbour.depth - outermost) + shown[neighbour.function],
        ]
        for neighbour in call.window
    ]
    output.table([Column(""), _ENTRY, _RUNTIME, _FUNCTION], rows)


def _print_messages(output: Output, call: CallRecord) -> None:
    if not call.messages:
        return
    output.heading("Messages in these calls")
    names = {neighbour.id: shown_name(neighbour.function) for neighbour in call.window}
    rows = [
        [
            format_signed_us(message.time_us - call.entry_us),
            message.kind,
            str(message.source),
            str(message.destination),
            str(message.tag),
            f"{message.size_bytes:,}",
            names.get(message.call_id, message.call_id),
        ]
        for message in call.messages
    ]
    numbers = [Column(title, is_number=True) for title in ("FROM", "TO", "TAG", "BYTES")]
    output.table([_TIME, Column("KIND"), *numbers, _FUNCTION], rows)


def _print_counters(output: Output, call: CallRecord) -> None:
    if call.counters:
        output.heading("Counters in these calls")
        names = {neighbour.id: shown_name(neighbour.function) for neighbour in call.window}
        columns = [_TIME, Column("VALUE", is_number=True), Column("COUNTER"), _FUNCTION]
        rows = [[*_counter(call, value), names.get(value.call_id, value.call_id)] for value in call.counters]
        output.table(columns, rows)
    if call.left_out:
        output.line(f"{call.left_out:,} more messages and counters were not kept.")


def _print_node_state(output: Output, call: CallRecord) -> None:
    if call.node_state:
        output.heading("State of the node in this step")
        columns = [_TIME, Column("VALUE", is_number=True), Column("COUNTER")]
        output.table(columns, [_counter(call, value) for value in call.node_state])


def _print_beside(output: Output, beside: NodeBeside) -> None:
    output.heading("Its thread in the time that was lost, by samples of the node")
    whole_us = sum(one.time_us for one in beside.times) or 1.0
    shares = [
        [one.what, format_duration_us(one.time_us), format_share(one.time_us / whole_us)]
        for one in beside.times
    ]
    output.table([Column("WHAT"), _RUNTIME, Column("SHARE", is_number=True)], shares)
    output.line(
        f"{beside.minor_faults:,.0f} page faults, {beside.major_faults:,.0f} of pages read from storage; "
        f"{beside.slices:,.0f} times put on a core, {beside.moves:,} times moved to another"
    )
    if beside.cores:
        output.heading("Who else ran on its cores meanwhile")
        columns = [Column("CORE", is_number=True), Column("RAN", is_number=True), Column("WHO")]
        used = [[str(one.core), format_duration_us(one.ran_us), one.by] for one in beside.cores[:MOST_USERS]]
        output.table(columns, used)
    if beside.gpus:
        output.heading("GPUs that its process may use, in that time")
        names = ("BUSY", "USUALLY", "SLOWED DOWN", "USUALLY SO", "OTHER PROCESSES")
        columns = [Column(name, is_number=True) for name in ("GPU", *names)]
        output.table(columns, [_gpu(one) for one in beside.gpus])


def _gpu(one: GpuBeside) -> list[str]:
    shares = one.busy_share, one.usual_busy_share, one.throttled_share, one.usual_throttled_share
    return [str(one.gpu), *map(format_share, shares), str(one.foreign)]


def _print_comparison(output: Output, call: CallRecord, normal: CallRecord | None) -> None:
    output.heading("Beside a normal call of the same function")
    if normal is None:
        output.line("None was recorded.")
        return
    facts: list[tuple[str, Callable[[CallRecord], str]]] = [
        ("call", lambda record: record.id),
        ("rank", lambda record: str(record.rank)),
        ("step", lambda record: str(record.step)),
        ("exclusive", lambda record: format_duration_us(record.exclusive_us)),
        ("inclusive", lambda record: format_duration_us(record.inclusive_us)),
        ("score", lambda record: f"{record.score:.2f}"),
        ("direct children", lambda record: str(record.children)),
        ("messages", lambda record: str(record.messages_count)),
        ("called by", _caller),
    ]
    columns = [Column(""), Column("THIS CALL", is_number=True), Column("NORMAL CALL", is_number=True)]
    output.table(columns, [[name, fact(call), fact(normal)] for name, fact in facts])


def _caller(record: CallRecord) -> str:
    return shown_name(record.call_stack[1].function) if len(record.call_stack) > 1 else "-"


def _counter(call: CallRecord, value: CounterValue) -> list[str]:
    return [format_signed_us(value.time_us - call.entry_us), f"{value.value:,}", value.counter]


def _marks(call: CallRecord, other_id: str, is_anomaly: bool) -> str:
    return (SELF if other_id == call.id else "") + (MARK if is_anomaly else "")


def _runtime(entry_us: int, exit_us: int) -> str:
    return format_duration_us(exit_us - entry_us) if exit_us else "open"
