"""What the C++ Chimbuko recorded becomes a run that can be asked like any other, and exported again."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chimbuko.core.calls.record import (
    CallRecord,
    CounterStatistics,
    CounterValue,
    Message,
    Metadata,
    StackFrame,
    WindowCall,
    call_id,
)
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.errors import ConfigError, StoreError
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import schema_of
from chimbuko.provenance.export.registry import export
from chimbuko.provenance.export.version2 import gpu_streams
from chimbuko.provenance.importing.importer import import_records, is_foreign
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.provenance.store.engine import close, open_for_reading, open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import FunctionModel, RunStatistics
from chimbuko.runtime.runs.directory import new_run
from chimbuko.runtime.runs.finding import find_run
from tests.places import DATA
from tests.sample_records import make_batch, make_batches, make_record, make_run

VERSION_1 = DATA / "chimbuko_v1"
ALL = CallFilter(label=None)
GPU_THREAD = 8
FUNCTIONS = ("solve", "MPI_Recv()", "void Kokkos::parallel<double const&>()")


@pytest.fixture(scope="module")
def version_1(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provenance]:
    """The run that came of files of version 1."""
    folder = tmp_path_factory.mktemp("runs") / "relax"
    reported: list[int] = []
    imported = import_records(VERSION_1, folder, report=reported.append)
    assert (imported.anomalies, imported.normal_calls, imported.refused) == (3, 2, 0)
    assert reported == [5]
    with open_run(find_run(folder)) as provenance:
        yield provenance


def test_a_run_says_what_it_was(version_1: Provenance) -> None:
    info = version_1.run()
    assert (info.name, info.state, info.host) == ("relax", "imported", "n01")
    assert info.command == ["./relax", "--cells", "64"]
    assert (info.config.detector, info.config.metric) == ("sstd", "inclusive")
    # The C++ Chimbuko flags however little time is lost.
    assert info.config.min_anomaly_us == 0
    assert (info.started_us, info.ended_us) == (1_600_000_001_000_000, 1_600_000_003_000_000)
    assert version_1.programs() == {0: "relax"}


def test_every_call_is_there_with_all_that_its_record_reports(version_1: Provenance) -> None:
    for kind, label in (("anomalies", Label.ANOMALY), ("normalexecs", Label.NORMAL)):
        for line in (VERSION_1 / f"{kind}.jsonl").read_text().splitlines():
            theirs = json.loads(line)
            call = version_1.calls.record(f"0:{theirs['event_id']}")
            assert (call.label, call.function, call.thread) == (label, theirs["func"], theirs["tid"])
            assert (call.entry_us, call.exit_us) == (theirs["entry"], theirs["exit"])
            assert (call.inclusive_us, call.exclusive_us) == (
                theirs["runtime_total"],
                theirs["runtime_exclusive"],
            )
            assert (call.step, call.node) == (theirs["io_step"], f"n0{theirs['rid'] + 1}")
            assert [frame.function for frame in call.call_stack] == [
                one["func"] for one in theirs["call_stack"]
            ]
            window = theirs["event_window"]
            assert [one.entry_us for one in call.window] == [one["entry"] for one in window["exec_window"]]
            assert [one.tag for one in call.messages] == [one["tag"] for one in window["comm_window"]]
            assert [one.value for one in call.counters] == [
                one["counter_value"] for one in theirs["counter_events"]
            ]
            assert (call.seen, call.expected_us) == (
                theirs["func_stats"]["count"],
                theirs["func_stats"]["mean"],
            )
            model = version_1.models.at(0, call.function, call.model_version)
            assert model is not None
            known = Moments.from_row(np.frombuffer(model.row)[schema_of("sstd").slices["inclusive_us"]])
            assert (known.n, known.mean) == (call.seen, call.expected_us)


def test_what_is_reported_of_steps_streams_and_functions_is_what_was_recorded(version_1: Provenance) -> None:
    steps = {(step.rank, step.step): (step.calls, step.anomalies) for step in version_1.steps.counts()}
    assert steps == {(0, 1): (2, 1), (1, 2): (3, 2)}
    health = {stream.rank: (stream.node, stream.calls, stream.anomalies) for stream in version_1.health()}
    assert health == {0: ("n01", 2, 1), 1: ("n02", 3, 2)}
    functions = {row.name: row for row in version_1.function_statistics()}
    kernel = functions["relax_kernel"]
    assert (kernel.calls, kernel.anomalies, kernel.severity_us) == (200, 1, 1900.0)
    assert (kernel.inclusive_mean_us, kernel.inclusive_maximum_us) == (100.0, 130.0)


def test_where_a_kernel_ran_is_known(version_1: Provenance) -> None:
    place = {"thread": GPU_THREAD, "device": 0, "context": 1, "stream": 7}
    assert gpu_streams(version_1.metadata()) == {(0, 1, GPU_THREAD): place}
    kernels = [call.id for call in version_1.calls.records(ALL) if call.is_gpu]
    assert kernels == ["0:1:2:31", "0:1:2:35"]


def test_where_a_kernel_ran_is_known_without_metadata(tmp_path: Path) -> None:
    shutil.copy(VERSION_1 / "anomalies.jsonl", tmp_path)
    import_records(tmp_path / "anomalies.jsonl", tmp_path / "run", name="mine")
    with open_run(find_run(tmp_path / "run")) as provenance:
        assert gpu_streams(provenance.metadata()).keys() == {(0, 1, GPU_THREAD)}
        assert provenance.run().name == "mine"


def test_any_store_will_do(tmp_path: Path, any_store_url: str) -> None:
    import_records(VERSION_1, tmp_path / "run", store_url=any_store_url)
    engine = open_for_reading(any_store_url)
    with Provenance(engine) as provenance:
        assert provenance.calls.count(ALL) == 5
        assert provenance.calls.record("0:0:1:7").messages_count == 1


def test_records_that_cannot_be_read_are_named_and_the_others_stay(tmp_path: Path) -> None:
    lines = (VERSION_1 / "anomalies.jsonl").read_text().splitlines()
    lines[1] = lines[1].replace('"tid":8', '"tid":"eight"')
    source = tmp_path / "records" / "anomalies.jsonl"
    source.parent.mkdir()
    source.write_text("\n".join(["{}", *lines, "{"]))
    imported = import_records(source.parent, tmp_path / "run")
    assert (imported.anomalies, imported.refused) == (2, 3)
    first, second, third = imported.first_refused
    assert first.startswith(f"{source}, record 1: ")
    assert "`str`" in second
    assert "not JSON" in third


def test_nothing_is_made_of_nothing(tmp_path: Path) -> None:
    source, run = tmp_path / "records", tmp_path / "run"
    source.mkdir()
    assert not is_foreign(source)
    with pytest.raises(ConfigError, match="holds no records"):
        import_records(source, run)
    (source / "3.anomalies.json").write_text('[{"func": 3}, {}]')
    assert is_foreign(source)
    assert not is_foreign(tmp_path / "missing")
    with pytest.raises(ConfigError, match=r"none of 2 records can be read; the first: .*record 1"):
        import_records(source, run)
    assert not run.exists()
    run.mkdir()
    (run / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="not empty; choose another with --output"):
        import_records(VERSION_1, run)
    assert [path.name for path in run.iterdir()] == ["notes.txt"]
    (run / "run.json").write_text("{}")
    with pytest.raises(ConfigError, match="holds a run already"):
        import_records(VERSION_1, run)


def test_an_import_that_is_broken_off_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        import_records(VERSION_1, tmp_path / "run", store_url=f"sqlite:///{tmp_path}/missing/store.sqlite")
    assert find_run(tmp_path / "run").read_info().state == "interrupted"


@st.composite
def some_calls(draw: st.DrawFn) -> list[CallRecord]:
    """Calls of two programs and ranks, on the CPU and a GPU, open ones too; each its own id."""
    places = draw(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=6))
    return [draw(some_call(program, rank, row)) for row, (program, rank) in enumerate(places)]


@st.composite
def some_call(draw: st.DrawFn, program: int, rank: int, row: int) -> CallRecord:
    function, step = draw(st.sampled_from(FUNCTIONS)), draw(st.sampled_from([3, 12]))
    identity = call_id(program, rank, step, row)
    outer, other = call_id(program, rank, 0, 0), call_id(program, rank, step, 900 + row)
    entry_us = draw(st.integers(1_000_000, 1_900_000))
    is_open = draw(st.booleans())
    exit_us = 0 if is_open else entry_us + draw(st.integers(0, 90_000))
    severity_us = float(draw(st.integers(0, 50_000)))
    inclusive_us = 1_000 + int(severity_us) if is_open else exit_us - entry_us
    is_gpu = draw(st.booleans())
    launch = [StackFrame(call_id(program, rank, 2, 5), "cudaLaunchKernel", 990_000, 990_020, False)]
    is_launched = is_gpu and draw(st.booleans())
    message = Message("SEND", rank, 4, draw(st.integers(0, 2**40)), 64, entry_us + 3, other)
    stack = [
        StackFrame(identity, function, entry_us, exit_us, True),
        *draw(st.sampled_from([[], [StackFrame(outer, "main", 900_000, 0, False)]])),
    ]
    parent = stack[1].id if stack[1:] else ""
    return make_record(
        id=identity,
        **{"program": program, "rank": rank, "step": step, "function": function},
        node=f"node{program}{rank}",
        label=draw(st.sampled_from(Label)),
        thread=GPU_THREAD if is_gpu else draw(st.integers(0, 3)),
        **{"entry_us": entry_us, "exit_us": exit_us, "inclusive_us": inclusive_us},
        exclusive_us=draw(st.integers(0, inclusive_us)),
        **{"severity_us": severity_us, "expected_us": 1_000.0, "score": draw(st.floats(0, 200))},
        call_stack=stack,
        window=[
            WindowCall(identity, function, entry_us, exit_us, parent, len(stack) - 1, True),
            WindowCall(other, "pack", entry_us + 2, 0, identity, len(stack), False),
        ],
        messages=draw(st.sampled_from([[], [message]])),
        counters=draw(
            st.sampled_from([[], [CounterValue("Correlation ID", 2**63 + row, entry_us, identity)]])
        ),
        **{"is_gpu": is_gpu, "model_version": draw(st.sampled_from([0, 5, 9]))},
        launch_id=launch[0].id if is_launched else "",
        launch_stack=launch if is_launched else [],
        launch_thread=draw(st.sampled_from([-1, 2])) if is_launched else -1,
    )


def stored(folder: Path, calls: list[CallRecord], detector: str) -> Path:
    """A run of these calls, with models of two functions, metadata and counters."""
    run = new_run(folder, [], AnalysisConfig(detector=detector), None)
    info = make_run(run.read_info().id, config=AnalysisConfig(detector=detector), store_url=run.store_url)
    run.write_info(info)
    engine = open_for_writing(run.store_url)
    writer = Writer(engine, info.id)
    writer.write_run(info)
    writer.write(make_batches(calls))
    place = calls[0].program, calls[0].rank
    attributes = [("Hostname", calls[0].node), ("OS Name", "Linux")]
    gpu = [("CUDA Device", "1"), ("CUDA Context", "2"), ("CUDA Stream", "3")]
    writer.write(
        [
            make_batch(
                stream=f"{place[0]}:{place[1]}",
                steps=[],
                metadata=[
                    *(Metadata(*place, 0, key, value) for key, value in attributes),
                    *(Metadata(*place, GPU_THREAD, key, value) for key, value in gpu),
                ],
                health=make_batches(calls[:1])[0].health,
                counter_statistics=[CounterStatistics("heap", *Moments.of([1.0, 4.0, 7.5]).row().tolist())],
            )
        ]
    )
    schema = schema_of(detector)
    for version, name in ((4, "solve"), (8, "solve"), (5, "MPI_Recv()")):
        row = schema.empty(1)[0]
        row[schema.slices["exclusive_us"]] = Moments.of([version, 5.0, 17.5]).row()
        row[schema.slices["inclusive_us"]] = Moments.of([version, 9.0, 18.5]).row()
        if "buckets" in schema.slices:
            row[schema.slices["buckets"]][[version, 30]] = 2, 1
        writer.write_statistics(RunStatistics(models=[FunctionModel(version, 0, name, row.tobytes())]))
    close(engine)
    return folder


def exported(run: Path, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What is exported, by file; metadata in one piece, for a step without records has no file."""
    with open_run(find_run(run)) as provenance:
        export(provenance, "v2", folder, ALL)
    found: dict[str, list[dict[str, Any]]] = {"metadata": []}
    for path in sorted(folder.rglob("*.json")):
        name = str(path.relative_to(folder))
        if name == "incidents.json":
            # Imports look for them anew.
            continue
        found.setdefault("metadata" if ".metadata." in name else name, []).extend(
            json.loads(path.read_text())
        )
    return found


