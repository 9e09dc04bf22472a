"""List of the runs of one folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from chimbuko.causes.wording import Bound
from chimbuko.core.errors import ConfigError, StoreError
from chimbuko.provenance.manage.inventory import RunTotals, duration_us, totals_of_runs
from chimbuko.provenance.manage.lifecycle import RUNNING, left_bytes, state_of
from chimbuko.provenance.store.engine import open_as_it_is
from chimbuko.runtime.runs.directory import RunDirectory, RunInfo
from chimbuko.runtime.runs.finding import runs_in
from chimbuko.runtime.runs.programname import program_of
from chimbuko.viz.api.endpoint import Answer


class ListedRun(msgspec.Struct, frozen=True):
    """Run in a folder of runs."""

    folder: str
    """Name of the run's folder."""
    id: str
    name: str
    address: str
    """Address of the run's page, below ``r/``: its name, where no other run of the folder has that."""
    program: str
    """Program, without the command that started it; of recorded traces all programs, where that is known."""
    command: list[str]
    state: str
    """State: ``running``, ``finished``, ``interrupted``, ``failed``, ``imported`` or ``died``."""
    started_us: int
    is_this: bool
    path: str
    """Path of the run's folder, for commands."""
    ended_us: int
    """Time of the end in µs since the epoch; 0 while the run goes on."""
    duration_us: int | None
    """Duration in µs, up to now while the run goes on; null where it died. Of a recorded trace, and of what
    was imported, that of the program, as far as it is known.
    """
    exit_code: int | None
    ranks: int | None
    """Number of ranks; null where the store cannot be read."""
    anomalies: int | None
    lost_us: float | None
    """Core time that incidents and recurring findings cost, in µs."""
    bound: Bound
    """How sure that time is."""
    loss: float | None
    """Share of steps that were not analysed; null where none is known."""
    stored_bytes: int
    """Size of the run in its folder, or of its store elsewhere as last noted, in bytes."""


class RunsAnswer(Answer, frozen=True, kw_only=True):
    """Runs of a folder: running ones, then the newest first."""

    runs: list[ListedRun]
    folder: str
    """Path of the folder."""


class RunsList:
    """List of the runs of a folder. Runs that have not changed since the last request are not read again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._totals: dict[Path, tuple[object, RunTotals | None, int]] = {}

    def answer(self, this: RunDirectory | None = None) -> RunsAnswer:
        """Return the present list, for the page of ``this`` run or of none."""
        runs = list(readable_runs(self._folder))
        names = addresses(runs)
        of_store: dict[str, dict[str, RunTotals] | None] = {}
        listed = []
        for run, info in runs:
            state = state_of(run, info)
            totals, size = self._measured(run, info, state, of_store)
            listed.append(
                ListedRun(
                    folder=run.path.name,
                    id=info.id,
                    name=info.name,
                    address=names[run],
                    program=_program(run, info),
                    command=info.command,
                    state=state,
                    started_us=info.started_us,
                    is_this=run == this,
                    path=str(run.path),
                    ended_us=info.ended_us,
                    duration_us=duration_us(info, state, totals),
                    exit_code=info.exit_code,
                    ranks=totals.ranks if totals else None,
                    anomalies=totals.anomalies if totals else None,
                    lost_us=totals.lost_us if totals else None,
                    bound=totals.bound if totals else Bound.EXACT,
                    loss=totals.loss if totals else None,
                    stored_bytes=size,
                )
            )
        self._totals = {run.path: self._totals[run.path] for run, _ in runs if run.path in self._totals}
        listed.sort(key=lambda one: (one.state != RUNNING, -one.started_us))
        return RunsAnswer(runs=listed, folder=str(self._folder))

    def _measured(
        self,
        run: RunDirectory,
        info: RunInfo,
        state: str,
        of_store: dict[str, dict[str, RunTotals] | None],
    ) -> tuple[RunTotals | None, int]:
        """Return the findings in a run, None where they cannot be read, and its size in bytes."""
        marks = None if state == RUNNING else (info, _changed_ns(run.store_path))
        known = self._totals.get(run.path)
        if marks is not None and known is not None and known[0] == marks:
            return known[1], known[2]
        found = None
        with suppress(ConfigError):
            url = run.used_store_url(info)
            if url not in of_store:
                of_store[url] = _totals_in(url)
            found = of_store[url]
        totals = None if found is None else found.get(info.id, RunTotals())
        # The size of a database elsewhere was noted at the end of the run: rows are not counted for a list.
        size = left_bytes(run) if run.store_path.exists() else max(left_bytes(run), info.stored_bytes)
        self._totals[run.path] = marks, totals, size
        return totals, size


def _program(run: RunDirectory, info: RunInfo) -> str:
    is_known_by_command = info.command and not info.command[0].startswith("-")
    if is_known_by_command and info.command[:2] != ["chimbuko", "serve"]:
        return program_of(info.command)
    return ", ".join(run.read_programs())


def readable_runs(folder: Path) -> Iterator[tuple[RunDirectory, RunInfo]]:
    """Return the runs of a folder, by path. Damaged ones are left out."""
    for run in runs_in(folder):
        with suppress(ConfigError):
            yield run, run.read_info()


def addresses(runs: Iterable[tuple[RunDirectory, RunInfo]]) -> dict[RunDirectory, str]:
    """Return the address of each run of a folder: its name, or its folder's where several have that name."""
    named = [(run, info.name) for run, info in runs]
    times = Counter(name for _, name in named)
    return {run: name if times[name] == 1 else run.path.name for run, name in named}


def _changed_ns(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _totals_in(url: str) -> dict[str, RunTotals] | None:
    """Return the totals of all runs of a store, by id; None if it cannot be read, or is of another
    version.
    """
    try:
        engine = open_as_it_is(url)
        try:
            return totals_of_runs(engine)
        finally:
            engine.dispose()
    except StoreError:
        return None
