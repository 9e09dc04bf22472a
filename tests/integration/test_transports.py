"""What is promised of a live run over either transport: short programs, kept traces, and no room."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chimbuko.launcher.liverun import TOO_LATE
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.calldata import no_loss
from tests.capture.follow.streams import wait_until
from tests.integration.beside import (
    begin,
    check,
    kill,
    kill_readers,
    stop_agent_for_good,
)
from tests.integration.conftest import AGENT, STAND_IN, Command, Outcome, Start
from tests.integration.marked import RANKS, STEPS
from tests.integration.test_recorded import f1
from tests.thorough import first

TRIES = 3

PROGRAM = """
import sys, time

def work():
    time.sleep(0.01)

for _ in range(int(sys.argv[1])):
    work()
"""


def in_python(folder: Path, seconds: float) -> list[str]:
    (folder / "program.py").write_text(PROGRAM)
    return [sys.executable, "-m", "chimbuko", "trace", str(folder / "program.py"), str(int(seconds * 100))]


def under_tau(folder: Path, seconds: float) -> list[str]:
    return [*map(str, STAND_IN), "-T", "mpi,pthread", "-adios2_trace", "sleep", str(seconds)]


@pytest.mark.parametrize(
    ("transport", "program"),
    first(2, [("files", in_python), ("sst", under_tau), ("files", under_tau), ("sst", in_python)]),
)
@pytest.mark.parametrize("turn", first(1, range(1, 11)))
def test_short_program_is_seen_or_its_loss_is(
    turn: int,
    transport: str,
    program: Callable[[Path, float], list[str]],
    start: Start,
    tmp_path: Path,
) -> None:
    seconds = turn % 4 / 3
    run = start("--transport", transport, "--no-dashboard", "--", *program(tmp_path, seconds))
    assert run.end() == 0, run.output
    calls = sum(stream.calls for stream in run.health)
    # On a busy machine some of them are slow.
    seen = rf"^\d+ anomal\w+ among {calls:,} calls of 1 rank"
    assert TOO_LATE in run.output or re.search(seen, run.output, re.MULTILINE), run.output
    if transport == "files" or (program is in_python and no_loss(run.output)):
        assert [(s.state, s.gap_steps, s.losses) for s in run.health] == [("ended", 0, {})], run.output
        assert no_loss(run.output)
    if transport == "files" and program is in_python:
        # The program itself, its module, and what it calls.
        assert calls == 2 + int(seconds * 100)
    assert calls > 0 or not no_loss(run.output), run.output


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("transport", "pace", "least"), first(0, [("files", "4", 0.9), ("files", "1", 0.95), ("sst", "1", 0.95)])
)
def test_live_flags_agree_with_lockstep(
    transport: str, pace: str, least: float, heat4: Path, heat4_run: Outcome, start: Start
) -> None:
    """Live, an agent that is late judges by what it knows itself: so a machine that is too busy may have
    two more tries."""
    agreement = 0.0
    for _ in range(TRIES):
        options = ["--transport", transport, "--pace", pace, "--agents", "4", "--no-dashboard"]
        run = start("--replay", heat4 / "*.bp", *options)
        assert run.end() == 0, run.output
        assert run.info.transport == transport
        assert sum(s.rows for s in run.health) == sum(s.rows for s in heat4_run.health)
        assert no_loss(run.output)
        # One record per flag.
        assert len(run.ids) == len(run.anomalies) == sum(s.anomalies for s in run.health)
        agreement = max(agreement, f1(run.ids, heat4_run.ids))
        print(f"F1 of live and lockstep flags over {transport}, {pace} times as fast: {agreement:.3f}")
        if agreement >= least:
            return
    raise AssertionError(f"F1 is {agreement:.3f} at best")


def kept(run: Outcome) -> Path:
    """Pattern of the trace that a run has kept."""
    return RunDirectory(run.folder).trace / "*.bp"


def test_kept_trace_gives_the_flags_again(heat4: Path, heat4_run: Outcome, start: Start) -> None:
    options = ["--lockstep", "--pace", "max", "--transport", "files", "--keep-trace", "--no-dashboard"]
    run = start("--replay", heat4 / "*.bp", *options)
    assert run.end() == 0, run.output
    again = start("--trace", kept(run))
    assert again.end() == 0, again.output
    assert again.ids == run.ids == heat4_run.ids
    assert again.paths == heat4_run.paths


@pytest.mark.thorough
def test_kept_trace_is_whole_whoever_is_killed(
    start: Start, command: Callable[..., Command], tmp_path: Path
) -> None:
    """It is also made ready for the timeline."""
    application = begin(start, tmp_path, streams=2, seconds=12, options=["--keep-trace"])
    kill_readers(application)
    kill(AGENT)(application)
    check(application)
    again = start("--trace", kept(application.run))
    assert again.end() == 0, again.output
    for live, offline, process in zip(
        application.run.health, again.health, application.reported, strict=True
    ):
        assert (offline.steps, offline.rows) == (process["steps"], process["rows"])
        assert (offline.state, offline.calls) == ("ended", live.calls)
    live_paths = {path: one.calls for path, one in application.run.paths.items()}
    assert live_paths == {path: one.calls for path, one in again.paths.items()}
    indexed = command("runs", "index", application.run.folder)
    assert indexed.end() == 0, indexed.output
    for stream in application.run.health:
        assert f"rank 0:{stream.rank}: {stream.calls:,} calls" in indexed.output


@pytest.mark.thorough
def test_trace_that_outgrows_its_limit_is_dropped_and_counted(start: Start, tmp_path: Path) -> None:
    """Nobody reads it for some seconds, in which it grows by 70 MB per stream."""
    application = begin(
        start,
        tmp_path,
        streams=2,
        seconds=8,
        environment={"STAND_IN_CALLS": "400"},
        options=["--trace-limit", "8MB"],
    )
    stop_agent_for_good(application)
    measured = application.measured()
    health = application.run.health
    for stream, process in zip(health, measured, strict=True):
        assert stream.steps + stream.gap_steps == process["steps"], application.run.output
        assert stream.gap_steps > 0
    gaps = sum(stream.gap_steps for stream in health)
    assert f"{gaps} steps dropped unread" in application.run.output
    assert "raise --trace-limit" in application.run.output


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system with too little room for a trace."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_folder_without_room_is_refused_before_anything_starts(
    start: Start, tiny: Path, tmp_path: Path
) -> None:
    run = start("--trace-dir", tiny, "--no-dashboard", "--", *in_python(tmp_path, 0.1))
    assert run.end() == 2
    assert f"no room for the trace: {tiny}: " in run.output
    assert "of the file system are free, 268 MB are wanted" in run.output
    assert not list(tiny.iterdir())


IN_NAMESPACE = """
mount --make-rprivate / && mount -t tmpfs -o size=64m none /dev/shm && exec "$@"
"""


@pytest.mark.parametrize("is_all_tiny", first(2, [False, True]))
def test_another_folder_is_taken_or_sst_where_there_is_no_room(is_all_tiny: bool, tmp_path: Path) -> None:
    """In a mount namespace, where the node's memory has little room; and nothing else has any."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    words = [sys.executable, "-m", "chimbuko", "run", "--output", tmp_path / "run", "--no-dashboard", "--"]
    words += in_python(tmp_path, 1.0)
    command = shlex.join(map(str, words))
    variables = f"TMPDIR={'/dev/shm' if is_all_tiny else elsewhere}"
    script = IN_NAMESPACE.replace('"$@"', f"env {variables} {command}")
    if shutil.which("unshare") is None or subprocess.run(["unshare", "--mount", "true"]).returncode:
        pytest.skip("no mount namespaces here")
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    outcome = Outcome(tmp_path / "run")
    if is_all_tiny:
        assert "the trace comes over SST, since there is no room for its files: /dev/shm: " in output
        assert outcome.info.transport == "sst"
    else:
        assert f"the trace goes to {elsewhere}: /dev/shm: " in output
        assert outcome.info.transport == "files"
        # The tracer's own process removes its folder when it has written the end of the stream.
        wait_until(lambda: not list(elsewhere.glob("chimbuko-*")))
    assert "of the file system are free, 268 MB are wanted" in output
    assert sum(stream.calls for stream in outcome.health) > 100


@pytest.mark.thorough
def test_statistics_of_kept_and_followed_trace_are_the_same(start: Start, marked: Path) -> None:
    """Each step counts once in what was learned, live and again."""
    options = ["--pace", "4", "--period", "0.2", "--keep-trace", "--transport", "files", "--no-dashboard"]
    run = start("--replay", marked / "*.bp", *options)
    assert run.end() == 0, run.output
    again = start("--trace", kept(run))
    assert again.end() == 0, again.output
    for outcome in (run, again):
        assert [(s.state, s.steps, s.gap_steps) for s in outcome.health] == [("ended", STEPS, 0)] * RANKS
        with open_run(RunDirectory(outcome.folder)) as provenance:
            assert provenance.dropped() == []
    assert {path: one.calls for path, one in run.paths.items()} == {
        path: one.calls for path, one in again.paths.items()
    }
