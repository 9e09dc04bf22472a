"""The life of runs from the command line, in SQLite and in PostgreSQL."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import pty
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from chimbuko.cli import main
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.export.registry import export
from chimbuko.provenance.manage import lifecycle
from chimbuko.provenance.manage.inventory import stored_runs
from chimbuko.provenance.manage.lifecycle import DIED, START_S
from chimbuko.provenance.query.run import open_run
from chimbuko.provenance.store import engine as store
from chimbuko.provenance.store.engine import open_for_reading
from chimbuko.provenance.store.urls import public_url
from chimbuko.runtime.process.nameholding import hold
from chimbuko.runtime.runs import finding
from chimbuko.runtime.runs.directory import RUNS_FOLDER, RunDirectory, claim_name, kept_token
from tests.provenance.store.test_migrations import release_next
from tests.provenance.whole_runs import ALL, answers_of, make_whole_run, move_to
from tests.viz.made_run import MadeRun

STEPS = 10


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CHIMBUKO_STORE", raising=False)
    yield


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    return make_whole_run(tmp_path_factory.mktemp("template") / "heat", STEPS)


@pytest.fixture
def made(template: MadeRun) -> MadeRun:
    """A run in a folder under ./chimbuko-runs."""
    folder = (RUNS_FOLDER / "heat").absolute()
    shutil.copytree(template.directory.path, folder)
    return dataclasses.replace(template, directory=RunDirectory(folder))


@pytest.fixture(params=["sqlite", "postgresql"])
def run(request: pytest.FixtureRequest, made: MadeRun) -> RunDirectory:
    """The run of ``made``, with its provenance on each kind of database in turn."""
    if request.param == "postgresql":
        move_to(made.directory, request.getfixturevalue("postgresql_url"))
    return made.directory


def runs(*words: str) -> Result:
    return CliRunner().invoke(main, ["runs", *words])


def done(*words: str) -> Any:
    """What a command that succeeds says in JSON."""
    result = runs(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*words: str) -> str:
    """What a command that cannot be carried out says, in one line."""
    result = runs(*words)
    assert result.exit_code in (2, 4, 5), result.output
    assert len(result.stderr.splitlines()) == 1
    return result.stderr


def change(run: RunDirectory, **values: Any) -> None:
    run.write_info(msgspec.structs.replace(run.read_info(), **values))


def test_runs_are_listed_by_their_folders(run: RunDirectory, made: MadeRun) -> None:
    other = make_whole_run(RUNS_FOLDER / "other", 2).directory
    change(run, started_us=1_000_000, ended_us=3_500_000)
    (RUNS_FOLDER / ".half.partial").mkdir()
    (RUNS_FOLDER / ".half.partial" / "run.json").write_bytes(other.info_path.read_bytes())
    listed = done()["runs"]
    assert [run["name"] for run in listed] == ["other", "heat"]
    assert listed == done("list")["runs"]
    info = run.read_info()
    anomalies = sum(stream.anomalies for stream in made.health(STEPS))
    assert listed[1] == {
        "name": "heat",
        "id": info.id,
        "state": "finished",
        "exit_code": 0,
        "started_us": 1_000_000,
        "duration_us": 2_500_000,
        "ranks": 5,
        "anomalies": anomalies,
        "stored_bytes": listed[1]["stored_bytes"],
        "command": info.command,
        "folder": str(run.path),
    }
    lines = runs().stdout.splitlines()
    assert lines[0].split()[:3] == ["NAME", "ID", "STATE"]
    assert lines[2].startswith(f"heat   {info.id}  finished")
    assert lines[2].split()[3] == "0" and "2.50 s" in lines[2]


def test_a_recorded_trace_took_as_long_as_its_program(made: MadeRun) -> None:
    change(made.directory, transport="recorded", started_us=1_000_000, ended_us=3_500_000)
    (listed,) = done()["runs"]
    with open_run(made.directory) as provenance:
        begin_us, end_us = provenance.steps.time_range() or (0, 0)
    assert listed["duration_us"] == end_us - begin_us != 2_500_000


def test_no_runs_are_reported(tmp_path: Path) -> None:
    result = runs()
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no runs yet" in result.stderr


def test_a_store_that_cannot_be_read_hides_no_run(made: MadeRun) -> None:
    made.directory.store_path.write_bytes(b"no database" * 1000)
    listed = done()
    assert [(run["name"], run["ranks"], run["anomalies"]) for run in listed["runs"]] == [("heat", None, None)]
    assert "not a usable database" in listed["problems"][0]
    result = runs()
    assert "?" in result.stdout
    assert "not a usable database" in result.stderr


def test_a_damaged_run_hides_no_other(made: MadeRun) -> None:
    (damaged := RUNS_FOLDER / "damaged").mkdir()
    (damaged / "run.json").write_text('{"id":')
    listed = done()
    assert [run["name"] for run in listed["runs"]] == ["heat"]
    assert "damaged/run.json: not readable" in listed["problems"][0]
    # The newest that can be read, and another name.
    for words in ([], [str(made.directory.read_info().id)]):
        assert CliRunner().invoke(main, ["query", *words]).exit_code == 0
    made.directory.info_path.unlink()
    assert "not readable" in CliRunner().invoke(main, ["query"]).stderr


def test_stores_of_earlier_releases_are_listed_as_they_are(
    made: MadeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = made.directory.store_path.read_bytes()
    with monkeypatch.context() as later:
        release_next(later, tmp_path)
        assert done()["runs"][0]["ranks"] == 5
    assert made.directory.store_path.read_bytes() == before
    change_version(made.directory.store_path, "0012")
    listed = done()
    assert listed["runs"][0]["ranks"] is None
    assert "from before the first release" in listed["problems"][0]
    made.directory.store_path.write_bytes(b"")
    assert "holds no provenance" in done()["problems"][0]


def change_version(path: Path, version: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (version,))
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def test_the_runs_of_a_store_are_listed_without_folders(made: MadeRun, postgresql_url: str) -> None:
    other = make_whole_run(RUNS_FOLDER / "other", 2).directory
    for directory in (made.directory, other):
        move_to(directory, postgresql_url)
    wanted = [run | {"folder": None, "stored_bytes": 0} for run in done()["runs"]]
    assert done("list", "--store", postgresql_url)["runs"] == wanted


def test_runs_elsewhere_are_listed_by_their_folders(made: MadeRun) -> None:
    elsewhere = make_whole_run(Path("scratch").absolute() / "other", 2).directory
    for run in (elsewhere, made.directory):
        finding.note(run.read_info().id, run.path)
    listed = done()["runs"]
    assert sorted(run["folder"] for run in listed) == [str(made.directory.path), str(elsewhere.path)]
    rows = runs("list").stdout.splitlines()[1:]
    assert sorted(row.split()[0] for row in rows) == [str(elsewhere.path), "heat"]


def test_a_run_that_died_is_told_from_one_that_goes_on(made: MadeRun) -> None:
    run = made.directory
    change(run, state="running", ended_us=0, host=platform.node(), started_us=time.time_ns() // 1000)
    # It may be about to start.
    assert done()["runs"][0]["state"] == "running"
    change(run, started_us=int((time.time() - START_S - 1) * 1e6))
    assert done()["runs"][0]["state"] == DIED
    with closing(hold(claim_name(run.read_info().id))):
        assert done()["runs"][0]["state"] == "running"
    change(run, host="elsewhere")
    assert done()["runs"][0]["state"] == "running"
    assert "goes on, as far as can be seen from here; ask on elsewhere" in refused("delete", "heat", "--yes")


def test_a_run_that_goes_on_is_left_alone(made: MadeRun) -> None:
    run = made.directory
    change(run, state="running", host=platform.node())
    before = answers_of(run)
    with closing(hold(claim_name(run.read_info().id))):
        for words in (
            ["rename", "heat", "other"],
            ["delete", "heat", "--yes"],
            ["archive", "heat", "-o", "heat.tar.xz"],
            ["prune", "heat", "--keep", "1"],
            ["vacuum", "heat"],
        ):
            assert "heat: the run goes on; try again when it has ended" in refused(*words)
    assert answers_of(run) == before
    assert not Path("heat.tar.xz").exists()


def test_two_commands_do_not_work_on_a_run_at_once(made: MadeRun) -> None:
    run = made.directory
    with closing(hold(f"{run.path}, {run.read_info().id}")):
        assert "another process is at work there" in refused("vacuum", "heat")


def test_a_renamed_run_is_found_by_its_new_name(run: RunDirectory) -> None:
    assert runs("rename", "heat", "baseline").exit_code == 0
    assert run.read_info().name == "baseline"
    with open_run(run) as provenance:
        assert provenance.run().name == "baseline"
    assert [listed["name"] for listed in done()["runs"]] == ["baseline"]
    make_whole_run(RUNS_FOLDER / "other", 1)
    assert "has this name; choose another" in refused("rename", "other", "baseline")
    for name in ("../up", "two\nlines", "\u202eturned", "x" * 300):
        assert "cannot be the name of a run" in refused("rename", "baseline", name)
    assert runs("rename", "baseline", "heat").exit_code == 0


def test_a_deleted_run_leaves_nothing(run: RunDirectory) -> None:
    other = make_whole_run(RUNS_FOLDER / "other", 1).directory
    info = run.read_info()
    url = run.used_store_url(info)
    for secret in (run.page_token_path, run.metrics_token_path):
        kept_token(secret)
    run.logs.mkdir(exist_ok=True)
    for name in ("pserver.story", ".pserver.story-17"):
        (run.logs / name).write_text("what a killed process left, too")
    assert runs("delete", "heat", "--yes").exit_code == 0
    assert list(RUNS_FOLDER.iterdir()) == [Path(RUNS_FOLDER) / "other"]
    assert answers_of(other)["calls"] is not None
    if url.startswith("postgresql"):
        engine = open_for_reading(url)
        assert stored_runs(engine) == []
        engine.dispose()


def test_files_of_the_user_stay_when_a_run_is_deleted(made: MadeRun) -> None:
    run = made.directory
    mine = [run.path / "notes.txt", run.trace / "mine.bp" / "data.0", run.logs / "notes.txt"]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    result = runs("delete", "heat", "--yes")
    assert result.exit_code == 0
    assert "holds files that are not the run's; they stay" in result.stderr
    assert sorted(path for path in run.path.rglob("*") if path.is_file()) == sorted(mine)
    assert done()["runs"] == []


def test_no_link_is_followed_when_a_run_is_deleted(made: MadeRun, tmp_path: Path) -> None:
    run = made.directory
    precious = tmp_path / "precious" / "theirs.log"
    precious.parent.mkdir()
    precious.write_text("theirs")
    shutil.rmtree(run.logs, ignore_errors=True)
    run.logs.symlink_to(precious.parent)
    assert runs("delete", "heat", "--yes").exit_code == 0
    assert precious.read_text() == "theirs"


def test_a_run_is_not_deleted_unasked(made: MadeRun) -> None:
    assert "give --yes" in refused("delete", "heat")
    before = answers_of(made.directory)
    # On a terminal it asks.
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "chimbuko", "runs", "delete", "heat"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    while b"[y/N]" not in said:
        said += os.read(ours, 1000)
    assert str(made.directory.path).encode() in said
    os.write(ours, b"n\n")
    assert process.wait() == 1
    os.close(ours)
    assert answers_of(made.directory) == before


def test_rows_without_a_folder_can_be_deleted(made: MadeRun, postgresql_url: str) -> None:
    run_id = made.directory.read_info().id
    move_to(made.directory, postgresql_url)
    assert "0 runs of the store have this name" in refused(
        "delete", "--store", postgresql_url, "--yes", "never"
    )
    assert runs("delete", "--store", postgresql_url, "--yes", run_id).exit_code == 0
    assert done("list", "--store", postgresql_url)["runs"] == []


def test_no_link_is_followed_that_takes_the_place_of_a_folder_meanwhile(
    made: MadeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, found = made.directory, lifecycle._files_of
    precious = tmp_path / "home" / "precious"
    precious.parent.mkdir()
    precious.write_text("mine")
    left = run.rescued("node7") / "deep"
    left.mkdir(parents=True)
    (left / "precious").write_text("")

    def swapped(of: RunDirectory, patterns: Iterable[str]) -> set[Path]:
        """What was found, before whose folder it is puts a link there."""
        paths = found(of, patterns)
        left.rename(tmp_path / "moved")
        left.symlink_to(precious.parent)
        return paths

    monkeypatch.setattr(lifecycle, "_files_of", swapped)
    assert "deep/precious: cannot be removed" in refused("delete", "heat", "--yes")
    assert precious.read_text() == "mine"


def test_rows_of_another_run_stay_whatever_a_folder_says(
    made: MadeRun, postgresql_url: str, tmp_path: Path
) -> None:
    """A description that somebody else wrote, with the names of ours."""
    run = made.directory
    foreign = RunDirectory(tmp_path / "foreign")
    foreign.path.mkdir()
    info = msgspec.structs.replace(run.read_info(), name="foreign")
    foreign.write_info(info)
    assert runs("delete", "--yes", str(foreign.path)).exit_code == 0
    assert run.store_path.exists() and len(answers_of(run)) > 0
    foreign.path.mkdir()
    move_to(run, postgresql_url)
    foreign.write_info(msgspec.structs.replace(info, store_url=public_url(postgresql_url)))
    foreign.store_url_path.write_text(postgresql_url)
    said = refused("delete", "--yes", str(foreign.path))
    assert f"are those of {run.path.resolve()}; if it was moved" in said and "runs delete --store" in said
    assert [one["id"] for one in done("list", "--store", postgresql_url)["runs"]] == [info.id]
    assert runs("delete", "heat", "--yes").exit_code == 0
    assert runs("delete", "--yes", str(foreign.path)).exit_code == 0


def test_a_run_whose_server_is_away_is_not_deleted_by_half(made: MadeRun, postgresql_url: str) -> None:
    run = made.directory
    move_to(run, postgresql_url)
    run.write_store_url("postgresql://nobody@127.0.0.1:1/none")
    assert "cannot be reached" in refused("delete", "heat", "--yes")
    run.store_url_path.write_text(postgresql_url)
    assert runs("delete", "heat", "--yes").exit_code == 0


def test_a_run_goes_to_another_machine_as_one_file(run: RunDirectory) -> None:
    wanted = answers_of(run)
    archived = done("archive", "heat", "-o", "heat.tar.xz")
    assert archived["size_bytes"] == Path("heat.tar.xz").stat().st_size
    assert "this run is here already" in refused("import", "heat.tar.xz")
    unpacked = done("import", "heat.tar.xz", "--output", "elsewhere/heat")
    assert unpacked["folder"] == str(Path("elsewhere/heat").absolute())
    assert answers_of(RunDirectory(Path("elsewhere/heat"))) == wanted
    assert "the folder of a run already" in refused("import", "elsewhere/heat")


def test_an_archive_can_go_into_postgresql(made: MadeRun, postgresql_url: str) -> None:
    wanted = answers_of(made.directory)
    done("archive", "heat", "-o", "heat.tar.xz")
    words = ["import", "heat.tar.xz", "--output", "elsewhere/heat", "--store", postgresql_url]
    result = runs(*words)
    assert result.exit_code == 0, result.output
    assert "hush" not in result.output
    assert answers_of(RunDirectory(Path("elsewhere/heat"))) == wanted
    assert "this run is here already" in refused(*words)
    assert [listed["name"] for listed in done("list", "--store", postgresql_url)["runs"]] == ["heat"]


def test_records_of_the_other_chimbuko_become_a_run(made: MadeRun, postgresql_url: str) -> None:
    with open_run(made.directory) as provenance:
        export(provenance, "v2", Path("records"), ALL)
    imported = done("import", "records")
    anomalies = [record for record in made.anomalies if record.step < STEPS]
    assert imported["anomalies"] == len(anomalies)
    with open_run(RunDirectory(RUNS_FOLDER / "records")) as provenance:
        assert {call.id for call in provenance.calls.page(ALL, limit=1000).calls} >= {r.id for r in anomalies}
    words = ["import", "records", "--output", "elsewhere/records", "--store", postgresql_url]
    assert done(*words)["anomalies"] == len(anomalies)
    elsewhere = RunDirectory(Path("elsewhere/records"))
    assert answers_of(elsewhere) == answers_of(RunDirectory(RUNS_FOLDER / "records"))
    assert "hush" not in elsewhere.info_path.read_text()
    Path("nothing").mkdir()
    assert "neither a whole archive of a run nor" in refused("import", "nothing")


def test_calls_are_pruned_by_rule(made: MadeRun) -> None:
    run = made.directory
    assert "say what goes" in refused("prune", "heat")
    assert "not an age" in refused("prune", "heat", "--older-than", "never")
    anomalies = [record for record in made.anomalies if record.step < STEPS]
    middle_us = sorted(record.severity_us for record in anomalies)[len(anomalies) // 2]
    words = ["prune", "heat", "--below", f"{middle_us}us", "--older-than", "1d"]
    before = answers_of(run)
    would = done(*words, "--dry-run")
    assert answers_of(run) == before
    pruned = done(*words)
    assert pruned == would | {"dry_run": False}
    gone = [record for record in anomalies if record.severity_us < middle_us]
    assert sum(function["anomalies"] for function in pruned["functions"]) == len(gone) > 0
    with open_run(run) as provenance:
        page = provenance.calls.page(ALL, limit=1000)
        left = {call.id for call in page.calls if call.label is Label.ANOMALY}
    assert left == {record.id for record in anomalies} - {record.id for record in gone}
    result = runs(*words)
    assert "0 abnormal and 0 normal calls removed" in result.stderr
    # Nothing is so old.
    assert done("prune", "heat", "--older-than", "100000w", "--below", "1000s")["functions"] == []
    assert done()["runs"][0]["anomalies"] == sum(stream.anomalies for stream in made.health(STEPS))


def test_a_vacuum_gives_back_room(run: RunDirectory) -> None:
    before = answers_of(run)
    done("prune", "heat", "--keep", "1")
    pruned = answers_of(run)
    vacuumed = done("vacuum", "heat")
    # PostgreSQL keeps the room for what comes, and notes where it is.
    assert vacuumed["bytes_after"] > 0
    if run.store_path.exists():
        assert vacuumed["bytes_after"] < vacuumed["bytes_before"]
        assert vacuumed["bytes_after"] == run.store_path.stat().st_size
    assert answers_of(run) == pruned
    assert pruned["steps"] == before["steps"]


def test_a_locked_store_is_said_to_be_locked(made: MadeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BUSY_TIMEOUT_S", 0.01)
    holder = sqlite3.connect(made.directory.store_path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    for words in (["rename", "heat", "other"], ["prune", "heat", "--keep", "1"], ["vacuum", "heat"]):
        assert "held by another program" in refused(*words)
    holder.close()
    assert made.directory.read_info().name == "heat"


def test_a_full_disk_leaves_runs_as_they_are(small_disk: Path, made: MadeRun) -> None:
    done("archive", "heat", "-o", "heat.tar.xz")
    (small_disk / "heat").mkdir()
    done("import", "heat.tar.xz", "--output", str(small_disk / "heat"))
    run = RunDirectory(small_disk / "heat")
    before = answers_of(run)
    filler = small_disk / "filler"
    filler.touch()
    room = os.statvfs(small_disk)
    filler.write_bytes(bytes(room.f_bavail * room.f_frsize - 40_000))
    assert "are free; make room there" in refused("vacuum", str(run.path))
    refused("archive", str(run.path), "-o", str(small_disk / "again.tar.xz"))
    refused("import", "heat.tar.xz", "--output", str(small_disk / "other" / "heat"))
    assert answers_of(run) == before
    assert sorted(path.name for path in small_disk.iterdir()) in (
        ["filler", "heat"],
        ["filler", "heat", "other"],
    )
    assert runs("delete", str(run.path), "--yes").exit_code == 0


SLOWLY = """
import os, sys, time
from chimbuko.provenance.manage import pruning
from chimbuko.cli import main

