"""What is exported for other tools says what the records say, under the names that version 2 has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from chimbuko.causes.incident import Incident
from chimbuko.causes.recurrence import Recurrence
from chimbuko.core.calls.record import (
    CallRecord,
    CounterStatistics,
    CounterValue,
    Metadata,
    StackFrame,
    StepCount,
)
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import schema_of
from chimbuko.observe.namespaces.analyses.metricfinding import Finding
from chimbuko.provenance.export.registry import Exported, export
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import FunctionModel, RecordBatch, RunStatistics
from chimbuko.runtime.runs.directory import RunInfo
from tests.provenance.exported import DEPARTURE, DRIFT, RECURRENCE, ExportedRun, some_incidents
from tests.sample_records import make_batch, make_batches, make_record

RECORD = {
    *("version", "__id", "pid", "rid", "tid", "event_id", "fid", "func", "entry", "exit", "runtime_total"),
    *("runtime_exclusive", "io_step", "io_step_tstart", "io_step_tend", "outlier_score", "outlier_severity"),
    *("hostname", "call_stack", "counter_events", "is_gpu_event", "gpu_location", "gpu_parent"),
    *("event_window", "node_state", "algo_params"),
}
FRAME = {"fid", "func", "entry", "exit", "event_id", "is_anomaly"}
MESSAGE = {"type", "pid", "rid", "tid", "src", "tar", "bytes", "tag", "timestamp", "execdata_key"}
COUNTER = {"pid", "rid", "tid", "ts", "counter_idx", "counter_name", "counter_value"}
STATISTICS = {"count", "accumulate", "minimum", "maximum", "mean", "stddev", "skewness", "kurtosis"}

FUNCTION = "exchange(double *) [{halo.c} {12,1}]"
GPU_THREAD = 8


def export_all(provenance: Provenance, folder: Path) -> Exported:
    return export(provenance, "v2", folder, CallFilter(label=None))


def own_counter(record: CallRecord) -> CounterValue:
    return CounterValue("Message size", 512, record.entry_us + 7, record.id)


def some_records() -> list[CallRecord]:
    """Two programs and ranks, three steps, both labels, and a kernel on a GPU with its launch."""
    plain = make_record(row=0, model_version=7)
    launch = [StackFrame("0:1:2:4", "cudaLaunchKernel", 800_000, 800_010, False)]
    kernel = make_record(
        row=8, step=4, thread=GPU_THREAD, is_gpu=True, launch_id="0:1:2:4", launch_stack=launch
    )
    return [
        msgspec.structs.replace(plain, counters=[*plain.counters, own_counter(plain)]),
        make_record(row=2, label=Label.NORMAL, model_version=20),
        make_record(row=4, step=4, score=3.5, severity_us=80.0),
        kernel,
        make_record(row=6, step=4, thread=GPU_THREAD, is_gpu=True),
        make_record(row=5, program=1, rank=0, step=9, node_state=[], function="main"),
    ]


def model(version: int, detector: str, calls: int) -> FunctionModel:
    schema = schema_of(detector)
    row = schema.empty(1)[0]
    row[schema.slices["exclusive_us"]] = Moments.of(np.arange(calls)).row()
    row[schema.slices["inclusive_us"]] = Moments.of(2.0 * np.arange(calls)).row()
    if "buckets" in schema.slices:
        row[schema.slices["buckets"]][[3, 5]] = calls - 1, 1
    return FunctionModel(version, 0, FUNCTION, row.tobytes())


@pytest.fixture(params=["sstd", "robust"])
def detector(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(
    writer: Writer,
    provenance: Provenance,
    run_info: Callable[..., RunInfo],
    tmp_path: Path,
    detector: str,
) -> Path:
    """Where ``some_records`` are exported to."""
    writer.write_run(run_info(config=AnalysisConfig(detector=detector)))
    writer.write(make_batches(some_records()))
    writer.write([others()])
    writer.write_statistics(
        RunStatistics(models=[model(version, detector, calls) for version, calls in ((5, 10), (9, 100))])
    )
    exported = export_all(provenance, tmp_path / "out")
    assert (exported.anomalies, exported.normal_calls) == (5, 1)
    return tmp_path / "out"


def others() -> RecordBatch:
    """Metadata, an earlier step without anomalies, and statistics of a counter."""
    stream = [("CUDA Device", "1"), ("CUDA Context", "2"), ("CUDA Stream", "3")]
    return make_batch(
        steps=[StepCount(0, 1, 2, 900_000, 1_000_000, 5, 0, 0.0)],
        metadata=[
            Metadata(0, 1, 0, "Hostname", "node7"),
            *(Metadata(0, 1, GPU_THREAD, key, value) for key, value in stream),
        ],
        counter_statistics=[CounterStatistics("heap", *Moments.of([1.0, 3.0]).row().tolist())],
    )


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def exported(folder: Path, record: CallRecord) -> dict[str, Any]:
    """What became of one record."""
    kind = "anomalies" if record.label is Label.ANOMALY else "normalexecs"
    content = read(folder / str(record.program) / str(record.rank) / f"{record.step}.{kind}.json")
    (found,) = [one for one in content if one["event_id"] == plain_id(record.id)]
    assert isinstance(found, dict)
    return found


def plain_id(identity: str) -> str:
    return identity.split(":", 1)[1] if identity else "root"


def test_files_lie_where_version_2_puts_them(folder: Path) -> None:
    files = {str(path.relative_to(folder)) for path in folder.rglob("*.json")}
    assert files == {
        "0/1/2.metadata.json",
        "0/1/3.anomalies.json",
        "0/1/3.normalexecs.json",
        "0/1/4.anomalies.json",
        "1/0/9.anomalies.json",
        "global_func_stats.json",
        "global_counter_stats.json",
        "incidents.json",
        "ad_model.json",
    }


@pytest.mark.parametrize("record", some_records(), ids=lambda record: record.id)
def test_each_field_says_what_the_record_says(folder: Path, record: CallRecord) -> None:
    found = exported(folder, record)
    assert found.keys() == RECORD
    scalars = {
        "version": 2,
        "pid": record.program,
        "rid": record.rank,
        "tid": record.thread,
        "func": record.function,
        "entry": record.entry_us,
        "exit": record.exit_us,
        "runtime_total": record.inclusive_us,
        "runtime_exclusive": record.exclusive_us,
        "io_step": record.step,
        "io_step_tstart": record.step_start_us,
        "io_step_tend": record.step_end_us,
        "outlier_score": record.score,
        "outlier_severity": record.severity_us,
        "hostname": record.node,
        "is_gpu_event": record.is_gpu,
    }
    assert {name: found[name] for name in scalars} == scalars
    assert [stack_values(frame) for frame in found["call_stack"]] == [
        (plain_id(f.id), f.function, f.entry_us, f.exit_us, f.is_anomaly) for f in record.call_stack
    ]
    window = found["event_window"]["exec_window"]
    assert [(*stack_values(call), call["parent_event_id"]) for call in window] == [
        (plain_id(c.id), c.function, c.entry_us, c.exit_us, c.is_anomaly, plain_id(c.parent_id))
        for c in record.window
    ]
    assert all(call.keys() == FRAME | {"parent_event_id"} for call in window)
    for sent, message in zip(found["event_window"]["comm_window"], record.messages, strict=True):
        assert sent.keys() == MESSAGE
        assert (sent["type"], sent["src"], sent["tar"]) == (message.kind, message.source, message.destination)
        assert (sent["bytes"], sent["tag"], sent["timestamp"]) == (
            message.size_bytes,
            message.tag,
            message.time_us,
        )
        assert sent["execdata_key"] == plain_id(message.call_id)


def stack_values(frame: dict[str, Any]) -> tuple[Any, ...]:
    assert frame.keys() >= FRAME
    return tuple(frame[name] for name in ("event_id", "func", "entry", "exit", "is_anomaly"))


def test_counters_are_those_of_the_call_itself(folder: Path) -> None:
    record = some_records()[0]
    (counter,) = exported(folder, record)["counter_events"]
    assert counter.keys() == COUNTER
    own = own_counter(record)
    assert (counter["counter_name"], counter["counter_value"], counter["ts"]) == (
        own.counter,
        own.value,
        own.time_us,
    )


def test_the_state_of_the_node_is_named_without_its_prefix(folder: Path) -> None:
    first, *_, last = some_records()
    assert exported(folder, first)["node_state"] == {
        "timestamp": 1_500_000,
        "data": [{"field": "load", "value": 3}],
    }
    assert exported(folder, last)["node_state"] is None


def test_a_gpu_call_has_its_place_and_its_launch(folder: Path) -> None:
    plain, _, _, kernel, alone, _ = some_records()
    assert (exported(folder, plain)["gpu_location"], exported(folder, plain)["gpu_parent"]) == (None, None)
    found = exported(folder, kernel)
    assert found["gpu_location"] == {"thread": GPU_THREAD, "device": 1, "context": 2, "stream": 3}
    assert found["gpu_parent"]["event_id"] == "1:2:4"
    assert [frame["func"] for frame in found["gpu_parent"]["call_stack"]] == ["cudaLaunchKernel"]
    assert isinstance(exported(folder, alone)["gpu_parent"], str)


def test_the_model_that_judged_a_call_is_filled_in(folder: Path, detector: str) -> None:
    plain, normal, *_, other = some_records()
    counts = []
    for record in (plain, normal):
        parameters = exported(folder, record)["algo_params"]
        if detector == "sstd":
            assert parameters.keys() == STATISTICS
            counts.append(parameters["count"])
        else:
            assert parameters.keys() == {"histogram", "internal_global_threshold"}
            histogram = parameters["histogram"]
            assert histogram["Bin Counts"][1:] == [0, 1]
            assert len(histogram["Bin Edges"]) == len(histogram["Bin Counts"]) + 1
            counts.append(sum(histogram["Bin Counts"]))
    # Version 7 was judged by what was kept as version 5, and 20 by version 9.
    assert counts == [10, 100]
    assert exported(folder, other)["algo_params"] is None


def test_functions_have_one_number_everywhere(folder: Path) -> None:
    statistics = read(folder / "global_func_stats.json")
    numbers = {(entry["app"], entry["fname"]): entry["fid"] for entry in statistics}
    assert len(set(numbers.values())) == len(numbers)
    for record in some_records():
        found = exported(folder, record)
        assert found["fid"] == numbers[record.program, record.function]
        for frame in found["call_stack"]:
            assert frame["fid"] == numbers[record.program, frame["func"]]
    (entry,) = read(folder / "ad_model.json")
    assert (entry["pid"], entry["func_name"], entry["fid"]) == (0, FUNCTION, numbers[0, FUNCTION])


def test_statistics_of_the_whole_run(folder: Path) -> None:
    entries = {(entry["app"], entry["fname"]): entry for entry in read(folder / "global_func_stats.json")}
    own = entries[0, FUNCTION]
    assert own["runtime_profile"]["exclusive_runtime"]["mean"] == pytest.approx(49.5)
    assert own["runtime_profile"]["inclusive_runtime"]["maximum"] == 198
    metrics = own["anomaly_metrics"]
    assert metrics["anomaly_count"].keys() == STATISTICS
    assert (metrics["anomaly_count"]["count"], metrics["anomaly_count"]["accumulate"]) == (2, 4)
    assert (metrics["first_io_step"], metrics["last_io_step"]) == (3, 4)
    assert (metrics["min_timestamp"], metrics["max_timestamp"]) == (1_000_000, 2_000_000)
    assert (metrics["score"]["minimum"], metrics["severity"]["maximum"]) == (3.5, 7_000)
    assert entries[0, "main"]["anomaly_metrics"] is None
    assert entries[0, "main"]["runtime_profile"] is None
    (counter,) = read(folder / "global_counter_stats.json")
    assert (counter["app"], counter["counter"], counter["stats"]["mean"]) == (0, "heap", 2)


def test_metadata_stands_with_the_first_step(folder: Path) -> None:
    content = read(folder / "0" / "1" / "2.metadata.json")
    assert [entry["__id"] for entry in content] == [0, 1, 2, 3]
    assert content[0] == {"descr": "Hostname", "pid": 0, "rid": 1, "tid": 0, "value": "node7", "__id": 0}


def test_a_filter_says_which_calls(folder: Path, provenance: Provenance, tmp_path: Path) -> None:
    exported = export(provenance, "v2", tmp_path / "some", CallFilter(rank=0))
    assert (exported.anomalies, exported.normal_calls) == (1, 0)
    assert [
        str(path.relative_to(tmp_path / "some")) for path in tmp_path.glob("some/*/*/*.anomalies.json")
    ] == ["1/0/9.anomalies.json"]


def test_incidents_stand_beside_the_records(exported_run: ExportedRun) -> None:
    exported_run.export("v2", wanted=CallFilter(rank=2))
    found = read(exported_run.folder / "out" / "incidents.json")
    (incident,) = found["incidents"]
    assert incident["summary"]["id"] == "I1"
    assert msgspec.convert(incident["incident"], Incident) == some_incidents()[0]
    assert [msgspec.convert(one["recurrence"], Recurrence) for one in found["recurrences"]] == [RECURRENCE]
    assert [msgspec.convert(one["finding"], Finding) for one in found["metrics"]] == [DRIFT, DEPARTURE]
