"""``chimbuko runs recall``: what all ranks did around a call, out of the flight recorders of a run."""

from __future__ import annotations

import shlex
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import click
import msgspec
import redis

from chimbuko.capture.trace.discovery import BP_FILE, STREAM_PREFIX
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.cli.shared.table import Column, Output, print_json
from chimbuko.core.calls.record import CallRecord, StreamHealth
from chimbuko.core.errors import ConfigError, ServiceError
from chimbuko.core.names import visible
from chimbuko.core.units import format_duration_us, parse_duration_us
from chimbuko.launcher.outcome.reach import reachable_run
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.protocol.messages import PAYLOAD, RecallAnswer, RecallRequest
from chimbuko.runtime.protocol.runbroker import RunBroker

ANSWER_TIMEOUT_S = 10.0
"""Since the last answer; agents look for requests twice a second."""
MOST_REQUESTS = 100

_answers = msgspec.msgpack.Decoder(RecallAnswer)


class RecalledStream(msgspec.Struct, frozen=True):
    """Recalled part of one stream."""

    stream: str
    rows: int
    start_us: int
    """Begin of the recalled part, in µs; later than was asked for where the recorder does not go back so far.
    """
    end_us: int
    file: str
    """Path of the file that was written; empty if none was."""
    remark: str


@click.command("recall", short_help="Write a trace of what all ranks did around a call.")
@click.argument("run_dir", metavar="[RUN]", required=False, type=click.Path(path_type=Path))
@click.option("--around", "event_id", metavar="CALL", required=True, help="Id of a recorded call.")
@click.option(
    "--before",
    default="1s",
    show_default=True,
    metavar="DURATION",
    help="Time before the call's entry at which the trace begins.",
)
@click.option(
    "--after",
    default="1s",
    show_default=True,
    metavar="DURATION",
    help="Time after the call's exit at which the trace ends.",
)
@click.option("--rank", "ranks", type=int, multiple=True, help="Only this rank. Repeatable.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="New folder for the trace."
)
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def command(
    run_dir: Path | None,
    event_id: str,
    before: str,
    after: str,
    ranks: tuple[int, ...],
    output: Path,
    as_json: bool,
) -> None:
    """Write a trace of what all ranks did around a call of RUN, while the run goes on.

    Each stream's flight recorder holds its newest events, 4 MB of them. RUN is the folder of a run, by
    default the newest under ./chimbuko-runs. The trace can be analysed as any other.

    \b
    Examples:
      chimbuko runs recall --around 0:1:30:1547 -o moment
      chimbuko runs recall chimbuko-runs/heat --around 0:1:30:1547 --before 100ms --rank 0 --rank 2 -o moment
      chimbuko run --trace 'moment/tau-metrics-*.bp'
    """
    run = reachable_run(run_dir)
    broker = RunBroker.connect(run.read_broker_url(), run.read_info().id)
    margins_us = tuple(round(parse_duration_us(text)) for text in (before, after))
    with open_run(run) as provenance:
        call = provenance.calls.record(event_id)
        programs = provenance.programs()
        streams = [stream for stream in provenance.health() if not ranks or stream.rank in ranks]
    if not streams:
        raise ConfigError("no stream of these ranks; 'chimbuko query' lists calls with their ranks")
    request = _request(call, margins_us, streams)
    try:
        output.mkdir(parents=True)
    except OSError as error:
        raise ConfigError(f"{output}: cannot be made ({error.strerror}); choose a new folder") from error
    recalled = []
    for answer in _ask(broker, request):
        program = programs.get(int(answer.stream.partition(":")[0]), "program")
        recalled.append(_write(answer, request, output / f"{STREAM_PREFIX}-{program}-{answer.rank}.bp"))
    _report(recalled, request, output, as_json)


def _request(call: CallRecord, margins_us: tuple[int, ...], streams: list[StreamHealth]) -> RecallRequest:
    return RecallRequest(
        id=uuid.uuid4().hex,
        start_us=max(call.entry_us - margins_us[0], 0),
        end_us=call.entry_us + call.inclusive_us + margins_us[1],
        streams=[f"{stream.program}:{stream.rank}" for stream in streams],
    )


def _ask(broker: RunBroker, request: RecallRequest) -> Iterator[RecallAnswer]:
    """Answers as they come; ends when all are there, or none has come for a while."""
    key = broker.keys.recall_answers(request.id)
    waiting = set(request.streams)
    last = time.monotonic()
    try:
        entry = broker.client.xadd(
            broker.keys.recall_requests, {PAYLOAD: broker.seal.encode(request)}, maxlen=MOST_REQUESTS
        )
        while waiting and time.monotonic() - last < ANSWER_TIMEOUT_S:
            popped = cast("tuple[bytes, bytes] | None", broker.client.blpop([key], timeout=1))
            if popped is not None:
                last = time.monotonic()
                answer = broker.seal.decode(popped[1], _answers)
                waiting.discard(answer.stream)
                yield answer
        broker.client.xdel(broker.keys.recall_requests, entry)
        broker.client.delete(key, f"{key}:bytes")
    except redis.RedisError as error:
        raise ServiceError(f"the run's broker does not answer ({error}); has the run ended?") from error
    for stream in sorted(waiting):
        print(f"chimbuko: no answer for stream {stream}; is its agent running?", file=sys.stderr)


def _write(answer: RecallAnswer, request: RecallRequest, path: Path) -> RecalledStream:
    """Write one stream; its first step begins with the calls that were open."""
    steps = [step for step in answer.steps if step.rows or step.open]
    if steps:
        with StreamWriter(path, BP_FILE) as writer:
            for number, recorded in enumerate(steps):
                step = recorded.trace_step(answer.rank, with_open=number == 0)
                writer.write_step(step.events, step.comms, step.counters, answer.names)
    return RecalledStream(
        stream=answer.stream,
        rows=sum(step.rows for step in steps),
        start_us=max(request.start_us, answer.since_us),
        end_us=request.end_us,
        file=str(path) if steps else "",
        remark=_remark(answer, request, bool(steps)),
    )


def _remark(answer: RecallAnswer, request: RecallRequest, is_written: bool) -> str:
    if answer.is_left_out:
        return "left out: the others are too large already; ask for a shorter time, or fewer ranks"
    if not is_written:
        return "nothing recorded of that time"
    if answer.since_us > request.start_us:
        missing = format_duration_us(answer.since_us - request.start_us)
        return f"the first {missing} are no longer recorded"
    return ""


def _report(recalled: list[RecalledStream], request: RecallRequest, output: Path, as_json: bool) -> None:
    recalled.sort(key=lambda stream: tuple(map(int, stream.stream.split(":"))))
    if as_json:
        answer = {"start_us": request.start_us, "end_us": request.end_us, "streams": recalled}
        print_json(answer)
        return
    columns = [
        Column("STREAM"),
        Column("EVENTS", is_number=True),
        Column("FILE"),
        Column("", may_shrink=True),
    ]
    rows = [[stream.stream, f"{stream.rows:,}", stream.file, stream.remark] for stream in recalled]
    Output().table(columns, rows)
    pattern = shlex.quote(f"{output}/{STREAM_PREFIX}-*.bp")
    print(visible(f"analyse it: chimbuko run --trace {pattern}"), file=sys.stderr)
