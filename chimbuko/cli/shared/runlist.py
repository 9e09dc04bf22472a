"""A list of runs: those in folders, or those of a store."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from chimbuko.cli.shared.table import Column, Output
from chimbuko.core.errors import ConfigError, StoreError
from chimbuko.core.units import format_duration_us
from chimbuko.launcher.outcome.recovery import recovery_lines
from chimbuko.provenance.manage.inventory import RunTotals, duration_us, stored_runs, totals_of_runs
from chimbuko.provenance.manage.lifecycle import left_bytes, state_of
from chimbuko.provenance.store.engine import open_as_it_is, open_for_reading
from chimbuko.runtime.runs.directory import RUNS_FOLDER, RunDirectory, RunInfo

_COLUMNS = (
    Column("NAME", may_shrink=True),
    Column("ID"),
    Column("STATE"),
    Column("EXIT", is_number=True),
    Column("STARTED"),
    Column("DURATION", is_number=True),
    Column("RANKS", is_number=True),
    Column("ANOMALIES", is_number=True),
    Column("STORED", is_number=True),
    Column("COMMAND", may_shrink=True),
)


class ListedRun(msgspec.Struct, frozen=True):
    """One run of the list."""

    name: str
    id: str
    state: str
    """State as in ``RunInfo``, or ``died``."""
    exit_code: int | None
    """The program's; None while it runs and for recorded traces."""
    started_us: int
    duration_us: int | None
    """Duration of the run, up to now while it goes on; of recorded traces that of the program. None if it
    died, or that is not known.
    """
    ranks: int | None
    """Number of ranks; None if the store cannot be read."""
    anomalies: int | None
    """All that were found."""
    stored_bytes: int
    command: list[str]
    folder: str | None


class Listing(msgspec.Struct, frozen=True):
    """Runs, the newest first, and what could not be read."""

    runs: list[ListedRun]
    problems: list[str]
    recoveries: list[str] = []
    """Lines about runs that died, or left findings elsewhere: what to do."""


def list_runs(runs: Iterable[RunDirectory]) -> Listing:
    """Runs in folders; each store is read once, and left as it is."""
    totals: dict[str | None, dict[str, RunTotals] | None] = {}
    problems: list[str] = []
    listed, recoveries = [], []
    for run in runs:
        try:
            info = run.read_info()
        except ConfigError as error:
            # It may have been deleted just now.
            if run.info_path.exists():
                problems.append(str(error))
            continue
        recoveries += recovery_lines(run, info)
        url = None
        try:
            url = run.used_store_url(info)
        except ConfigError as error:
            problems.append(str(error))
        if url is not None and url not in totals:
            totals[url] = _totals(url, problems)
        of_store = totals.get(url)
        # Of a database elsewhere the size was noted at the end: rows are not counted for a list.
        size = left_bytes(run) if run.store_path.exists() else max(left_bytes(run), info.stored_bytes)
        found = None if of_store is None else of_store.get(info.id, RunTotals())
        listed.append(_listed(info, run, found, size))
    return Listing(_newest_first(listed), problems, recoveries)


def list_store(url: str) -> Listing:
    """Return the runs of a store.

    Raises
    ------
    StoreError
        It cannot be read.
    """
    engine = open_for_reading(url)
    try:
        totals = totals_of_runs(engine)
        runs = [
            _listed(info, None, totals.get(info.id, RunTotals()), info.stored_bytes)
            for info in stored_runs(engine)
        ]
    finally:
        engine.dispose()
    return Listing(_newest_first(runs), [])


def print_listing(listing: Listing) -> None:
    """Print runs as a table on standard output."""
    rows = [
        [
            _shown_name(run),
            run.id,
            run.state,
            "" if run.exit_code is None else str(run.exit_code),
            time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started_us / 1e6)),
            "?" if run.duration_us is None else format_duration_us(run.duration_us),
            "?" if run.ranks is None else f"{run.ranks:,}",
            "?" if run.anomalies is None else f"{run.anomalies:,}",
            f"{run.stored_bytes / 1e6:,.2f} MB",
            shlex.join(run.command),
        ]
        for run in listing.runs
    ]
    Output().table(_COLUMNS, rows)


def _shown_name(run: ListedRun) -> str:
    """Elsewhere than under ``chimbuko-runs`` the name alone would not find it for certain."""
    is_near = run.folder is None or Path(run.folder).parent == RUNS_FOLDER.absolute()
    return run.name if is_near else str(run.folder)


def _totals(url: str, problems: list[str]) -> dict[str, RunTotals] | None:
    try:
        engine = open_as_it_is(url)
        try:
            return totals_of_runs(engine)
        finally:
            engine.dispose()
    except StoreError as error:
        problems.append(str(error))
        return None


def _listed(info: RunInfo, run: RunDirectory | None, totals: RunTotals | None, size_bytes: int) -> ListedRun:
    state = state_of(run, info)
    return ListedRun(
        name=info.name,
        id=info.id,
        state=state,
        exit_code=info.exit_code,
        started_us=info.started_us,
        duration_us=duration_us(info, state, totals),
        ranks=None if totals is None else totals.ranks,
        anomalies=None if totals is None else totals.anomalies,
        stored_bytes=size_bytes,
        command=info.command,
        folder=None if run is None else str(run.path),
    )


def _newest_first(runs: list[ListedRun]) -> list[ListedRun]:
    return sorted(runs, key=lambda run: -run.started_us)