def without_numbers(value: Any) -> Any:
    """Without the numbers that each store gives to functions and counters, which stand beside their names."""
    if isinstance(value, dict):
        return {key: without_numbers(one) for key, one in value.items() if key not in ("fid", "counter_idx")}
    return [without_numbers(one) for one in value] if isinstance(value, list) else value


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Scalars by path."""
    if not isinstance(value, (dict, list)):
        return {path: value}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return {key: leaf for name, one in items for key, leaf in leaves(one, f"{path}/{name}").items()}


def named(entries: list[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    return sorted(entries, key=lambda entry: tuple(entry[key] for key in keys))


@pytest.mark.parametrize("detector", ["sstd", "robust"])
@given(calls=some_calls())
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_exported_imported_and_exported_again_all_is_the_same(detector: str, calls: list[CallRecord]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        first = exported(stored(Path(folder) / "ours", calls, detector), Path(folder) / "v2")
        imported = import_records(Path(folder) / "v2", Path(folder) / "back")
        assert imported.refused == 0
        assert imported.anomalies == sum(call.label is Label.ANOMALY for call in calls)
        second = exported(Path(folder) / "back", Path(folder) / "again")
    assert second.keys() == first.keys()
    for name, content in first.items():
        ours, theirs = without_numbers(content), without_numbers(second[name])
        keys = {"global_func_stats.json": ("app", "fname"), "ad_model.json": ("pid", "func_name")}.get(name)
        if keys:
            ours, theirs = named(ours, *keys), named(theirs, *keys)
        for path, value in (expected := leaves(ours)).items():
            if isinstance(value, float):
                expected[path] = pytest.approx(value, rel=1e-9, abs=1e-9)
        assert leaves(theirs) == expected, name
