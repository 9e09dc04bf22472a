"""The folder of a run."""

from __future__ import annotations

import gzip
import os
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from chimbuko.core.config import AnalysisConfig
from chimbuko.core.errors import ConfigError
from chimbuko.runtime.runs.directory import RUNS_FOLDER, RunDirectory, kept_token, new_run, write_secret
from chimbuko.runtime.runs.finding import find_run

COMMAND = ["mpirun", "-n", "4", "./heat"]


def test_a_new_run_says_what_it_is(tmp_path: Path) -> None:
    config = AnalysisConfig(threshold=8.0, watched_counters=("power",))
    run = new_run(tmp_path / "heat", COMMAND, config, None)
    info = run.read_info()
    assert (info.name, info.command, info.state, info.config) == ("heat", COMMAND, "running", config)
    assert info.store_url == f"sqlite:///{tmp_path / 'heat' / 'provenance.sqlite'}"
    assert (info.exit_code, info.ended_us) == (None, 0)
    assert run.logs.is_dir() and run.trace.is_dir() and run.settings.is_dir()


def test_info_is_replaced_whole(tmp_path: Path) -> None:
    run = new_run(tmp_path / "heat", COMMAND, AnalysisConfig(), "postgresql://store/runs")
    ended = msgspec.structs.replace(run.read_info(), state="finished", exit_code=3)
    run.write_info(ended)
    assert run.read_info() == ended
    assert list(run.path.glob("*.tmp")) == []


def test_a_folder_holds_one_run(tmp_path: Path) -> None:
    new_run(tmp_path / "heat", COMMAND, AnalysisConfig(), None)
    with pytest.raises(ConfigError, match="holds a run already; choose another with --output"):
        new_run(tmp_path / "heat", COMMAND, AnalysisConfig(), None)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file/heat: run folder cannot be written .*--output"):
        new_run(tmp_path / "file" / "heat", COMMAND, AnalysisConfig(), None)


def test_the_newest_run_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="make one with 'chimbuko run'"):
        find_run(None)
    for name, started_us in (("b", 10), ("a", 30), ("c", 20)):
        run = new_run(RUNS_FOLDER / name, COMMAND, AnalysisConfig(), None)
        run.write_info(msgspec.structs.replace(run.read_info(), started_us=started_us))
    assert find_run(None).path == tmp_path / RUNS_FOLDER / "a"
    assert find_run(RUNS_FOLDER / "c").read_info().started_us == 20


def test_a_start_that_failed_is_not_the_newest_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for started_us, (name, exit_code, trace_bytes) in enumerate([("ran", 127, 9), ("absent", 127, 0)]):
        run = new_run(RUNS_FOLDER / name, COMMAND, AnalysisConfig(), None)
        ended = msgspec.structs.replace(
            run.read_info(), started_us=started_us, exit_code=exit_code, trace_bytes=trace_bytes
        )
        run.write_info(ended)
    assert find_run(None).path.name == "ran"
    assert find_run(Path("absent")).path.name == "absent"


def test_a_run_is_found_by_folder_name_or_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runs = {name: new_run(RUNS_FOLDER / name, COMMAND, AnalysisConfig(), None) for name in ("a", "b", "c")}
    for name, called in (("a", "heat"), ("b", "twice"), ("c", "twice")):
        runs[name].write_info(msgspec.structs.replace(runs[name].read_info(), name=called))
    for given in ("a", "heat", runs["a"].read_info().id):
        assert find_run(Path(given)) == runs["a"]
    with pytest.raises(
        ConfigError, match=r"twice: 2 runs have this name; give a folder instead: /.*/b, /.*/c"
    ):
        find_run(Path("twice"))
    with pytest.raises(ConfigError, match="not the folder of a run"):
        find_run(Path("d"))


@pytest.mark.parametrize(
    ("content", "message"), [(None, "it has no run.json"), (b"{", "not readable"), (b"{}", "not readable")]
)
def test_what_is_not_a_run_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        find_run(tmp_path)


def test_a_folder_of_somebody_else_keeps_no_reader_for_ever(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run", ["./app"], AnalysisConfig(), None)
    asked = (
        *((run.info_path, run.read_info), (run.report_path, run.read_report)),
        *((run.broker_path, run.read_broker_url), (run.programs_path, run.read_programs)),
    )
    for path, ask in asked:
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        with suppress(ConfigError, OSError):
            assert not ask()


def test_secrets_are_for_the_owner_only_and_never_half_written(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run", ["app"], AnalysisConfig(), None)
    run.broker_path.write_text("an older, much longer text that anybody can read")
    run.broker_path.chmod(0o644)
    before = os.umask(0)
    try:
        run.write_broker_url("redis://:secret@127.0.0.1:1/0")
    finally:
        os.umask(before)
    assert run.broker_path.stat().st_mode & 0o777 == 0o600
    assert run.read_broker_url() == "redis://:secret@127.0.0.1:1/0"
    assert not run.broker_path.with_suffix(".tmp").exists()


def test_a_run_without_a_broker_has_ended(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run", ["app"], AnalysisConfig(), None)
    with pytest.raises(ConfigError, match="the run has ended"):
        run.read_broker_url()


def test_a_report_is_there_and_whole_or_cannot_be_read(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    with pytest.raises(FileNotFoundError):
        run.read_report()
    run.report_path.write_bytes(gzip.compress(b"[]"))
    assert run.read_report() == b"[]"
    run.report_path.write_bytes(gzip.compress(b"[]")[:-9])
    with pytest.raises(OSError, match=r"report.json.gz: damaged"):
        run.read_report()


def test_what_a_run_is_outlasts_a_loss_of_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, synced = new_run(tmp_path / "heat", COMMAND, AnalysisConfig(), None), []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(os.readlink(f"/proc/self/fd/{number}")))
    run.write_info(run.read_info())
    assert len(synced) == 2 and synced[1] == str(run.path)


def test_a_token_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = kept_token(path)
    assert len(token) >= 32 and path.stat().st_mode & 0o777 == 0o600
    assert kept_token(path) == token
    assert kept_token(path, "given") == "given" == kept_token(path)


def test_what_others_could_have_put_there_is_none(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "token", tmp_path / "elsewhere"
    path.write_text("planted")
    path.chmod(0o644)
    assert kept_token(path) != "planted" and path.stat().st_mode & 0o777 == 0o600
    write_secret(elsewhere, "planted")
    path.unlink()
    path.symlink_to(elsewhere)
    assert kept_token(path) != "planted"
    assert elsewhere.read_text() == "planted" and not path.is_symlink()


def test_where_none_can_be_kept_there_is_a_new_one_each_time(tmp_path: Path) -> None:
    path = tmp_path / "no such folder" / "token"
    assert kept_token(path) != kept_token(path)
