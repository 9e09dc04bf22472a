"""``chimbuko doctor``: what it finds here, and what it makes of machines that lack something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from chimbuko.cli import main
from chimbuko.cli.maintain.doctor import MOST_STEPS
from chimbuko.core.config import AnalysisConfig
from chimbuko.launcher import checkup
from chimbuko.launcher.checkup import (
    Finding,
    check_broker,
    check_folder,
    check_followed,
    check_network,
    check_recorder,
    check_shield,
    check_tau,
    check_up,
)
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE
from chimbuko.runtime.runs.directory import new_run
from chimbuko.runtime.runs.namedstores import STORE_VARIABLE

TAU_EXEC = "#!/bin/sh\ncase $1 in -adios2_trace) ;; esac\n"


def doctor(*options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "chimbuko", "doctor", *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )


def test_this_machine_is_fit(tmp_path: Path) -> None:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    checked = doctor("--json", "--output", str(tmp_path / "not" / "there" / "yet"), PATH=path)
    findings = {finding["about"]: finding for finding in json.loads(checked.stdout)}
    assert checked.returncode == 0, checked.stdout
    of_streams = ["ADIOS2", "sst shield", "recorder", "TAU", "run folder", "scratch", "node-local memory"]
    assert list(findings) == [*of_streams, "machine", "kernels", "network", "own broker", "cores"]
    assert not [finding for finding in findings.values() if finding["state"] == "problem"]
    assert "streams over SST" in findings["ADIOS2"]["text"]
    recorder = findings["recorder"]["text"]
    assert "/libmpi.so" in recorder and "a program was recorded with it" in recorder
    assert list(tmp_path.iterdir()) == []


def test_problems_have_a_line_each_a_code_and_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "a-secret-word"
    monkeypatch.setenv(BROKER_VARIABLE, f"redis://:{secret}@127.0.0.1:1")
    monkeypatch.setenv(STORE_VARIABLE, f"postgresql://user:{secret}@127.0.0.1:1/runs")
    for name in ("check_streaming", "check_shield", "check_recorder", "check_kernels"):
        monkeypatch.setattr(checkup, name, lambda: Finding("a costly check", "ok", ""))
    checked = CliRunner().invoke(main, ["doctor", "--bind", "no-such-interface.invalid"])
    assert checked.exit_code == 1
    states = {line.split()[0]: line for line in checked.stdout.splitlines()}
    assert "problem" in states
    problems = [line for line in checked.stdout.splitlines() if line.startswith("problem")]
    assert [line.split(":")[0].split()[-1] for line in problems] == ["network", "broker", "store"]
    assert secret not in checked.stdout + checked.stderr


def test_tau_as_it_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tau" / "x86_64"
    (folder / "bin").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(folder / "bin"))
    assert "no tau_exec" in check_tau().text
    command = folder / "bin" / "tau_exec"
    command.write_text(TAU_EXEC)
    command.chmod(0o755)
    without = check_tau()
    assert without.state == "warning" and "without ADIOS2" in without.text
    plugin = folder / "lib" / "shared-mpi-pthread-adios2" / checkup.PLUGIN
    plugin.parent.mkdir(parents=True)
    plugin.touch()
    found = check_tau()
    assert found.state == "ok" and "shared-mpi-pthread-adios2" in found.text
    assert "without MPI leaves no stream" in found.advice
    (plugin.parent.parent / "shared-pthread-adios2").symlink_to(plugin.parent)
    assert "-T serial,pthread for others" in check_tau().advice
    plugin.unlink()
    plugin.parent.rmdir()
    (plugin.parent.parent / "shared-pthread-adios2").unlink()
    plugin = folder / "lib" / "shared-pthread-adios2" / checkup.PLUGIN
    plugin.parent.mkdir()
    plugin.touch()
    assert "one with MPI needs" in check_tau().advice


def test_folders_on_a_network_or_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_folder("scratch", tmp_path, is_scratch=True).state == "ok"
    monkeypatch.setattr(checkup, "is_on_network", lambda folder: True)
    assert check_folder("scratch", tmp_path, is_scratch=True).state == "warning"
    assert check_folder("run folder", tmp_path, is_scratch=False).state == "ok"
    monkeypatch.setattr(checkup, "SPOOL_BYTES", 1 << 60)
    assert "make room" in check_folder("scratch", tmp_path, is_scratch=True).advice


def test_where_followed_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "MEMORY", tmp_path / "none")
    on_disk = check_followed(tmp_path)
    assert on_disk.state == "ok" and on_disk.text.startswith(f"followed files go to {tmp_path}, ")
    assert f"{tmp_path / 'none'}: there is no such folder" in on_disk.text
    nowhere = check_followed(tmp_path / "neither")
    assert nowhere.state == "warning" and "--transport sst" in nowhere.advice
    assert nowhere.text.count("there is no such folder") == 2


def test_the_recorder_without_any_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    without = check_recorder()
    assert without.state == "warning" and "no-such-compiler not found" in without.text


def test_the_shield_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert check_shield().state == "ok"
    monkeypatch.setenv("CC", "no-such-compiler")
    without = check_shield()
    assert without.state == "warning" and "no-such-compiler not found" in without.text


def test_addresses() -> None:
    assert check_network("lo").state == "warning"
    assert check_network("127.0.0.1").state == "ok"
    assert check_network("192.0.2.1").state == "problem"


def test_a_check_that_fails_is_a_problem_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> Finding:
        raise OSError("it does not work")

    for name in ("check_streaming", "check_shield", "check_recorder", "check_kernels", "check_own_broker"):
        monkeypatch.setattr(checkup, name, fails)
    findings = check_up(tmp_path, tmp_path, "127.0.0.1", None, None)
    failed = [finding.about for finding in findings if finding.text == "it does not work"]
    assert failed == ["ADIOS2", "sst shield", "recorder", "kernels", "own broker"]
    assert len(findings) == 11


def test_what_the_processes_of_a_run_did_last_is_printed(tmp_path: Path) -> None:
    run = new_run(tmp_path / "heat", ["true"], AnalysisConfig(), None)
    ask = ["doctor", "--run", str(run.path)]
    assert "no stories yet" in CliRunner().invoke(main, ask).output
    steps = [f"step {number}" for number in range(2 * MOST_STEPS)]
    (run.logs / "pserver.story").write_text("\n".join([*steps, "an escape: \x1b"]))
    printed = CliRunner().invoke(main, ask)
    lines = printed.output.splitlines()
    assert (printed.exit_code, len(lines)) == (0, 1 + MOST_STEPS)
    assert lines[0].startswith("pserver, ")
    assert lines[-2:] == [f"  {steps[-1]}", "  an escape: \\x1b"]
    as_json = json.loads(CliRunner().invoke(main, [*ask, "--json"]).output)
    assert as_json == {"pserver": [*steps[1 - MOST_STEPS :], "an escape: \x1b"]}


def test_a_broker_that_answers(tmp_path: Path) -> None:
    with PrivateBroker(tmp_path / "broker.log") as broker:
        assert "answers in" in check_broker(broker.url).text
