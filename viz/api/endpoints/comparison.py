"""Other runs beside this one, the changes from some of them to this one, and the history of its series."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from chimbuko.core.errors import ConfigError, StoreError
from chimbuko.provenance.compare.profilemerging import merged
from chimbuko.provenance.compare.runcomparison import Comparison, compare
from chimbuko.provenance.compare.runprofile import read_profile
from chimbuko.provenance.compare.timechanges import at_most
from chimbuko.provenance.compare.wording import sentences
from chimbuko.provenance.history.history import MOST_LOOKED_AT, SeriesHistory, read_history
from chimbuko.provenance.history.index import open_index, place_of_run
from chimbuko.provenance.query.filters import Text
from chimbuko.provenance.query.run import Provenance, open_run, settled_state
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.viz.api.endpoint import Answer, Missing, ServedRun, get
from chimbuko.viz.api.runslist import RunsAnswer, RunsList, readable_runs

MOST_FUNCTIONS = 500
"""Most functions in one answer, the most important first: 1 kB each, with the distributions."""


class ComparisonParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Runs to compare with."""

    before: Annotated[
        Text, Meta(description="Folders of the runs before, as the list of runs has them, joined by /.")
    ] = msgspec.field(name="with")
    also: Annotated[
        Text | None, Meta(description="Folders of further runs after, beside this one, joined by /.")
    ] = None


class ComparisonAnswer(Answer, frozen=True, kw_only=True):
    """Changes from earlier runs to this one, and to those beside it."""

    sentences: list[str]
    """Changes in words, the most important first."""
    comparison: Comparison
    """Comparison of the runs; of many functions and paths those that matter most."""
    functions: int
    """Number of functions in both runs."""


@get("/runs")
def runs(run: ServedRun) -> RunsAnswer:
    """List the runs in the folder that contains this one's folder: running ones, then the newest first."""
    return RunsList(run.feed.run.path.parent).answer(run.feed.run)


def _state(run: ServedRun, wanted: ComparisonParameters) -> Hashable:
    """Return the state of the stores of all runs that are compared; None if that of one is not known."""
    names = _names(run.feed.run, wanted)
    if {".", ".."} & set(names):
        return None
    states = [settled_state(RunDirectory(run.feed.run.path.parent / name)) for name in names]
    return None if None in states else tuple(states)


def _names(run: RunDirectory, wanted: ComparisonParameters) -> list[str]:
    return [*wanted.before.split("/"), run.path.name, *(wanted.also.split("/") if wanted.also else ())]


@get("/comparison", state=_state)
def comparison(run: ServedRun, wanted: ComparisonParameters) -> ComparisonAnswer:
    """Compare this run, and further ones, with other runs: runtimes, functions, anomalies, ranks."""
    return compared(run.feed.run, run.provenance, wanted)


def compared(
    run: RunDirectory,
    provenance: Provenance,
    wanted: ComparisonParameters,
    progress: Callable[[float, str], None] = lambda share, text: None,
) -> ComparisonAnswer:
    """Return the changes from other runs to ``run``, whose provenance is given, and to others beside it.

    Raises
    ------
    Missing
        There is no such run beside it.
    ConfigError
        A run is named twice.
    """
    progress(0.0, "Reading runs")
    before = wanted.before.split("/")
    names = _names(run, wanted)
    # Only names that the list has: an address shall not open any other folder.
    there = {other.path.name for other, _ in readable_runs(run.path.parent)}
    for name in names:
        if name not in there:
            raise Missing(f"run {name[:200]!r}: none of this name beside this one; /api/v1/runs lists them")
        if names.count(name) > 1:
            raise ConfigError(f"run {name!r}: named more than once; give it on one side, and once")
    profiles = []
    for at, name in enumerate(names):

        def said(share: float, text: str, at: int = at) -> None:
            progress(0.9 * (at + share) / len(names), text)

        if name == run.path.name:
            profiles.append(read_profile(provenance, said))
            continue
        with open_run(RunDirectory(run.path.parent / name)) as other:
            profiles.append(read_profile(other, said))
    progress(0.9, "Comparing")
    found = compare(merged(profiles[: len(before)]), merged(profiles[len(before) :]))
    shown = msgspec.structs.replace(
        found,
        functions=found.functions[:MOST_FUNCTIONS],
        paths=found.paths[:MOST_FUNCTIONS],
        times=at_most(found.times, MOST_FUNCTIONS),
    )
    return ComparisonAnswer(sentences=sentences(found), comparison=shown, functions=len(found.functions))


# History of the series that the run is of: its runs, and what changed from one to the next.


class HistoryAnswer(Answer, frozen=True, kw_only=True):
    """History of the run's series."""

    history: SeriesHistory | None
    """History of its last 400 runs; null where the run is in no index of runs."""
    this: int | None
    """Index of this run; null where it is not among these."""
    folders: list[str]
    """Names of the folders of its runs that lie beside this one's, for comparisons; empty for others."""
    why: str
    """Why there is no history, in words; empty if there is one."""


@get("/history")
def history(run: ServedRun) -> HistoryAnswer:
    """Return the runs of the same series, and what changed from one to the next, when, and how sure it is."""
    directory, info = run.feed.run, run.provenance.run()
    place = place_of_run(directory, info)
    if place is None:
        return _without(
            "No index of runs is kept in the folder of this run. "
            f"To make one: chimbuko runs series rebuild {shlex.quote(str(directory.path.parent))}"
        )
    try:
        with open_index(place) as index:
            series = index.series_of(info.id)
            found = None if series is None else read_history(index, series, MOST_LOOKED_AT)
    except StoreError as error:
        return _without(str(error))
    if found is None:
        return _without("This run is not in the index of runs. It gets there when it ends in order")
    beside = directory.path.parent
    return HistoryAnswer(
        history=found,
        this=next((at for at, one in enumerate(found.runs) if one.id == info.id), None),
        folders=[_beside(Path(one.folder), beside) for one in found.runs],
        why="",
    )


def _without(why: str) -> HistoryAnswer:
    return HistoryAnswer(history=None, this=None, folders=[], why=why)


def _beside(folder: Path, place: Path) -> str:
    """Return the name of a run's folder where it lies in ``place``; empty where it is gone, or elsewhere."""
    return folder.name if (place / folder.name / "run.json").exists() else ""
