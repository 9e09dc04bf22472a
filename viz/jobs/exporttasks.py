"""Recorded calls as a file for other tools, as a long question."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from chimbuko.core.calls.record import CallRecord
from chimbuko.provenance.export.registry import FORMATS, export
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.viz.api.endpoints.calls import FilterParameters
from chimbuko.viz.jobs.task import AnswerFile, JobRun, Progress, task

WRITTEN = 0.9
"""Share of the work that is done when all calls are written; the rest is packing a folder."""


class ExportParameters(FilterParameters, frozen=True, kw_only=True):
    """Which calls are wanted, and in what form."""

    form: Annotated[
        str,
        Meta(pattern=f"^({'|'.join(FORMATS)})$", description="Name of a format; a folder is packed as ZIP."),
    ]


@task("export")
def exported(run: JobRun, wanted: ExportParameters, progress: Progress) -> AnswerFile:
    """The calls of a filter, with those around them, messages and counters."""
    chosen, name = wanted.call_filter(), run.directory.path.name
    form = FORMATS[wanted.form]
    path = run.folder / (f"{name}-{wanted.form}" if form.is_folder else f"{name}.{form.ending}")
    progress(0.0, "Counting calls")
    export(run.provenance, wanted.form, path, chosen, _reading(run, chosen, progress))
    if form.is_folder:
        path = _packed(path, progress)
    return AnswerFile(path.name)


class _reading:
    """Reports how many of the calls have been read."""

    def __init__(self, run: JobRun, chosen: CallFilter, progress: Progress) -> None:
        self._progress = progress
        self._all = max(1, run.provenance.calls.count(chosen))
        self._read = 0

    def __call__(self, call: CallRecord) -> None:
        self._read += 1
        share = WRITTEN * min(1.0, self._read / self._all)
        self._progress(share, f"Reading rank {call.program}:{call.rank}, step {call.step}")


def _packed(folder: Path, progress: Progress) -> Path:
    """A folder's files in one."""
    packed = folder.with_name(f"{folder.name}.zip")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for index, path in enumerate(files):
            share = WRITTEN + (1 - WRITTEN) * index / len(files)
            progress(share, f"Packing file {index + 1:,} of {len(files):,}")
            archive.write(path, path.relative_to(folder.parent))
    return packed