pruning.AT_ONCE = 3
main(["runs", *sys.argv[1:]])
"""


def killed(words: list[str], until: Any) -> None:
    """Start a command, and kill it as soon as something has happened."""
    process = subprocess.Popen([sys.executable, "-c", SLOWLY, *words], stdout=subprocess.DEVNULL)
    while not until() and process.poll() is None:
        time.sleep(0.0005)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.thorough
def test_a_killed_prune_is_finished_when_it_is_repeated(made: MadeRun, template: MadeRun) -> None:
    run, twin = made.directory, RunDirectory(RUNS_FOLDER / "twin")
    shutil.copytree(template.directory.path, twin.path)
    words = ["--keep", "5"]
    done("prune", str(twin.path), *words)

    def has_begun() -> bool:
        with open_run(run) as provenance:
            return provenance.calls.count(ALL) < calls

    with open_run(run) as provenance:
        calls = provenance.calls.count(ALL)
    killed(["prune", "heat", *words], has_begun)
    done("prune", "heat", *words)
    assert answers_of(run)["calls"] == answers_of(twin)["calls"]
    assert answers_of(run)["steps"] == answers_of(twin)["steps"]


def test_a_killed_deletion_is_finished_when_it_is_repeated(made: MadeRun, postgresql_url: str) -> None:
    run = made.directory
    move_to(run, postgresql_url)
    for number in range(500):
        (run.logs / f"agent-{number}.log").write_text("")
    first = run.logs / "agent-0.log"
    killed(["delete", "heat", "--yes"], lambda: not first.exists())
    if run.info_path.exists():
        assert [listed["name"] for listed in done()["runs"]] == ["heat"]
        assert runs("delete", "heat", "--yes").exit_code == 0
    assert not run.path.exists()
