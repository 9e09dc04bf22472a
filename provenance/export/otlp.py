"""Writes a run's findings as traces and logs of OpenTelemetry, for Jaeger, Tempo, Grafana and others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from chimbuko import __version__
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.export.incidenttracks import Span, findings
from chimbuko.provenance.export.source import ExportSource
from chimbuko.provenance.timeline.ranktimeline import Argument

AT_ONCE = 1000
"""Number of spans in a line: half a megabyte, where collectors take 4 MB in one request."""
WARN = 13
"""Severity of a warning, as OpenTelemetry numbers severities."""

Json = dict[str, Any]
Value = TypeVar("Value")


def write_otlp(source: ExportSource, folder: Path) -> None:
    """Write ``traces.jsonl`` and ``logs.jsonl``, in which each line is a request of OTLP in JSON.

    Each finding is a trace: its root is the finding, and below it stand the abnormal calls that belong to
    it. An abnormal call without a finding is a trace of its own. Each finding is also a log record, which
    holds its sentence. Lines can be posted to ``/v1/traces`` and ``/v1/logs`` of a collector.
    """
    with (folder / "traces.jsonl").open("xb") as traces, (folder / "logs.jsonl").open("xb") as logs:
        calls = (call for call in source.records() if call.label is Label.ANOMALY)
        for some in _batches(_call(source, call) for call in calls):
            traces.write(_traces(source, some))
        for found in _batches(findings(source)):
            traces.write(_traces(source, [_root(source, one) for one in found]))
            logs.write(_logs(source, [_log(source, one) for one in found]))


def _batches(values: Iterable[Value]) -> Iterator[list[Value]]:
    """Yield the values in lists of ``AT_ONCE``."""
    left = iter(values)
    while some := list(islice(left, AT_ONCE)):
        yield some


def _call(source: ExportSource, call: CallRecord) -> Json:
    """Return a call as a span; one that has not ended yet ends with what is known of it."""
    of = call.incident_id or call.id
    return {
        "traceId": _id(source, of, 16),
        "spanId": _id(source, f"call {call.id}", 8),
        **({"parentSpanId": _id(source, of, 8)} if call.incident_id else {}),
        "name": call.function,
        "kind": 1,
        "startTimeUnixNano": _nanoseconds(call.entry_us),
        "endTimeUnixNano": _nanoseconds(call.exit_us or call.entry_us + call.inclusive_us),
        "attributes": _attributes(
            {
                "code.function.name": call.function,
                "thread.id": call.thread,
                "chimbuko.call": call.id,
                "chimbuko.program": source.program_name(call.program),
                "chimbuko.rank": call.rank,
                "chimbuko.step": call.step,
                "chimbuko.expected_us": call.expected_us,
                "chimbuko.severity_us": call.severity_us,
                "chimbuko.score": call.score,
            }
        ),
    }


def _root(source: ExportSource, one: Span) -> Json:
    finding = str(one.arguments["id"])
    return {
        "traceId": _id(source, finding, 16),
        "spanId": _id(source, finding, 8),
        "name": one.name,
        "kind": 1,
        "startTimeUnixNano": _nanoseconds(one.begin_us),
        "endTimeUnixNano": _nanoseconds(one.end_us),
        "attributes": _told(source, one),
    }


def _log(source: ExportSource, one: Span) -> Json:
    finding = str(one.arguments["id"])
    return {
        "timeUnixNano": _nanoseconds(one.begin_us),
        "observedTimeUnixNano": _nanoseconds(one.end_us),
        "severityNumber": WARN,
        "severityText": "WARN",
        "body": {"stringValue": str(one.arguments["sentence"])},
        "attributes": _told(source, one),
        "traceId": _id(source, finding, 16),
        "spanId": _id(source, finding, 8),
    }


def _told(source: ExportSource, one: Span) -> list[Json]:
    program = {} if one.program is None else {"program": source.program_name(one.program)}
    known = {"category": one.category, **program, **one.arguments}
    return _attributes({f"chimbuko.{name}": value for name, value in known.items()})


def _traces(source: ExportSource, spans: list[Json]) -> bytes:
    scoped = [{"scope": _SCOPE, "spans": spans}]
    return _line({"resourceSpans": [{"resource": _resource(source), "scopeSpans": scoped}]})


def _logs(source: ExportSource, records: list[Json]) -> bytes:
    scoped = [{"scope": _SCOPE, "logRecords": records}]
    return _line({"resourceLogs": [{"resource": _resource(source), "scopeLogs": scoped}]})


_SCOPE = {"name": "chimbuko", "version": __version__}


def _resource(source: ExportSource) -> Json:
    named: Mapping[str, Argument] = {"service.name": source.run.name, "service.instance.id": source.run.id}
    return {"attributes": _attributes(named)}


def _line(request: Json) -> bytes:
    return msgspec.json.encode(request) + b"\n"


def _attributes(values: Mapping[str, Argument]) -> list[Json]:
    return [{"key": name, "value": _value(value)} for name, value in values.items()]


def _value(value: Argument) -> Json:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        # JSON has no 64-bit integers: protobuf's JSON writes them as text.
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": str(value)}


def _nanoseconds(time_us: int) -> str:
    return str(1000 * time_us)


def _id(source: ExportSource, of: str, size: int) -> str:
    """Return the id of a trace or span in hexadecimal digits, which is the same in each export of the run."""
    return hashlib.blake2b(f"{source.run.id} {of}".encode(), digest_size=size).hexdigest()
