"""What goes wrong is said in one line, with the right exit code, and what was found is kept."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.calldata import no_loss
from tests.integration.conftest import STAND_IN, Command, Outcome, Run, Start
from tests.places import EXAMPLES
from tests.thorough import first


def complaint(run: Run) -> str:
    """The one line in which a run that did not begin says why."""
    said = [line for line in run.lines if line.startswith("chimbuko: ")]
    assert len(said) == 1, run.output
    assert "Traceback" not in run.output
    return said[0]


def test_missing_stream(start: Start, tmp_path: Path) -> None:
    run = start("--trace", tmp_path / "none-*.bp")
    assert run.end() == 3
    assert "no trace stream matches" in complaint(run)


def test_folder_that_is_no_bp_file(start: Start, tmp_path: Path) -> None:
    stream = tmp_path / "tau-metrics-app-0.bp"
    stream.mkdir()
    (stream / "md.idx").write_bytes(b"not an index")
    run = start("--trace", stream)
    assert run.end() == 3, run.output
    assert "tau-metrics-app-0.bp" in run.output
    assert "Traceback" not in run.output


def test_truncated_file_keeps_what_was_found(start: Start, heat4: Path, tmp_path: Path) -> None:
    for stream in heat4.glob("*.bp"):
        shutil.copytree(stream, tmp_path / stream.name)
    broken = tmp_path / "tau-metrics-heat2d-2.bp"
    os.truncate(broken / "data.0", (broken / "data.0").stat().st_size * 2 // 3)
    run = start("--trace", tmp_path / "*.bp")
    assert run.end() == 0, run.output
    states = {stream.rank: stream.state for stream in run.health}
    assert states == {0: "ended", 1: "ended", 2: "broken", 3: "ended"}
    assert "the end of 1 stream (0:2)" in run.output
    assert {call.rank for call in run.anomalies} >= {0, 1, 3}


def test_stream_without_its_metadata(start: Start, heat4: Path, tmp_path: Path) -> None:
    broken = tmp_path / "tau-metrics-heat2d-2.bp"
    shutil.copytree(heat4 / broken.name, broken)
    os.truncate(broken / "md.0", (broken / "md.0").stat().st_size // 2)
    run = start("--trace", broken)
    assert run.end() == 3
    assert "tau-metrics-heat2d-2.bp" in complaint(run)


def test_run_goes_on_without_streams_that_cannot_be_opened(start: Start, heat4: Path, tmp_path: Path) -> None:
    for stream in heat4.glob("*-[012].bp"):
        shutil.copytree(stream, tmp_path / stream.name)
    no_metadata, crashing = (tmp_path / f"tau-metrics-heat2d-{rank}.bp" for rank in (1, 2))
    os.truncate(no_metadata / "md.0", 1000)
    # ADIOS2 reads behind the end of it.
    os.truncate(crashing / "mmd.0", 900)
    run = start("--trace", tmp_path / "*.bp")
    assert run.end() == 0, run.output
    assert [(stream.rank, stream.state) for stream in run.health] == [(0, "ended")]
    for stream in (no_metadata, crashing):
        assert run.wait_for_line(f"Problem: {stream}: ").endswith("; left out")


def test_unwritable_output(start: Start, heat4: Path, tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    run = start("--trace", heat4 / "*.bp", "--output", occupied / "run")
    assert run.end() == 2
    assert "run folder cannot be written" in complaint(run)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 0.4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("room", ["size=300k", "size=16m,nr_inodes=16"])
def test_a_disk_that_has_no_room_beside_a_program_keeps_what_was_found_for_later(
    start: Start, small_disk: Path, tmp_path: Path, command: Callable[..., Command], room: str
) -> None:
    subprocess.run(["mount", "-o", f"remount,{room}", small_disk], check=True)
    program = tmp_path / "program.py"
    program.write_text(
        "import time\ndef work(): time.sleep(0.01)\nfor _ in range(200): work()\nraise SystemExit(7)"
    )
    traced = [sys.executable, "-m", "chimbuko", "trace", program]
    run = start("--output", small_disk / "run", "--", *traced)
    assert run.end() == 7
    assert "Traceback" not in run.output and "ended early" not in run.output
    words = "chimbuko runs deliver "
    folder, kept = map(Path, run.wait_for_line(words).partition(words)[2].split())
    subprocess.run(["mount", "-o", "remount,size=16m,nr_inodes=500", small_disk], check=True)
    delivered = command("runs", "deliver", folder, kept)
    assert delivered.end() == 0, delivered.output
    shutil.rmtree(kept)


@pytest.mark.thorough
def test_full_disk_keeps_what_was_found_for_later(
    start: Start, heat4: Path, heat4_live: Outcome, small_disk: Path, command: Callable[..., Command]
) -> None:
    run = start("--trace", heat4 / "*.bp", "--output", small_disk / "run")
    assert run.end() == 4
    assert "Traceback" not in run.output
    assert f"the disk of {small_disk / 'run'} is full" in run.output
    reported = [line for line in run.lines if line.startswith("Problem: ") and "free some space" in line]
    assert len(reported) == 1, run.output
    words = "chimbuko runs deliver "
    folder, kept = map(Path, run.wait_for_line(words).partition(words)[2].split())
    run.folder = folder
    assert run.ids < heat4_live.ids
    subprocess.run(["mount", "-o", "remount,size=16m", small_disk], check=True)
    delivered = command("runs", "deliver", folder, kept)
    assert delivered.end() == 0, delivered.output
    assert run.ids == heat4_live.ids
    shutil.rmtree(kept)


def test_occupied_port(start: Start) -> None:
    with socket.socket() as occupier:
        occupier.bind(("127.0.0.1", 0))
        occupier.listen()
        port = occupier.getsockname()[1]
        run = start("--port", str(port), "--", "true")
        assert run.end() == 4
    assert str(port) in complaint(run)
    assert not run.folder.exists()


@pytest.mark.parametrize(
    ("command", "code", "words"),
    first(1, [("no-such-program", 127, "no such command"), (str(EXAMPLES), 126, "cannot be run")]),
)
def test_command_that_cannot_be_started(start: Start, command: str, code: int, words: str) -> None:
    run = start("--no-dashboard", "--", command)
    assert run.end() == code
    assert words in complaint(run)
    assert not run.folder.exists()


def test_exit_code_is_the_applications(start: Start) -> None:
    run = start("--no-dashboard", "--", sys.executable, "-c", "raise SystemExit(7)")
    assert run.end() == 7
    assert run.info.exit_code == 7
    assert "No trace stream appeared: the program ended with exit code 7 before anything of it" in run.output


def test_program_without_mpi_under_t_mpi_has_no_stream_and_is_told_why(start: Start) -> None:
    words = ["env", "STAND_IN_WITHOUT_MPI=1", *STAND_IN, "-T", "mpi,pthread", "-adios2_trace", "true"]
    run = start("--no-dashboard", "--", *words)
    assert run.end() == 0
    assert "not linked with MPI needs 'tau_exec -T serial,pthread" in run.output
    assert not no_loss(run.output)


def test_stream_that_never_opens_is_counted(start: Start) -> None:
    """A contact file without a writer behind it."""
    # At once, as a writer does: a contact file whose time changes is that of another program.
    contact = "$TAU_ADIOS2_FILENAME-app-3.bp.sst"
    made = f'touch "{contact}.new" && mv "{contact}.new" "{contact}"'
    script = f"{made}; sleep 1; exit 6"
    run = start("--no-dashboard", "--", "sh", "-c", script)
    assert run.end() == 6, run.output
    assert [(stream.rank, stream.state, stream.rows) for stream in run.health] == [(3, "broken", 0)]
    assert "the end of 1 stream (0:3)" in run.output


def test_killed_application_keeps_what_was_found(start: Start) -> None:
    program = [sys.executable, EXAMPLES / "heat.py", "--traced", "--iterations", "100000"]
    run = start("--period", "0.2", "--no-dashboard", "--", *program)
    run.wait_for_line("heat: seed")
    run.wait_until(lambda: run_has_steps(run), pause_s=0.1)
    for pid in run.processes("heat.py"):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert run.end() == 128 + signal.SIGKILL, run.output
    assert run.info.exit_code == 128 + signal.SIGKILL
    assert sum(stream.calls for stream in run.health) > 0


def test_interrupted_run_ends_in_order(start: Start) -> None:
    run = start(
        "--no-dashboard", "--", sys.executable, EXAMPLES / "heat.py", "--traced", "--iterations", "100000"
    )
    run.wait_for_line("heat: seed")
    run.interrupt()
    assert run.end() != 0
    assert run.info.state == "interrupted"
    assert run.processes("chimbuko") == []


def run_has_steps(run: Run) -> bool:
    """Whether every rank of a live run has stored a step."""
    return len([stream for stream in run.health_so_far if stream.steps > 1]) == 4
