"""Other runs beside this one, and what changed from one of them to this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Annotated

import msgspec
from msgspec import Meta

from chimbuko.errors import ConfigError, StoreError
from chimbuko.provenance.compare.comparison import Comparison, compare
from chimbuko.provenance.compare.runprofile import read_profile
from chimbuko.provenance.compare.wording import sentences
from chimbuko.provenance.manage.inventory import RunTotals, totals_of_runs
from chimbuko.provenance.query.filters import Text
from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.provenance.store.engine import open_as_it_is
from chimbuko.runs.directory import RunDirectory, RunInfo, runs_in
from chimbuko.viz.api.endpoint import Answer, Missing, ServedRun, get

MOST_FUNCTIONS = 500
"""In one answer, the most important first: 1 kB each, with the distributions."""


class ListedRun(msgspec.Struct, frozen=True):
    """A run in the same folder as this one."""

    folder: str
    """What it is called here."""
    id: str
    name: str
    state: str
    started_us: int
    is_this: bool
    path: str
    """Where its folder is, for commands."""
    ended_us: int
    """0 while it goes on."""
    exit_code: int | None
    ranks: int | None
    """None where its store cannot be read."""
    anomalies: int | None
    loss: float | None
    """Share of steps that were not analysed; None where none is known."""


class RunsAnswer(Answer, frozen=True, kw_only=True):
    """Runs that this one can be compared with, and itself."""

    runs: list[ListedRun]


class ComparisonParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Which run to compare with."""

    before: Annotated[Text, Meta(description="The folder of the run before, as the list of runs has it.")] = (
        msgspec.field(name="with")
    )


class ComparisonAnswer(Answer, frozen=True, kw_only=True):
    """What changed from the run before to this one."""

    sentences: list[str]
    """The most important first."""
    comparison: Comparison
    """Of many functions and paths those that matter most."""
    functions: int
    """How many there are in both runs."""


@get("/runs")
def runs(run: ServedRun) -> RunsAnswer:
    """The runs in the folder that this one's folder is in, the newest first."""
    listed = _listed(run.feed.run)
    return RunsAnswer(runs=sorted(listed, key=lambda one: one.started_us, reverse=True))


@get("/comparison")
def comparison(run: ServedRun, wanted: ComparisonParameters) -> ComparisonAnswer:
    """What changed from another run to this one: shifts of runtimes, new functions, anomalies, ranks."""
    return compared(run.feed.run, run.provenance, wanted)


def compared(
    run: RunDirectory,
    provenance: Provenance,
    wanted: ComparisonParameters,
    progress: Callable[[float, str], None] = lambda share, text: None,
) -> ComparisonAnswer:
    """What changed from another run to ``run``, whose provenance is given.

    Raises
    ------
    Missing
        There is no such run beside it.
    """
    progress(0.0, "Reading runs")
    # Only names that the list has: an address shall not open any other folder.
    if wanted.before not in {directory.path.name for directory, _ in _neighbours(run)}:
        raise Missing(
            f"run {wanted.before[:200]!r}: none of this name beside this one; /api/v1/runs lists them"
        )
    with open_run(RunDirectory(run.path.parent / wanted.before)) as other:
        before = read_profile(other, lambda share, text: progress(0.45 * share, text))
    after = read_profile(provenance, lambda share, text: progress(0.45 + 0.45 * share, text))
    progress(0.9, "Comparing")
    found = compare(before, after)
    shown = msgspec.structs.replace(
        found, functions=found.functions[:MOST_FUNCTIONS], paths=found.paths[:MOST_FUNCTIONS]
    )
    return ComparisonAnswer(sentences=sentences(found), comparison=shown, functions=len(found.functions))


def _neighbours(run: RunDirectory) -> Iterator[tuple[RunDirectory, RunInfo]]:
    """The runs in the same folder, itself among them."""
    for directory in runs_in(run.path.parent):
        # A damaged neighbour is no reason to show none.
        with suppress(ConfigError):
            yield directory, directory.read_info()


def _listed(run: RunDirectory) -> Iterator[ListedRun]:
    of_store: dict[str, dict[str, RunTotals] | None] = {}
    for directory, info in _neighbours(run):
        url = directory.used_store_url(info)
        if url not in of_store:
            of_store[url] = _totals(url)
        known = of_store[url]
        totals = None if known is None else known.get(info.id, RunTotals())
        yield ListedRun(
            folder=directory.path.name,
            id=info.id,
            name=info.name,
            state=info.state,
            started_us=info.started_us,
            is_this=directory.path == run.path,
            path=str(directory.path),
            ended_us=info.ended_us,
            exit_code=info.exit_code,
            ranks=totals.ranks if totals else None,
            anomalies=totals.anomalies if totals else None,
            loss=totals.loss if totals else None,
        )


def _totals(url: str) -> dict[str, RunTotals] | None:
    """Of all runs of a store, by id; None where it cannot be read, or is of another version."""
    try:
        engine = open_as_it_is(url)
        try:
            return totals_of_runs(engine)
        finally:
            engine.dispose()
    except StoreError:
        return None
