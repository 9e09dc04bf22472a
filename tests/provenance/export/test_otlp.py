"""Traces and logs for OpenTelemetry are what its own definitions accept, and say what the store says."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from chimbuko.core.calls.schema import Label
from chimbuko.provenance.incidents.incidentlist import Incidents
from tests.provenance.exported import ExportedRun

# protobuf's own JSON has ids in base64, OTLP's in hexadecimal digits.
IDS = ("traceId", "spanId", "parentSpanId")


def received(path: Any, request: Any) -> list[Any]:
    """What a collector reads from a file of one request a line."""

    def told(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: base64.b64encode(bytes.fromhex(one)).decode() if name in IDS else told(one)
                for name, one in value.items()
            }
        return [told(one) for one in value] if isinstance(value, list) else value

    lines = path.read_bytes().splitlines()
    return [json_format.ParseDict(told(msgspec.json.decode(line)), request()) for line in lines]


@pytest.fixture
def spans(exported_run: ExportedRun) -> list[Span]:
    exported_run.export("otlp")
    requests = received(exported_run.folder / "out" / "traces.jsonl", ExportTraceServiceRequest)
    return [
        span
        for request in requests
        for of in request.resource_spans
        for scope in of.scope_spans
        for span in scope.spans
    ]


@pytest.fixture
def logs(exported_run: ExportedRun, spans: list[Span]) -> list[LogRecord]:
    (request,) = received(exported_run.folder / "out" / "logs.jsonl", ExportLogsServiceRequest)
    return list(request.resource_logs[0].scope_logs[0].log_records)


def attributes(of: Span | LogRecord) -> dict[str, Any]:
    def value(one: KeyValue) -> Any:
        return getattr(one.value, one.value.WhichOneof("value") or "string_value")

    return {one.key: value(one) for one in of.attributes}


def test_abnormal_calls_stand_below_their_incident(exported_run: ExportedRun, spans: list[Span]) -> None:
    abnormal = {call.id: call for call in exported_run.records if call.label is Label.ANOMALY}
    by_call = {attributes(span).get("chimbuko.call"): span for span in spans}
    assert set(by_call) - {None} == set(abnormal)
    roots = {attributes(span)["chimbuko.id"]: span for span in spans if "chimbuko.id" in attributes(span)}
    for id, call in abnormal.items():
        span = by_call[id]
        assert span.name == call.function
        assert span.start_time_unix_nano == 1000 * call.entry_us
        assert span.end_time_unix_nano == 1000 * (call.exit_us or call.entry_us + call.inclusive_us)
        assert attributes(span)["chimbuko.rank"] == call.rank
        if call.incident_id:
            root = roots[call.incident_id]
            assert (span.trace_id, span.parent_span_id) == (root.trace_id, root.span_id)
        else:
            assert span.parent_span_id == b""
    ids = [span.span_id for span in spans]
    assert len(set(ids)) == len(ids) and {len(span.trace_id) for span in spans} == {16}


def test_each_finding_is_logged_with_its_sentence(exported_run: ExportedRun, logs: list[LogRecord]) -> None:
    known = Incidents(exported_run.provenance.reader)
    told = {one.summary.id: one.summary.sentence for one in known.each()}
    told |= {one.id: one.sentence for one in known.recurrences()}
    bodies = {attributes(log)["chimbuko.id"]: log.body.string_value for log in logs}
    assert told.items() <= bodies.items()
    assert {log.severity_text for log in logs} == {"WARN"}


def test_the_service_is_the_run(exported_run: ExportedRun) -> None:
    exported_run.export("otlp")
    (request, *_) = received(exported_run.folder / "out" / "traces.jsonl", ExportTraceServiceRequest)
    resource = {one.key: one.value.string_value for one in request.resource_spans[0].resource.attributes}
    run = exported_run.provenance.run()
    assert resource == {"service.name": run.name, "service.instance.id": run.id}
