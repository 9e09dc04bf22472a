"""What a run leaves to its series at its end, and what it takes from it at its begin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from chimbuko.core.errors import ChimbukoError
from chimbuko.core.statistics.model import save_model
from chimbuko.provenance.history.entry import day
from chimbuko.provenance.history.index import Index, open_index
from chimbuko.provenance.history.place import place_of_run
from chimbuko.provenance.history.priors import LEAST_RUNS, MOST_RUNS, merged_prior
from chimbuko.provenance.history.reading import read_entry
from chimbuko.provenance.history.series import at_start
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory, RunInfo


def remember(run: RunDirectory, info: RunInfo) -> str | None:
    """Enter a run that has ended into the index that it belongs to; return its series, None without an index.

    Raises
    ------
    ChimbukoError
        The run's store cannot be read, or the index not be written.
    """
    place = place_of_run(run, info)
    if place is None:
        return None
    with open_run(run) as provenance:
        if not provenance.health():
            return None
        entry = read_entry(run, info, provenance)
    with open_index(place, is_made=True) as index:
        index.write(entry)
        return index.series_of(entry.id)


class Rebuilt(msgspec.Struct, frozen=True):
    """Result of making an index anew."""

    runs: int
    problems: list[str]
    """One line for each run that could not be read."""


def rebuild(index: Index, runs: Iterable[RunDirectory]) -> Rebuilt:
    """Enter runs into an index; those that go on are left alone, and damaged ones are named.

    What was corrected by hand stays, and so do runs that are gone.

    Raises
    ------
    StoreError
        The index cannot be written.
    """
    entered, problems = 0, []
    for run in runs:
        try:
            info = run.read_info()
            if not info.ended_us:
                continue
            with open_run(run) as provenance:
                entry = read_entry(run, info, provenance) if provenance.health() else None
        except (ChimbukoError, ValueError, KeyError) as error:
            problems.append(f"{run.path}: left out ({error})")
            continue
        if entry is not None:
            index.write(entry)
            entered += 1
    return Rebuilt(entered, problems)


class Baseline(msgspec.Struct, frozen=True):
    """Runs whose model a run begins with."""

    series: str
    runs: int
    since_us: int

    @property
    def words(self) -> str:
        """Return where the model comes from, in words."""
        return f"the last {self.runs} good runs of {self.series}, since {day(self.since_us)}"


def series_baseline(run: RunDirectory, info: RunInfo) -> Baseline | None:
    """Write the model of the series that a run begins in into its folder; None where too little is known.

    Raises
    ------
    ChimbukoError
        The index cannot be read.
    """
    place = place_of_run(run, info)
    if place is None or ("://" not in place and not Path(place).is_file()):
        return None
    with open_index(place) as index:
        series = index.newest_series(at_start(info).key)
        if series is None:
            return None
        good = [row for row in index.runs(series, 2 * MOST_RUNS) if row.is_good][-MOST_RUNS:]
        if len(good) < LEAST_RUNS:
            return None
        packed = index.models([row.id for row in good])
    newest_first: Sequence[bytes] = [packed[row.id] for row in reversed(good) if row.id in packed]
    model = merged_prior(newest_first, info.config.detector, info.config.metric)
    if model is None:
        return None
    save_model(run.prior_path, model)
    return Baseline(series, len(newest_first), good[0].started_us)
