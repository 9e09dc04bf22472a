"""``chimbuko runs``: lists the runs that there are; renames, packs, brings in, prunes and deletes them."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from sqlalchemy import Engine

from chimbuko.capture.follow.leftovers import remove_folders_of
from chimbuko.cli.maintain.series import series
from chimbuko.cli.shared import runlist
from chimbuko.cli.shared.table import Column, Output, print_json
from chimbuko.core.calls.functionnames import shown_names
from chimbuko.core.errors import ConfigError
from chimbuko.core.names import visible
from chimbuko.core.units import format_duration_us, number_of, parse_age_us, parse_duration_us
from chimbuko.provenance.explain.explaining import explain_run
from chimbuko.provenance.manage.archive import is_archive, unpack_archive, write_archive
from chimbuko.provenance.manage.inventory import stored_runs
from chimbuko.provenance.manage.lifecycle import check_ended, delete_rows, delete_run, held
from chimbuko.provenance.manage.pruning import PrunedFunction, PruneRule, prune, vacuum
from chimbuko.provenance.manage.transfer import rename_run
from chimbuko.provenance.store.engine import close, open_for_reading, open_for_writing
from chimbuko.runtime.runs.directory import RUNS_FOLDER, RunDirectory, RunInfo, check_name
from chimbuko.runtime.runs.finding import find_run, infos_of, noted_runs, runs_in

if TYPE_CHECKING:
    from chimbuko.provenance.importing.importer import Imported

RUN = click.argument("run_dir", metavar="[RUN]", required=False, type=click.Path(path_type=Path))
JSON = click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")


APART = ("relabel", "index", "deliver", "recall")
"""Verbs that have modules of their own, which load compiled code: 0.5 s that the others need not wait for."""


class _Runs(click.Group):
    """Lists where nothing else is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *APART]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in APART:
            command: click.Command = importlib.import_module(f"chimbuko.cli.maintain.{cmd_name}").command
            return command
        return super().get_command(ctx, cmd_name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_list = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        # A shell that completes a word gives those before it.
        if is_list and not ctx.resilient_parsing:
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group("runs", cls=_Runs, short_help="List, rename, delete, archive, import, prune or complete runs.")
def command() -> None:
    """List the runs under ./chimbuko-runs, and keep them.

    RUN is a run's folder, or its name or id under ./chimbuko-runs. A run that goes on is left alone.

    \b
    Examples:
      chimbuko runs
      chimbuko runs rename 20260301-101500-heat2d baseline
      chimbuko runs archive baseline -o baseline.tar.xz
      chimbuko runs import baseline.tar.xz
      chimbuko runs prune baseline --below 5ms --older-than 7d
      chimbuko runs relabel baseline
      chimbuko runs delete baseline
    """


command.add_command(series)


@command.command("list", short_help="List runs, the newest first.")
@click.option("--store", metavar="URL", help="The runs of a PostgreSQL store, also those without a folder.")
@click.option("--json", "as_json", is_flag=True, help="Print all fields as JSON.")
def list_runs(store: str | None, as_json: bool) -> None:
    """List the runs in the folders of ./chimbuko-runs, and yours elsewhere, the newest first.

    Runs whose folder you named ('chimbuko serve FOLDER', 'chimbuko run --output FOLDER') are shown by
    their folder, from wherever you ask; a file for each is in ~/.local/state/chimbuko/runs.

    ANOMALIES are all that were found. A run that died ended without noting it: its node went down, or its
    processes were killed; then it is said how what its agents had found is stored.

    \b
    Examples:
      chimbuko runs list
      chimbuko runs list --json | jq '.runs[] | select(.anomalies > 100).name'
      chimbuko runs list --store postgresql://db.example/chimbuko
    """
    listing = runlist.list_store(store) if store else runlist.list_runs(_found_runs())
    if as_json:
        print_json(listing)
        return
    for problem in listing.problems:
        print(f"chimbuko: {visible(problem)}", file=sys.stderr)
    if listing.runs:
        runlist.print_listing(listing)
    else:
        print("no runs yet; make one with 'chimbuko run'", file=sys.stderr)
    for line in listing.recoveries:
        print(f"chimbuko: {visible(line)}", file=sys.stderr)


def _found_runs() -> list[RunDirectory]:
    near = runs_in(RUNS_FOLDER)
    # They may be links to where the runs are.
    folders = {run.path.resolve() for run in near}
    return near + [run for run in noted_runs() if run.path.resolve() not in folders]


@command.command(short_help="Give a run another name.")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("name")
def rename(run_dir: Path, name: str) -> None:
    """Give RUN another NAME; its folder stays where it is.

    \b
    Example:
      chimbuko runs rename 20260301-101500-heat2d baseline
    """
    run = find_run(run_dir)
    check_name(name)
    with held(run) as info:
        for other, found in infos_of(runs_in(run.path.parent)).items():
            if other != run and name in (other.path.name, found.name):
                raise ConfigError(f"{name}: the run in {other.path} has this name; choose another")
        with _writing(run, info) as engine:
            rename_run(engine, info.id, name)
        run.write_info(msgspec.structs.replace(info, name=name))


@command.command(short_help="Delete runs with all that is stored of them.")
@click.argument("run_dirs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--store", metavar="URL", help="Runs of a PostgreSQL store, by id or name, whose folders are gone."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(run_dirs: tuple[Path, ...], store: str | None, yes: bool) -> None:
    """Delete each RUN: its folder, and its rows in a PostgreSQL store. Files of your own stay.

    \b
    Examples:
      chimbuko runs delete baseline
      chimbuko runs delete --yes chimbuko-runs/2026*
      chimbuko runs delete --store postgresql://db.example/chimbuko 0f3a8c21b7d4
    """
    if store:
        infos = [_stored_run(store, str(name)) for name in run_dirs]
        _ask([f"{info.name} ({info.id})" for info in infos], yes)
        for info in infos:
            delete_rows(store, info.id)
        return
    runs = [find_run(path) for path in run_dirs]
    for run in runs:
        check_ended(run, run.read_info())
    _ask([str(run.path) for run in runs], yes)
    for run in runs:
        with held(run) as info:
            is_all_gone = delete_run(run, info)
            remove_folders_of(info.id)
            if not is_all_gone:
                print(
                    f"chimbuko: {visible(str(run.path))}: holds files that are not the run's; they stay",
                    file=sys.stderr,
                )


@command.command(short_help="Pack a run into one file.")
@RUN
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="File to write, usually with the ending .tar.xz.",
)
@JSON
def archive(run_dir: Path | None, output: Path, as_json: bool) -> None:
    """Pack RUN, by default the newest, into one file: its provenance, whatever database it is in, its model,
    report and logs, each with a checksum. No password goes into it.

    \b
    Examples:
      chimbuko runs archive -o newest.tar.xz
      chimbuko runs archive baseline -o baseline.tar.xz
    """
    run = find_run(run_dir)
    with held(run):
        archived = write_archive(run, output)
    size = f"{number_of(archived.files, 'files')} in {archived.size_bytes / 1e6:.2f} MB"
    _report(archived, f"{archived.name}: {size}: {archived.file}", as_json)


@command.command("import", short_help="Bring in a run: an archive, or records of the C++ Chimbuko.")
@click.argument("source", metavar="FILE_OR_FOLDER", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--output",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Folder of the run; by default one of its name under ./chimbuko-runs.",
)
@click.option(
    "--store",
    metavar="URL",
    help="PostgreSQL store that its provenance goes into; also set by CHIMBUKO_STORE.",
)
@JSON
def import_run(source: Path, output: Path | None, store: str | None, as_json: bool) -> None:
    """Make a run of a file of 'chimbuko runs archive', or of a folder of records of the C++ Chimbuko.

    An archive that is damaged, or holds what does not belong there, is refused, and leaves nothing.

    \b
    Examples:
      chimbuko runs import baseline.tar.xz
      chimbuko runs import baseline.tar.xz --output runs/other
      chimbuko runs import records/
    """
    # Loaded here: no other command needs compiled code, which takes a second.
    from chimbuko.provenance.importing.importer import import_records, is_foreign
    from chimbuko.runtime.runs.namedstores import STORE_VARIABLE

    store = store or os.environ.get(STORE_VARIABLE)
    if (source / "run.json").exists():
        raise ConfigError(f"{source}: the folder of a run already; it can be used as it is")
    if source.is_file() and is_archive(source):
        unpacked = unpack_archive(source, RUNS_FOLDER, output, store)
        there = f"; its rows were in {unpacked.store} already" if unpacked.was_stored else ""
        _report(unpacked, f"{unpacked.name}: {unpacked.folder}{there}", as_json)
    elif is_foreign(source):
        folder = output or RUNS_FOLDER / check_name(source.resolve().name)
        imported = import_records(source, folder, store_url=store, report=_show_imported)
        explain_run(RunDirectory(Path(imported.run)))
        _report(imported, _imported_line(imported), as_json)
    else:
        raise ConfigError(
            f"{source}: neither a whole archive of a run nor a folder with records of Chimbuko; "
            "unpack records that are packed"
        )


@command.command("prune", short_help="Remove recorded calls by severity and age.")
@RUN
@click.option("--below", metavar="DURATION", help="Remove calls of less severity: 200us, 5ms, 1s.")
@click.option("--older-than", metavar="AGE", help="Remove calls that ended so long ago: 12h, 7d, 2w.")
@click.option(
    "--keep", metavar="N", type=click.IntRange(min=0), help="Never remove the N worst calls of the run."
)
@click.option(
    "--per-function",
    metavar="N",
    type=click.IntRange(min=0),
    help="Never remove the N worst calls of each function.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@JSON
def prune_run(
    run_dir: Path | None,
    below: str | None,
    older_than: str | None,
    keep: int | None,
    per_function: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove recorded abnormal calls of RUN, by default the newest: those to which --below and --older-than
    both apply, where given. Normal calls go when none is left that they are compared with. What was counted
    per step, rank and function stays.

    \b
    Examples:
      chimbuko runs prune baseline --below 5ms --older-than 7d
      chimbuko runs prune baseline --per-function 100 --dry-run
      chimbuko runs prune baseline --keep 1000
    """
    if all(option is None for option in (below, older_than, keep, per_function)):
        raise ConfigError("say what goes: --below, --older-than; or what stays: --keep, --per-function")
    rule = PruneRule(
        below_us=None if below is None else parse_duration_us(below),
        before_us=None if older_than is None else time.time_ns() // 1000 - parse_age_us(older_than),
        keep=keep or 0,
        keep_per_function=per_function or 0,
    )
    run = find_run(run_dir)
    with held(run) as info, _writing(run, info) as engine:
        pruned = prune(engine, info.id, rule, dry_run)
    if as_json:
        print_json({"functions": pruned, "dry_run": dry_run})
    else:
        _print_pruned(pruned, dry_run)


@command.command("vacuum", short_help="Give back the room of what was removed.")
@RUN
@JSON
def vacuum_run(run_dir: Path | None, as_json: bool) -> None:
    """Rewrite the database of RUN, by default the newest, without the room of what was removed from it.

    SQLite needs twice its size on the disk meanwhile. Of PostgreSQL it is the tables of all runs.

    \b
    Example:
      chimbuko runs vacuum baseline
    """
    run = find_run(run_dir)
    with held(run) as info, _writing(run, info) as engine:
        done = vacuum(engine)
    _report(
        done,
        f"{done.store}: {done.bytes_after / 1e6:.2f} MB, before {done.bytes_before / 1e6:.2f} MB",
        as_json,
    )


@contextmanager
def _writing(run: RunDirectory, info: RunInfo) -> Iterator[Engine]:
    """Yield the store of a run."""
    engine = open_for_writing(run.used_store_url(info))
    try:
        yield engine
    finally:
        close(engine)


def _stored_run(store: str, name: str) -> RunInfo:
    engine = open_for_reading(store)
    try:
        found = [info for info in stored_runs(engine) if name in (info.id, info.name)]
    finally:
        engine.dispose()
    if len(found) != 1:
        raise ConfigError(f"{name}: {len(found)} runs of the store have this name or id; give the id of one")
    check_ended(None, found[0])
    return found[0]


def _ask(what: list[str], yes: bool) -> None:
    """Let the user decide whether these are deleted."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError("nobody is there to be asked whether to delete; give --yes")
    click.confirm(f"Delete {', '.join(what)}?", abort=True, err=True)


def _show_imported(calls: int) -> None:
    """Show how far an import is, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r{calls:,} calls\x1b[K\r", end="", file=sys.stderr, flush=True)


def _imported_line(imported: Imported) -> str:
    line = f"{imported.anomalies:,} abnormal and {imported.normal_calls:,} normal calls: {imported.run}"
    if not imported.refused:
        return line
    return f"{line}; {imported.refused:,} records could not be read, the first: {imported.first_refused[0]}"


def _print_pruned(pruned: list[PrunedFunction], is_dry_run: bool) -> None:
    columns = [
        Column("ANOMALIES", is_number=True),
        Column("TIME LOST", is_number=True),
        Column("NORMAL CALLS", is_number=True),
        Column("FUNCTION", may_shrink=True),
    ]
    shown = shown_names(function.function for function in pruned)
    rows = [
        [
            f"{function.anomalies:,}",
            format_duration_us(function.severity_us),
            f"{function.normal_calls:,}",
            shown[function.function],
        ]
        for function in pruned
    ]
    if rows:
        Output().table(columns, rows)
    anomalies = sum(function.anomalies for function in pruned)
    normal = sum(function.normal_calls for function in pruned)
    done = "would be removed" if is_dry_run else "removed; 'chimbuko runs vacuum' gives back their room"
    print(f"{anomalies:,} abnormal and {normal:,} normal calls {done}", file=sys.stderr)


def _report(result: Any, line: str, as_json: bool) -> None:
    if as_json:
        print_json(result)
    else:
        print(visible(line), file=sys.stderr)
