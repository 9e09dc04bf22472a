"""Traces of PyTorch's profiler: a real training, and what only GPUs give, written by hand."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from chimbuko.capture.formats.conversion import convert
from chimbuko.capture.formats.readers import kineto
from chimbuko.capture.formats.readers.events import Catalogue
from chimbuko.capture.formats.readers.kineto import CORRELATION_ID
from chimbuko.capture.formats.readers.registry import PIECE_BYTES
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.sourcecensus import CALLS_SEEN
from chimbuko.core.traceschema import OPERATION_COMMUNICATOR, OPERATION_NUMBER, OPERATION_RANK
from evaluation.recorded import analyse
from tests.capture.formats.traces import calls_of, converted, rows_of, steps_of
from tests.places import DATA

TRAINING = DATA / "kineto"


def trace(rank: int, *events: dict[str, Any]) -> bytes:
    """A trace of one rank, as the profiler writes it."""
    whole = [{"ph": "X", "pid": 77, "tid": 77, "dur": 10, **event} for event in events]
    about = {"schemaVersion": 1, "distributedInfo": {"rank": rank}, "baseTimeNanoseconds": 10**15}
    return json.dumps(about | {"traceEvents": whole}).encode()


def test_a_real_training(tmp_path: Path) -> None:
    result = convert(sorted(TRAINING.glob("*.gz"), reverse=True), tmp_path / "streams", "training", 10**6)
    assert [stream.rank for stream in result.streams] == [0, 1, 2, 3]
    assert result.complaints == []
    calls = calls_of(result)
    # Times are those of the clock on the wall, so the truth is found by them.
    for delay in json.loads((TRAINING / "truth.json").read_text()):
        assert any(
            (rank, function) == (delay["rank"], delay["function"])
            and begin <= delay["begin_us"]
            and delay["end_us"] <= end
            for rank, _, function, begin, end in calls
        )
    operations = rows_of(result, "operations")
    groups = {row[OPERATION_COMMUNICATOR] for row in operations}
    assert len(groups) == 1
    for group in groups:
        for rank in range(4):
            numbers = [
                row[OPERATION_NUMBER]
                for row in operations
                if (row[OPERATION_COMMUNICATOR], row[OPERATION_RANK]) == (group, rank)
            ]
            assert numbers == list(range(72))


def test_ranks_and_times(tmp_path: Path) -> None:
    texts = [trace(rank, {"name": f"ProfilerStep#{rank}", "ts": 5.25}) for rank in (3, 1)]
    result = converted(tmp_path, *texts, trace(3, {"name": "again", "ts": 5}))
    time_us = 10**12 + 5
    assert calls_of(result) == [
        (0, 0, "again", time_us, time_us + 10),
        (1, 0, "ProfilerStep", time_us, time_us + 10),
        (3, 0, "ProfilerStep", time_us, time_us + 10),
    ]


BESIDE = {"schemaVersion": 1, "distributedInfo": {"rank": 3, "world_size": 4}, "baseTimeNanoseconds": 10**15}


def test_what_stands_behind_the_events_holds_for_all_of_them(tmp_path: Path) -> None:
    """In a file that is read in two pieces, and of which the first 64 kB do not say of what format it is."""
    event = {"ph": "X", "pid": 7, "tid": 7, "dur": 10, "name": "f", "args": {"x": "p" * 2000}}
    events = [event | {"ts": 20 * number} for number in range(PIECE_BYTES // 1900)]
    text = json.dumps({"metadata": {}, "traceEvents": events} | BESIDE).encode()
    result = converted(tmp_path, text)
    assert [(call[0], call[3]) for call in calls_of(result)] == [
        (3, 10**12 + 20 * number) for number in range(len(events))
    ]


def test_what_stands_behind_the_events_of_a_file_that_grows() -> None:
    whole = json.dumps({"traceEvents": [{"ph": "X", "name": "f", "ts": 5, "dur": 1}]} | BESIDE).encode()
    catalogue = Catalogue()
    reader = kineto.Reader(catalogue, 0, "trace.json")
    assert not len(reader.feed(whole[:-5]))
    assert reader.feed(whole[-5:])["time_ns"].tolist() == [10**15 + 5000]
    assert catalogue.processes[0].rank == 3


def test_an_array_of_its_events_is_known_by_their_categories(tmp_path: Path) -> None:
    launch = {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": "cudaLaunchKernel",
        "ts": 5,
        "dur": 1,
        "pid": 9,
        "tid": 9,
    }
    kernel = launch | {"cat": "kernel", "name": "gemm", "pid": 0, "tid": 7}
    result = converted(tmp_path, json.dumps([launch, kernel]).encode())
    assert [call[:3] for call in calls_of(result)] == [(0, 0, "cudaLaunchKernel"), (0, 1, "gemm")]


@pytest.mark.parametrize("is_world_known", [True, False])
def test_windows_of_one_process_are_one_rank(tmp_path: Path, is_world_known: bool) -> None:
    """Two windows of each of two ranks, whose operations are counted anew in each window."""
    paths = []
    for window, rank in itertools.product((0, 1), (0, 1)):
        about = BESIDE | {"distributedInfo": {"rank": rank, "world_size": 2}, "host_name": "c042"}
        if not is_world_known:
            del about["distributedInfo"]
        # The first window of rank 1 lacks an operation.
        events = [
            {
                "ph": "X",
                "name": "gloo:all_reduce",
                "pid": 40 + rank,
                "tid": 1,
                "ts": 100 * window + 10 * step,
                "dur": 5,
            }
            for step in range(4 - (window == 0 and rank == 1))
        ]
        paths.append(tmp_path / f"w{rank}.{window}.pt.trace.json")
        paths[-1].write_text(json.dumps(about | {"traceEvents": events}))
    result = convert(paths, tmp_path / "streams", "training", 10**6)
    assert [stream.rank for stream in result.streams] == [0, 1]
    assert [len([call for call in calls_of(result) if call[:2] == (rank, 0)]) for rank in (0, 1)] == [8, 7]
    last = {}
    for row in rows_of(result, "operations"):
        last[row[OPERATION_RANK], row[OPERATION_COMMUNICATOR]] = row[OPERATION_NUMBER]
    assert sorted(last.values()) == [2, 3, 3, 3]
    assert len({group for _, group in last}) == 2


def test_launches_and_kernels(tmp_path: Path) -> None:
    result = converted(
        tmp_path,
        trace(
            0,
            {"name": "cudaLaunchKernel", "cat": "cuda_runtime", "ts": 100, "args": {"correlation": 41}},
            {
                **{"name": "gemm", "cat": "kernel", "ts": 150, "pid": 0, "tid": 7},
                "args": {"correlation": 41, "device": 0, "stream": 7},
            },
            {"name": "PyTorch Profiler (0)", "cat": "Trace", "ts": 0, "pid": "Spans", "tid": "x"},
            {"ph": "s", "id": 41, "cat": "ac2g", "name": "ac2g", "ts": 100},
            {"ph": "f", "id": 41, "cat": "ac2g", "name": "ac2g", "ts": 150, "pid": 0, "tid": 7, "bp": "e"},
        ),
    )
    assert result.complaints == []
    (stream,) = result.streams
    _, names = steps_of(stream.path)
    assert names.counters == {0: CORRELATION_ID}
    assert names.metadata == {
        (0, 0, CALLS_SEEN): '{"source":"the trace","seen":2}',
        (0, 1, "CUDA Device"): "0",
        (0, 1, "CUDA Stream"): "7",
    }
    assert [(row[2], row[4]) for row in rows_of(result, "counters")] == [(0, 41), (1, 41)]
    assert [call[2] for call in calls_of(result)] == ["cudaLaunchKernel", "gemm"]


def test_an_operation_of_nccl_is_one_on_the_host_and_one_on_the_gpu(tmp_path: Path) -> None:
    on_gpu = {"pid": 0, "tid": 7, "args": {"device": 0, "stream": 7}}
    kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    result = converted(
        tmp_path,
        trace(
            0,
            {"name": "nccl:all_reduce", "cat": "user_annotation", "ts": 100},
            {"name": "nccl:all_reduce", "cat": "gpu_user_annotation", "ts": 200, "dur": 50} | on_gpu,
            {"name": kernel, "cat": "kernel", "ts": 200, "dur": 50} | on_gpu,
            {"name": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "cat": "kernel", "ts": 300}
            | on_gpu,
        ),
    )
    operations = rows_of(result, "operations")
    assert len({row[OPERATION_COMMUNICATOR] for row in operations}) == len(operations) == 2
    # Not the annotation on the GPU, which only surrounds the kernel.
    assert [call[2] for call in calls_of(result)].count("nccl:all_reduce") == 1


def test_a_slow_kernel_leads_to_its_launch(tmp_path: Path) -> None:
    """Across all of the analysis: kernels run behind their launches, in another order on two streams."""
    events: list[dict[str, Any]] = []
    for number in range(200):
        begin_us, correlation = 10_000 * number, {"correlation": 1000 + number}
        kernel_us = 9_000 if number == 150 else 100
        stream = {
            "pid": 0,
            "tid": 7 + number % 2,
            "args": correlation | {"device": 0, "stream": 7 + number % 2},
        }
        operator = "aten::mm" if number % 2 else "aten::conv2d"
        launch = {"name": "cudaLaunchKernel", "cat": "cuda_runtime", "args": correlation}
        events += [
            {"name": "gemm", "cat": "kernel", "ts": begin_us + 200, "dur": kernel_us} | stream,
            {"name": operator, "cat": "cpu_op", "ts": begin_us, "dur": 60},
            launch | {"ts": begin_us + 20, "dur": 5},
        ]
    streams = converted(tmp_path, trace(0, *events)).streams
    (slow,) = (call for call in analyse(streams, AnalysisConfig(), 1).anomalies() if call.function == "gemm")
    assert (slow.inclusive_us, slow.entry_us) == (9_000, 10**12 + 150 * 10_000 + 200)
    assert [frame.function for frame in slow.launch_stack] == ["cudaLaunchKernel", "aten::conv2d"]
    assert slow.launch_stack[0].entry_us == 10**12 + 150 * 10_000 + 20
