"""History of the series that the run is of: its runs, and what changed from one to the next."""

from __future__ import annotations

import shlex
from pathlib import Path

from chimbuko.core.errors import StoreError
from chimbuko.provenance.history.history import MOST_LOOKED_AT, SeriesHistory, read_history
from chimbuko.provenance.history.index import open_index
from chimbuko.provenance.history.place import place_of_run
from chimbuko.viz.api.endpoint import Answer, ServedRun, get


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
