"""Makes a recorded trace ready for timelines, as a long question."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated

import msgspec
from msgspec import Meta

from chimbuko.core.arrays import RankKey
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.timeline.traceindexes import TraceTimelines
from chimbuko.runtime.process.lifetime import die_with_parent
from chimbuko.viz.api.endpoint import Answer
from chimbuko.viz.api.endpoints.timeline import MOST_PARTNERS
from chimbuko.viz.api.parameters import RankText, parse_rank, rank_text
from chimbuko.viz.jobs.task import JobRun, Progress, task


class TraceIndexParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Which ranks are looked at."""

    ranks: Annotated[list[RankText], Meta(min_length=1, max_length=1 + MOST_PARTNERS)]


class TraceIndexAnswer(Answer, frozen=True, kw_only=True):
    """What can be shown of the trace now."""

    ranks: list[str]
    """Those whose recorded trace has an index."""


class _Told(msgspec.Struct):
    """A line of ``chimbuko index --json``: how far it is with a rank, or what it has made of it."""

    program: int
    rank: int
    rows: int | None = None


@task("trace-index")
def trace_index(run: JobRun, wanted: TraceIndexParameters, progress: Progress) -> TraceIndexAnswer:
    """Rebuild all calls of the recorded trace of some ranks, and keep them in the order of a picture."""
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
    # A process of its own: damaged files crash ADIOS2, and rebuilding calls is the analysis' work, not ours.
    command = [sys.executable, "-m", "chimbuko", "index", str(run.directory.path), "--json"]
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
