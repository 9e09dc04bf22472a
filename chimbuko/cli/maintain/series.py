"""``chimbuko runs series``: lists the series that runs form, and corrects them by hand."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from chimbuko.cli.shared.table import Column, Output, print_json
from chimbuko.core.errors import ConfigError
from chimbuko.core.names import visible
from chimbuko.core.units import number_of, parse_age_us
from chimbuko.provenance.history.index import Access, Index, open_index, place_of_folder
from chimbuko.provenance.history.remembering import rebuild
from chimbuko.runtime.runs.directory import RUNS_FOLDER, check_name
from chimbuko.runtime.runs.finding import runs_in

STORE = click.option("--store", metavar="URL", help="PostgreSQL store that has the index of its runs.")


@contextmanager
def _index(store: str | None, access: Access = Access.CHANGE, folder: Path = RUNS_FOLDER) -> Iterator[Index]:
    place = store or place_of_folder(folder)
    if place is None:
        raise ConfigError("CHIMBUKO_HISTORY=none: no index of runs is kept")
    with open_index(place, access) as index:
        yield index


@click.group("series", invoke_without_command=True, short_help="List series of runs, and correct them.")
@STORE
@click.option("--json", "as_json", is_flag=True, help="Print all fields as JSON.")
@click.pass_context
def series(ctx: click.Context, store: str | None, as_json: bool) -> None:
    """List the series that runs form: those of the same program, size, input and machine.

    \b
    Examples:
      chimbuko runs series
      chimbuko runs series rename heat2d-2 heat2d-large
      chimbuko runs series move 20260301-101500-heat2d heat2d-large
      chimbuko runs series leave-out 20260301-101500-heat2d
      chimbuko runs series forget --older-than 52w
      chimbuko runs series rebuild
    """
    if ctx.invoked_subcommand is not None:
        ctx.obj = store
        return
    with _index(store, Access.READ) as index:
        found = index.series()
    if as_json:
        print_json({"series": found})
        return
    columns = [
        *(Column("SERIES", may_shrink=True), Column("RUNS", is_number=True), Column("FIRST"), Column("LAST")),
        Column("WHAT", may_shrink=True),
    ]
    Output().table(
        columns,
        [[one.name, f"{one.runs:,}", _day(one.first_us), _day(one.last_us), one.title] for one in found],
    )


def _day(time_us: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(time_us / 1e6))


@series.command(short_help="Give a series another name, or make one of two.")
@click.argument("old")
@click.argument("new")
@click.pass_obj
def rename(store: str | None, old: str, new: str) -> None:
    """Give the series OLD the name NEW; where NEW is a series, too, both are one from then on.

    \b
    Example:
      chimbuko runs series rename heat2d-2 heat2d-large
    """
    with _index(store) as index:
        index.rename(old, check_name(new))


@series.command(short_help="Put runs into another series.")
@click.argument("runs", metavar="RUN... SERIES", nargs=-1, required=True)
@click.pass_obj
def move(store: str | None, runs: tuple[str, ...]) -> None:
    """Put each RUN, by name or id, into SERIES, which need not be there yet.

    \b
    Example:
      chimbuko runs series move 20260301-101500-heat2d heat2d-large
    """
    *moved, name = runs
    if not moved:
        raise ConfigError("name the runs, then the series")
    with _index(store) as index:
        for run in moved:
            index.move(run, check_name(name))


@series.command("leave-out", short_help="Leave runs out of what their series learns.")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--undo", is_flag=True, help="Take them in again.")
@click.pass_obj
def leave_out(store: str | None, runs: tuple[str, ...], undo: bool) -> None:
    """Leave each RUN, by name or id, out of changes and baselines; it stays in the list.

    \b
    Example:
      chimbuko runs series leave-out 20260301-101500-heat2d
    """
    with _index(store) as index:
        for run in runs:
            index.leave_out(run, not undo)


@series.command(short_help="Remove old entries from the index.")
@click.option("--older-than", metavar="AGE", help="Remove entries of runs that began so long ago: 26w, 365d.")
@click.option(
    "--keep", metavar="N", type=click.IntRange(min=1), help="Keep the newest N runs of each series only."
)
@click.pass_obj
def forget(store: str | None, older_than: str | None, keep: int | None) -> None:
    """Remove entries from the index; the runs themselves stay.

    \b
    Example:
      chimbuko runs series forget --older-than 104w --keep 1000
    """
    if older_than is None and keep is None:
        raise ConfigError("say what goes: --older-than; or what stays: --keep")
    before_us = None if older_than is None else time.time_ns() // 1000 - parse_age_us(older_than)
    with _index(store) as index:
        print(f"{number_of(index.forget(before_us, keep), 'entries')} removed", file=sys.stderr)


@series.command("rebuild", short_help="Make the index anew from the runs that are there.")
@click.argument("folder", default=RUNS_FOLDER, type=click.Path(path_type=Path))
@click.pass_obj
def rebuild_index(store: str | None, folder: Path) -> None:
    """Enter all runs of FOLDER, by default ./chimbuko-runs, into the index; corrections and runs that are
    gone stay.

    Runs that cannot be read are named, and left out. A folder that has an index once gets an entry of each
    further run.

    \b
    Examples:
      chimbuko runs series rebuild
      chimbuko runs series rebuild /data/nightly
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no folder of runs there")
    with _index(store, Access.MAKE, folder) as index:
        done = rebuild(index, runs_in(folder))
    for problem in done.problems:
        print(f"chimbuko: {visible(problem)}", file=sys.stderr)
    print(f"{number_of(done.runs, 'runs')} entered into {visible(index.place)}", file=sys.stderr)
