"""The made run with kernels on a GPU, what launched them, and messages of which both ends are recorded."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chimbuko.core.calls.record import CallRecord, Message, Metadata, StackFrame, WindowCall, call_id
from chimbuko.core.calls.recordarrays import pack
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RecordBatch
from tests.viz.made_run import STEP_US, STEPS, ZERO_US, MadeRun, make_run

GPU_THREAD = 5
STEP = 7
KERNELS = 4
LAUNCH, KERNEL = "cudaLaunchKernel", "push_particles(int, double *)"


def gpu_run(folder: Path, state: str = "finished") -> MadeRun:
    """Make it: in one step, rank 3 launches kernels and sends to rank 4, which receives."""
    made = make_run(folder, state)
    kernels = [_kernel(number) for number in range(KERNELS)]
    ends = [_end(3, "SEND", 500_000), _end(4, "RECV", 502_000)]
    made.records += [*kernels, *ends]
    info = made.directory.read_info()
    engine = open_for_writing(info.store_url)
    writer = Writer(engine, info.id)
    for health in made.health():
        records = [record for record in (*kernels, *ends) if record.rank == health.rank]
        metadata = [Metadata(0, health.rank, GPU_THREAD, "CUDA Stream", "7")]
        writer.write(
            [
                RecordBatch(
                    stream=f"heat2d-{health.rank}",
                    sequence=STEPS + 1,
                    records=pack(records),
                    steps=[],
                    metadata=metadata,
                    health=health,
                    dropped={},
                    counter_statistics=[],
                )
            ]
        )
    engine.dispose()
    return made


def _like(made: CallRecord, **changes: object) -> CallRecord:
    return msgspec.structs.replace(made, **changes)


def _plain(rank: int, row: int, function: str, entry_us: int, length_us: int) -> CallRecord:
    event, exit_us = call_id(0, rank, STEP, row), entry_us + length_us
    start = ZERO_US + STEP * STEP_US
    return CallRecord(
        version=1,
        id=event,
        revision=1,
        is_final=True,
        label=Label.ANOMALY,
        program=0,
        rank=rank,
        thread=0,
        node=f"node{rank // 2}",
        function=function,
        entry_us=entry_us,
        exit_us=exit_us,
        inclusive_us=length_us,
        exclusive_us=length_us,
        step=STEP,
        step_start_us=start,
        step_end_us=start + STEP_US,
        score=9.0,
        severity_us=length_us - 1000.0,
        expected_us=1000.0,
        spread_us=50.0,
        seen=500,
        detector="robust",
        incident_id="",
        depth=0,
        children=0,
        messages_count=0,
        call_stack=[StackFrame(event, function, entry_us, exit_us, True)],
        window=[WindowCall(event, function, entry_us, exit_us, "", 0, True)],
        messages=[],
        counters=[],
        node_state=[],
        left_out=0,
        metrics=[],
        is_gpu=False,
        launch_id="",
        launch_stack=[],
        model_version=STEPS,
    )


def _kernel(number: int) -> CallRecord:
    """A kernel of 30 ms, 8 ms after its launch."""
    launched = ZERO_US + STEP * STEP_US + 700_000 + number * 40_000
    launch = call_id(0, 3, STEP, 900 + number)
    kernel = _plain(3, 950 + number, KERNEL, launched + 8_000, 30_000)
    return _like(
        kernel,
        thread=GPU_THREAD,
        is_gpu=True,
        launch_id=launch,
        launch_thread=0,
        launch_stack=[StackFrame(launch, LAUNCH, launched, launched + 3_000, False)],
    )


def _end(rank: int, kind: str, time: int) -> CallRecord:
    """An abnormal call in which a message is sent or received."""
    at = ZERO_US + STEP * STEP_US + time
    call = _plain(rank, 990, "exchange_rows", at - 5_000, 9_000)
    message = Message(kind, 3, 4, 42, 65_536, at, call.id)
    return _like(call, messages=[message], messages_count=1)
