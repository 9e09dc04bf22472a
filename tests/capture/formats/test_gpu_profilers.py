"""What rocprofv3 and Nsight Systems write: calls of threads, and what they launched on GPUs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from chimbuko.capture.formats.conversion import Converted, convert
from chimbuko.capture.formats.readers.callrows import CallRows
from chimbuko.capture.formats.readers.events import Catalogue, Dropped, TrackKind
from chimbuko.capture.formats.readers.registry import events_of
from chimbuko.core.errors import TraceFormatError
from tests.capture.formats.traces import calls_of, converted

PID = 4711
API = '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
KERNELS = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",'
    '"Correlation_Id","Start_Timestamp","End_Timestamp","Workgroup_Size_X"\n'
)
COPIES = (
    '"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp",'
    '"End_Timestamp"\n'
)
WANTED = [
    ("hipLaunchKernel", 2000, 3000),
    ("hipMemcpy", 4000, 9000),
    ("memory copy host to device", 6000, 8000),
    ("scale(float*, int)", 3500, 5000),
    ("step", 1000, 10000),
]
"""Names and times in µs of the same calls, whichever way they were written."""


def shown(result: Converted) -> list[tuple[str, int, int]]:
    return sorted((name, begin, end) for _, _, name, begin, end in calls_of(result))


def tables(folder: Path) -> list[Path]:
    texts = {
        "marker_api": f'{API}"MARKER_CORE_API","step",{PID},{PID},1,1000000,10000000\n',
        "hip_api": f'{API}"HIP_RUNTIME_API","hipLaunchKernel",{PID},{PID},2,2000000,3000000\n'
        f'"HIP_RUNTIME_API","hipMemcpy",{PID},{PID},3,4000000,9000000\n',
        "kernel": f'{KERNELS}"KERNEL_DISPATCH","Agent 4",1,7,{PID},1,12,"scale(float*, int)",2,'
        "3500000,5000000,64\n",
        "memory_copy": f'{COPIES}"MEMORY_COPY","HOST_TO_DEVICE","Agent 0","Agent 4",3,6000000,8000000\n',
    }
    paths = [folder / f"{PID}_{name}_trace.csv" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text)
    return paths


def record(
    kind: int, operation: int, correlation: int, times_us: tuple[int, int], **more: Any
) -> dict[str, Any]:
    begin_us, end_us = times_us
    return {
        **{
            "kind": kind,
            "operation": operation,
            "thread_id": PID,
            "correlation_id": {"internal": correlation},
        },
        **{"start_timestamp": 1000 * begin_us, "end_timestamp": 1000 * end_us, **more},
    }


def document() -> dict[str, Any]:
    kinds = [
        {"kind": "NONE", "operations": []},
        {"kind": "HIP_RUNTIME_API", "operations": ["hipLaunchKernel", "hipMemcpy"]},
        {"kind": "MARKER_CORE_API", "operations": ["roctxRangePushA"]},
        {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
        {"kind": "KERNEL_DISPATCH", "operations": ["KERNEL_DISPATCH_NONE"]},
    ]
    info = {"agent_id": {"handle": 4}, "queue_id": {"handle": 1}, "kernel_id": 12}
    part = {
        "metadata": {"pid": PID},
        "strings": {"buffer_records": kinds, "marker_api": [{"key": 1, "value": "step"}]},
        "kernel_symbols": [{"kernel_id": 12, "formatted_kernel_name": "scale(float*, int)"}],
        "buffer_records": {
            "marker_api": [record(2, 0, 1, (1000, 10000))],
            "hip_api": [record(1, 0, 2, (2000, 3000)), record(1, 1, 3, (4000, 9000))],
            "kernel_dispatch": [record(4, 0, 2, (3500, 5000), dispatch_info=info)],
            "memory_copy": [record(3, 1, 3, (6000, 8000), dst_agent_id={"handle": 4})],
        },
    }
    return {"rocprofiler-sdk-tool": [part]}


def test_tables_of_one_process_are_one_process(tmp_path: Path) -> None:
    result = convert(tables(tmp_path), tmp_path / "streams", "app", 1_000_000)
    assert shown(result) == WANTED
    assert [stream.rank for stream in result.streams] == [0] and result.complaints == []


def test_json_of_rocprofv3_has_the_same_calls(tmp_path: Path) -> None:
    result = converted(tmp_path, json.dumps(document()).encode(), name="out.json")
    assert shown(result) == WANTED and result.complaints == []
    # An older version has one process alone, and no list.
    (part,) = document()["rocprofiler-sdk-tool"]
    old = json.dumps({"rocprofiler-sdk-tool": part}).encode()
    assert shown(converted(tmp_path, old, name="old.json")) == WANTED


def test_what_rocprofv3_writes_and_is_no_call_is_counted(tmp_path: Path) -> None:
    found = document()
    records = found["rocprofiler-sdk-tool"][0]["buffer_records"]
    records["hip_api"] += [record(1, 0, 4, (5, 1)), record(99, 0, 5, (1, 5)), record(1, 0, 6, (0, 0))]
    records["counter_collection"] = [{"dispatch_data": {}}]
    result = converted(tmp_path, json.dumps(found).encode(), name="out.json")
    (said,) = result.complaints
    for words in (f"{Dropped.UNKNOWN_TYPE}: 2", f"{Dropped.NEGATIVE}: 1", f"{Dropped.NO_TIME}: 1"):
        assert words in said


def export(path: Path, rows: Sequence[tuple[str, Sequence[Any]]]) -> Path:
    """A database in the layout of Nsight Systems."""
    with sqlite3.connect(path) as database:
        for statement in (
            "CREATE TABLE StringIds (id INTEGER, value TEXT)",
            "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,"
            " textId INTEGER, globalTid INTEGER)",
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,"
            " correlationId INTEGER, nameId INTEGER)",
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,"
            " streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER,"
            " shortName INTEGER)",
            "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER,"
            " streamId INTEGER, correlationId INTEGER, globalPid INTEGER, copyKind INTEGER)",
            "CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER, name TEXT, label TEXT)",
            "CREATE TABLE MPI_COLLECTIVES_EVENTS (start INTEGER, end INTEGER, globalTid INTEGER,"
            " textId INTEGER)",
            "CREATE TABLE MPI_RANKS (globalTid INTEGER, rank INTEGER)",
            "CREATE TABLE ThreadNames (nameId INTEGER, globalTid INTEGER)",
            "CREATE TABLE PROFILER_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER)",
        ):
            database.execute(statement)
        for table, values in rows:
            database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)
    return path


OWNER = 1 << 48 | PID << 24
MAIN, OTHER = OWNER | PID, OWNER | PID + 1
ROWS: list[tuple[str, Sequence[Any]]] = [
    *(("StringIds", row) for row in [(1, "cudaLaunchKernel_v7000"), (2, "scale(float*, int)"), (3, "scale")]),
    *(("StringIds", row) for row in [(4, "MPI_Allreduce"), (5, "worker"), (6, "step")]),
    ("NVTX_EVENTS", (1_000_000, 10_000_000, 59, None, 6, MAIN)),
    ("NVTX_EVENTS", (1_500_000, None, 34, "mark", None, MAIN)),
    ("CUPTI_ACTIVITY_KIND_RUNTIME", (2_000_000, 3_000_000, MAIN, 77, 1)),
    ("CUPTI_ACTIVITY_KIND_KERNEL", (3_500_000, 5_000_000, 0, 7, 77, OWNER, 2, 3)),
    ("CUPTI_ACTIVITY_KIND_MEMCPY", (6_000_000, 8_000_000, 0, 7, 78, OWNER, 1)),
    ("ENUM_CUDA_MEMCPY_OPER", (1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device")),
    ("MPI_COLLECTIVES_EVENTS", (4_000_000, 9_000_000, OTHER, 4)),
    ("MPI_RANKS", (MAIN, 3)),
    ("ThreadNames", (5, OTHER)),
    ("PROFILER_OVERHEAD", (1, 2, MAIN, 3)),
]


def test_export_of_nsight_systems(tmp_path: Path) -> None:
    path = export(tmp_path / "report with % and ?.sqlite", ROWS)
    result = convert([path], tmp_path / "streams", "app", 1_000_000)
    # A session without a time of its own begins at 1 µs, where streams begin.
    assert shown(result) == [
        ("MPI_Allreduce", 4001, 9001),
        ("cudaLaunchKernel", 2001, 3001),
        ("memcpy Host-to-Device", 6001, 8001),
        ("scale(float*, int)", 3501, 5001),
        ("step", 1001, 10001),
    ]
    assert [stream.rank for stream in result.streams] == [3] and result.complaints == []
    catalogue = Catalogue()
    list(events_of(path, catalogue, 0))
    assert {track.name for track in catalogue.tracks} == {"", "worker"}
    assert [track.kind for track in catalogue.tracks].count(TrackKind.GPU) == 1
    assert catalogue.losses == {Dropped.INSTANTS: 1, Dropped.OF_THE_PROFILER: 1}


def test_launches_lead_to_kernels(tmp_path: Path) -> None:
    for paths in (tables(tmp_path), [export(tmp_path / "a.sqlite", ROWS)]):
        catalogue = Catalogue()
        found = [
            row for at, path in enumerate(paths) for part in events_of(path, catalogue, at) for row in part
        ]
        counters = [row for row in found if row["kind"] == 3]
        ids = [int(row["value"]) for row in counters]
        launched = {
            int(row["value"]) for row in counters if catalogue.tracks[row["track"]].kind is TrackKind.GPU
        }
        assert any(ids.count(one) == 2 for one in launched)


def test_other_databases_and_reports_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE rocpd_string (id INTEGER)")
    with pytest.raises(TraceFormatError, match="SQLite database that Nsight Systems did not export"):
        convert([path], tmp_path / "streams", "app", 1)
    (tmp_path / "a.nsys-rep").write_bytes(b"report")
    with pytest.raises(TraceFormatError, match=r"nsys export --type sqlite a\.nsys-rep"):
        convert([tmp_path / "a.nsys-rep"], tmp_path / "streams", "app", 1)


def test_broken_database_gives_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "broken.sqlite"
    path.write_bytes(b"SQLite format 3\0" + bytes(2000))
    with pytest.raises(TraceFormatError, match="cannot be read"):
        convert([path], tmp_path / "streams", "app", 1)


def test_calls_without_times_are_counted_for_their_process() -> None:
    catalogue = Catalogue()
    process = catalogue.process("p")
    rows = CallRows(catalogue)
    track = rows.gpu_track(process, 0, 7)
    for times_ns in ((0, 5), (5, 1 << 62), (5, 4), (5, 9)):
        rows.put(*times_ns, track, "kernel", 3)
    assert len(rows.take()) == 2 and len(rows.take()) == 0
    assert catalogue.unwritten[process] == {Dropped.NO_TIME: 2, Dropped.NEGATIVE: 1}
