"""What a run leaves to its series at its end, and what it takes from it at its begin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from chimbuko.causes.incidents.drift import Drift
from chimbuko.core.errors import ChimbukoError
from chimbuko.core.statistics.model import Model, save_model
from chimbuko.provenance.history.entry import Details, Entry, day
from chimbuko.provenance.history.index import Access, Index, RunRow, open_index
from chimbuko.provenance.history.known import KnownFinding, finding_keys, known_findings
from chimbuko.provenance.history.place import place_of_run
from chimbuko.provenance.history.priors import LEAST_RUNS, MOST_RUNS, merged_prior, slower_than
from chimbuko.provenance.history.reading import read_entry
from chimbuko.provenance.history.series import at_start
from chimbuko.provenance.incidents.marks import Mark, marks_of, write_mark
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory, RunInfo

MOST_MARKED = 10
"""Number of earlier runs, the last ones, whose marks are carried over: each is carried on from run to run."""
MOST_EARLIER = 400
"""Number of runs of a series, the last ones, in which findings are looked up."""


class Remembered(msgspec.Struct, frozen=True):
    """A run as its series sees it."""

    known: dict[str, KnownFinding] = {}
    """Findings that earlier runs had, too, by their ids."""
    slower: list[Drift] = []
    """Functions all of whose calls take longer than in the series, those that cost most first."""


def remember(run: RunDirectory, info: RunInfo) -> Remembered:
    """Enter a run that has ended into the index that it belongs to, if any; return what its series says of
    it.

    Raises
    ------
    ChimbukoError
        The run's store cannot be read, or the index not be written.
    """
    place = place_of_run(run, info)
    if place is None:
        return Remembered()
    with open_run(run) as provenance:
        if not provenance.health():
            return Remembered()
        entry = read_entry(run, info, provenance)
        keys = finding_keys(provenance)
    with open_index(place, Access.MAKE) as index:
        index.write(entry)
        known = known_findings(keys, _earlier(index, entry))
        before = [row for row in _runs_of(index, entry) if row.started_us < entry.started_us]
        prior = _prior(index, index.series_of(entry.id) or "", info, entry.id)
    marked = {finding: key for finding, key in keys.items() if finding in known}
    carry_marks(
        run.used_store_url(info), info.id, marked, [Path(row.folder) for row in before[-MOST_MARKED:]]
    )
    return Remembered(known, [] if prior is None else slower_than(prior[1], entry.model))


def known_in_series(run: RunDirectory) -> dict[str, KnownFinding]:
    """Return which findings of a run are known, by their ids; none without an index.

    A run that goes on is not in the index yet: its series is then that of the newest run that began alike.

    Raises
    ------
    ChimbukoError
        The run's store, or the index, cannot be read.
    """
    info = run.read_info()
    place = place_of_run(run, info)
    if place is None or not _is_there(place):
        return {}
    with open_run(run) as provenance:
        keys = finding_keys(provenance)
    with open_index(place) as index:
        return known_findings(keys, _earlier(index, info))


def _is_there(place: str) -> bool:
    return "://" in place or Path(place).is_file()


def _earlier(index: Index, run: Entry | RunInfo) -> list[tuple[int, Details]]:
    """Return the earlier runs of a run's series, the oldest first."""
    rows = _runs_of(index, run)
    before = {row.id: row.started_us for row in rows if row.started_us < run.started_us}
    details = index.details(list(before))
    return [(started_us, details[one]) for one, started_us in before.items() if one in details]


def _runs_of(index: Index, run: Entry | RunInfo) -> list[RunRow]:
    series = index.series_of(run.id)
    if series is None and isinstance(run, RunInfo):
        series = index.newest_series(at_start(run).key)
    return [] if series is None else index.runs(series, MOST_EARLIER)


def carry_marks(
    url: str, run_id: str, keys: Mapping[str, tuple[str, str, str, int]], folders: Sequence[Path]
) -> None:
    """Mark findings of a run as the same were marked in earlier runs; the newest mark of each counts.

    Parameters
    ----------
    keys
        Keys of the findings that may be marked, by their ids.
    folders
        Folders of the earlier runs, the oldest first; those that are gone, or cannot be read, are left out.

    Raises
    ------
    StoreError
        The store of the run cannot be written.
    """
    marks: dict[tuple[str, str, str, int], Mark] = {}
    for folder in folders if keys else ():
        with suppress(ChimbukoError), open_run(RunDirectory(folder)) as provenance:
            if found := marks_of(provenance.reader):
                known = finding_keys(provenance)
                marks |= {known[finding]: mark for finding, mark in found.items() if finding in known}
    for finding, key in keys.items():
        if key in marks:
            write_mark(url, run_id, msgspec.structs.replace(marks[key], finding=finding))


def _prior(index: Index, series: str, info: RunInfo, but: str = "") -> tuple[list[RunRow], Model] | None:
    """Return the good runs of a series, the oldest first, and their model; None where too little is known."""
    rows = [row for row in index.runs(series, 2 * MOST_RUNS) if row.is_good and row.id != but][-MOST_RUNS:]
    if len(rows) < LEAST_RUNS:
        return None
    packed = index.models([row.id for row in rows])
    newest_first = [packed[row.id] for row in reversed(rows) if row.id in packed]
    model = merged_prior(newest_first, info.config.detector, info.config.metric)
    return None if model is None else (rows, model)


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
    if place is None or not _is_there(place):
        return None
    with open_index(place) as index:
        series = index.newest_series(at_start(info).key)
        found = None if series is None else _prior(index, series, info)
    if series is None or found is None:
        return None
    rows, model = found
    save_model(run.prior_path, model)
    return Baseline(series, len(rows), rows[0].started_us)
