"""Long questions: comparison with other runs, export of recorded calls, and the index of a recorded trace.

A long question is a function with typed parameters, progress, and a typed answer.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta

from chimbuko.core.arrays import RankKey
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.export.registry import export, format_named
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.timeline.traceindex import TraceTimelines
from chimbuko.runtime.process.lifetime import die_with_parent
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.viz.api.endpoint import Answer, encode, object_type
from chimbuko.viz.api.endpoints.calls import FilterParameters
from chimbuko.viz.api.endpoints.comparison import ComparisonAnswer, ComparisonParameters, compared
from chimbuko.viz.api.endpoints.timeline import MOST_PARTNERS
from chimbuko.viz.api.parameters import RankText, parse_rank, rank_text

Progress = Callable[[float, str], None]
"""Function called with the share of the work that is done, from 0 to 1, and a description of the present
work, like ``Reading rank 1164, step 86``.
"""


@dataclass(frozen=True)
class JobRun:
    """Run that a question is about, as a worker has it."""

    directory: RunDirectory
    provenance: Provenance
    """Stored results of the run."""
    folder: Path
    """Empty folder of the job's own, for files that it writes; removed a minute after the answer."""


class AnswerFile(msgspec.Struct, frozen=True):
    """Answer in the form of a file in the job's folder, which the browser saves."""

    name: str
    """Name of the file, without folders."""


@dataclass(frozen=True)
class Task:
    """Kind of long question."""

    name: str
    work: Callable[..., Any]
    parameters: type[msgspec.Struct]
    answer: Any
    """Type of the answer, as a JSON object."""

    def read(self, given: object) -> msgspec.Struct:
        """Return the parameters as a page gave them.

        Raises
        ------
        ConfigError
            They are not those of this question.
        """
        try:
            # Numbers may come as texts: filters are reported as the HTTP API takes them.
            return msgspec.convert(given, self.parameters, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{self.name}: {error}") from None

    def encoded(self, answer: Any) -> bytes:
        """Return an answer as JSON."""
        return encode(answer, self.answer)


def task(name: str) -> Callable[[Callable[..., Any]], Task]:
    """Return a decorator that makes a long question of a function of a ``JobRun``, a struct of parameters
    and a ``Progress``.

    It returns a struct, or an ``AnswerFile``, and raises a ``ChimbukoError`` whose text the user reads. It
    runs in a process of its own, which may be killed at any time: what it leaves behind, outside its folder,
    must be whole.
    """

    def make(work: Callable[..., Any]) -> Task:
        hints = get_type_hints(work)
        parameters = hints[list(inspect.signature(work).parameters)[1]]
        return Task(name, work, parameters, object_type(hints["return"]))

    return make


@task("comparison")
def comparison(run: JobRun, wanted: ComparisonParameters, progress: Progress) -> ComparisonAnswer:
    """Compare this run with other runs: shifts of runtimes, new functions, anomalies, ranks."""
    return compared(run.directory, run.provenance, wanted, progress)


WRITTEN = 0.9
"""Share of the work that is done when all calls are written; the rest is packing a folder."""


class ExportParameters(FilterParameters, frozen=True, kw_only=True):
    """Filter of calls, and the format in which they are wanted."""

    form: Annotated[str, Meta(description="Name of a format; a folder is packed as ZIP.")]


@task("export")
def exported(run: JobRun, wanted: ExportParameters, progress: Progress) -> AnswerFile:
    """Write the calls that a filter matches to a file, with those around them, messages and counters."""
    chosen, name = wanted.call_filter(), run.directory.path.name
    form = format_named(wanted.form)
    path = run.folder / (f"{name}-{wanted.form}" if form.is_folder else f"{name}.{form.ending}")
    progress(0.0, "Counting calls")
    export(run.provenance, wanted.form, path, chosen, _reading(run, chosen, progress))
    if form.is_folder:
        path = _packed(path, progress)
    return AnswerFile(path.name)


class _reading:
    """Progress of reading, from the number of calls that have been read."""

    def __init__(self, run: JobRun, chosen: CallFilter, progress: Progress) -> None:
        self._progress = progress
        self._all = max(1, run.provenance.calls.count(chosen))
        self._read = 0

    def __call__(self, call: CallRecord) -> None:
        self._read += 1
        share = WRITTEN * min(1.0, self._read / self._all)
        self._progress(share, f"Reading rank {call.program}:{call.rank}, step {call.step}")


def _packed(folder: Path, progress: Progress) -> Path:
    """Return the files of a folder packed into one."""
    packed = folder.with_name(f"{folder.name}.zip")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for index, path in enumerate(files):
            share = WRITTEN + (1 - WRITTEN) * index / len(files)
            progress(share, f"Packing file {index + 1:,} of {len(files):,}")
            archive.write(path, path.relative_to(folder.parent))
    return packed


class TraceIndexParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks whose traces are prepared."""

    ranks: Annotated[list[RankText], Meta(min_length=1, max_length=1 + MOST_PARTNERS)]


class TraceIndexAnswer(Answer, frozen=True, kw_only=True):
    """Ranks whose recorded traces can be shown now."""

    ranks: list[str]
    """Ranks whose recorded trace has an index."""


class _Told(msgspec.Struct):
    """Line of ``chimbuko runs index --json``: progress with a rank, or its result."""

    program: int
    rank: int
    rows: int | None = None


@task("trace-index")
def trace_index(run: JobRun, wanted: TraceIndexParameters, progress: Progress) -> TraceIndexAnswer:
    """Rebuild all calls of the recorded traces of some ranks, and store them in the order that timelines
    read.
    """
    timelines = TraceTimelines(run.directory, run.provenance)
    ranks = [_rank(text) for text in wanted.ranks]
    recorded = [rank for rank in ranks if timelines.is_recorded(rank)]
    missing = [rank for rank in recorded if timelines.index(rank) is None]
    if missing:
        _make(run, timelines, missing, progress)
    return TraceIndexAnswer(ranks=[rank_text(rank) for rank in recorded if timelines.index(rank) is not None])


def _rank(text: str) -> RankKey:
    program, rank = parse_rank(text)
    assert program is not None
    return program, rank


def _make(run: JobRun, timelines: TraceTimelines, ranks: list[RankKey], progress: Progress) -> None:
    # This is a process of its own, as damaged files crash ADIOS2, and as rebuilding calls is the analysis'
    # work.
    command = [sys.executable, "-m", "chimbuko", "runs", "index", str(run.directory.path), "--json"]
    command += [
        "--to",
        str(timelines.folder_to_write()),
        *(word for rank in ranks for word in ("--rank", rank_text(rank))),
    ]
    rows = {(health.program, health.rank): health.rows for health in run.provenance.health()}
    whole = max(1, sum(rows.get(rank, 0) for rank in ranks))
    before, of_rank = 0, 0
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent
    )
    with process:
        assert process.stdout is not None and process.stderr is not None
        for line in process.stdout:
            reported = msgspec.json.decode(line, type=_Told)
            if reported.rows is None:
                before, of_rank = before + of_rank, 0
            else:
                of_rank = reported.rows
                share = min(1.0, (before + of_rank) / whole)
                progress(share, f"Reading the trace of rank {reported.program}:{reported.rank}")
        complaint = process.stderr.read().strip().rpartition("\n")[2]
    if process.returncode:
        raise ConfigError(complaint.removeprefix("chimbuko: ") or "the recorded trace cannot be read")


TASKS = {task.name: task for task in (comparison, exported, trace_index)}
