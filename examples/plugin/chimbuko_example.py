"""One plugin for Chimbuko of each kind; docs/howto/plugins.md goes through them."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from chimbuko.plugins import (
    Catalogue,
    Cause,
    DetectorEntry,
    Evidence,
    ExportFormat,
    ExportSource,
    Flag,
    Job,
    Kind,
    Observation,
    Part,
    Request,
    Sample,
    Scheduler,
    SchedulerKind,
    Sink,
    SinkError,
    TraceFormat,
    table_of,
)

RATIO = DetectorEntry("chimbuko_example_ratio:Ratio", default_threshold=3.0, unit="×", learns_buckets=False)


def _in_checkpoint(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield all that a call lost in a function that writes checkpoints."""
    if "checkpoint" in flag.function.lower():
        yield Part(CHECKPOINT.id, flag.excess_us)


CHECKPOINT = Cause(
    id="checkpoint",
    colour="program",
    text="writing a checkpoint",
    find=_in_checkpoint,
    clause=lambda part, rank: "as it wrote a checkpoint",
)


def to_file(where: str) -> Sink:
    """Open a sink that adds each alert to a file, as a line of JSON."""

    def take(body: bytes) -> None:
        try:
            with open(where, "ab") as file:
                file.write(body + b"\n")
        except OSError as error:
            raise SinkError(error.strerror or str(error)) from error

    return Sink(f"file {where}", take)


def write_csv(source: ExportSource, file: IO[bytes]) -> None:
    """Write a line for each call."""
    text = io.TextIOWrapper(file, "utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(["call", "rank", "function", "entry_us", "severity_us"])
    for call in source.records():
        writer.writerow([call.id, call.rank, call.function, call.entry_us, call.severity_us])
    text.detach()


CSV = ExportFormat("chimbuko_example:write_csv", "a table of calls", "csv")


def events(catalogue: Catalogue, source: int, path: Path) -> Iterator[Any]:
    """Yield the calls of a file, whose lines are RANK FUNCTION BEGIN_US END_US."""
    rows: list[tuple[int, int, int, int, int, int]] = []
    for line in path.read_text().splitlines()[1:]:
        rank, function, begin_us, end_us = line.split()
        process = catalogue.process((source, rank))
        catalogue.processes[process].rank = int(rank)
        track = catalogue.track(process, "main")
        begin_ns, end_ns = int(begin_us) * 1000, int(end_us) * 1000
        rows.append((begin_ns, end_ns - begin_ns, 0, track, catalogue.name(function), Kind.CALL))
    yield table_of(rows)


def _is_calls(sample: Sample) -> bool:
    return sample.head.startswith(b"#calls\n")


CALLS = TraceFormat("calls", _is_calls, "chimbuko_example", is_streamed=False)


def oar(job: Job, request: Request | None) -> Scheduler:
    """Return the scheduler for OAR, whose agents are started by ``oarsh``."""
    return Scheduler(
        by="oarsub -S, on the job's first node",
        directives=(f"#OAR -l nodes={request.nodes}",) if request else (),
        job="$OAR_JOB_ID",
        here="${hosts[0]}",
        submit_host="",
        hosts='mapfile -t hosts < <(sort -u "$OAR_NODEFILE")',
        count="${#hosts[@]}",
        agents='for host in "${hosts[@]}"; do oarsh "$host" "${agent[@]}" & agents+=($!); done',
        ranks=f'mpirun -n {job.ranks} -machinefile "$OAR_NODEFILE"',
    )


def _hosts(environment: Mapping[str, str]) -> list[str] | None:
    path = environment.get("OAR_NODEFILE")
    return list(dict.fromkeys(Path(path).read_text().split())) if path else None


OAR = SchedulerKind(oar, _hosts)


def publications(observations: Sequence[Observation]) -> dict[str, Any]:
    """Return how often each client has published."""
    return {"publications": dict(Counter(one.client for one in observations))}
