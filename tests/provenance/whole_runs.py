"""Runs as wholes: all that can be asked of one, and where it lies."""

from __future__ import annotations

import gzip
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from chimbuko.provenance.manage.transfer import copy_run
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.provenance.store.engine import close, open_for_reading, open_for_writing
from chimbuko.provenance.store.urls import public_url
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.runs.directory import RunDirectory
from tests.viz.made_run import MadeRun, make_run

ALL = CallFilter(label=None)


def make_whole_run(folder: Path, steps: int) -> MadeRun:
    """A run that has ended, with all the files that one leaves."""
    made = make_run(folder, stored_steps=steps)
    run = made.directory
    run.model_path.write_bytes(b"what it learned")
    run.report_path.write_bytes(gzip.compress(b"{}"))
    (run.logs / "agent-0.log").write_text("a line\n")
    (run.settings / "node").write_text("exec true\n")
    return made


def move_to(run: RunDirectory, store_url: str) -> None:
    """Have the provenance of a run in another store, as ``chimbuko run --store`` does."""
    source, target = open_for_reading(run.store_url), open_for_writing(store_url)
    run_id = run.read_info().id
    copy_run(source, run_id, target)
    Writer(target, run_id).write_folder(run.path)
    source.dispose()
    close(target)
    for path in run.path.glob("provenance.sqlite*"):
        path.unlink()
    run.write_store_url(store_url)
    run.write_info(msgspec.structs.replace(run.read_info(), store_url=public_url(store_url)))


def answers(provenance: Provenance) -> dict[str, object]:
    """All that can be asked of a run, but for what it is and where."""
    return {
        "calls": provenance.calls.page(ALL, limit=10_000).calls,
        "records": list(provenance.calls.records(ALL)),
        "programs": provenance.programs(),
        "steps": provenance.steps.counts(),
        "health": provenance.health(),
        "metadata": provenance.metadata(),
        "counters": provenance.counter_statistics(),
        "models": list(provenance.models.newest()),
        "functions": provenance.function_statistics(),
        "dropped": provenance.dropped(),
        "prunings": provenance.prunings(),
    }


def answers_of(run: RunDirectory) -> dict[str, object]:
    """Of the run in a folder."""
    with open_run(run) as provenance:
        return answers(provenance)


@contextmanager
def limited_files(size_bytes: int) -> Iterator[None]:
    """No file of this process can grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
