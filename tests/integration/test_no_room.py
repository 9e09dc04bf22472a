"""A full ``$TMPDIR``: the program does not notice, readers go on, and what is lost of it is said."""

from __future__ import annotations

import json
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from chimbuko.core.calls.record import NO_ROOM_STEPS, UNREAD_STREAMS, UNREADABLE_STREAMS
from chimbuko.core.units import number_of
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import AGENT, STAND_IN, Run, Start
from tests.integration.marked import RANKS
from tests.integration.smallroom import NotPermitted, SmallRoom, small_room
from tests.integration.test_faults import WHOLE, assert_nothing_lost
from tests.thorough import first

SIZE = "size=48m"
"""Room for two ranks, but not for very much more."""
NO_ROOM = "no room in $TMPDIR"
PROGRAM_CODE = 3
ONE_STREAM_BYTES = 1_800_000_000
LONGEST_STEP_S = 2.0
"""To write one takes milliseconds; who is held up waits until its reader goes on."""


@pytest.fixture(params=[SIZE])
def room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[SmallRoom]:
    """The folder for temporary files."""
    try:
        with small_room(tmp_path / "room", request.param) as mounted:
            monkeypatch.setenv("TMPDIR", str(mounted.path))
            yield mounted
    except NotPermitted as reason:
        pytest.skip(str(reason))


class Program:
    """Two ranks under the stand-in, which begin and end when they are told to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, start: Start, transport: str) -> Run:
        """Begin a run of it."""
        wait = f"until [ -e {self.folder}/end ]; do sleep 0.05; done"
        (self.folder / "program.sh").write_text(f"{wait}; exit {PROGRAM_CODE}")
        (self.folder / "ranks.sh").write_text(
            f"until [ -e {self.folder}/begin ]; do sleep 0.05; done\n"
            + "".join(
                f"export PMI_RANK={rank} STAND_IN_REPORT={self.folder}/report{rank}\n"
                f"{self._command} & rank{rank}=$!\n"
                for rank in (0, 1)
            )
            + "wait $rank0\nwait $rank1\nexit $?"
        )
        return start(
            *("--transport", transport, "--period", "0.1", "--no-dashboard"),
            *("--", "sh", self.folder / "ranks.sh"),
        )

    def begin(self) -> None:
        """Let it write."""
        (self.folder / "begin").touch()

    def end(self, run: Run) -> None:
        """Let it come to its end, which it does unharmed."""
        (self.folder / "end").touch()
        assert run.end() == PROGRAM_CODE, run.output
        assert all(max(report["held_s"]) < LONGEST_STEP_S for report in self.reports)
        assert all(report["close_s"] < LONGEST_STEP_S for report in self.reports)

    @property
    def reports(self) -> list[dict]:
        """What each rank has measured."""
        return [json.loads((self.folder / f"report{rank}").read_text()) for rank in (0, 1)]

    @property
    def _command(self) -> str:
        words = [*STAND_IN, "-T", "mpi,pthread", "-adios2_trace", "sh", self.folder / "program.sh"]
        return " ".join(map(str, words))


@pytest.fixture
def program(tmp_path: Path) -> Program:
    folder = tmp_path / "program"
    folder.mkdir()
    return Program(folder)


def assert_nobody_died(run: Run) -> None:
    """Neither readers nor agents."""
    log = (run.folder / "logs" / "agent-0.log").read_text()
    for word in ("another takes over", "given up", "Traceback", "Fatal", "Bus error"):
        assert word not in log, log
    assert "started again" not in run.output


def assert_all_read(run: Run, program: Program) -> None:
    """Each step that was written was analysed, with all its rows."""
    reports = program.reports
    assert [(s.steps, s.gap_steps, s.state) for s in run.health] == [
        (report["steps"], 0, "ended") for report in reports
    ], run.output
    assert [stream.rows for stream in run.health] == [report["rows"] for report in reports]


def assert_all_stored_once(run: Run) -> None:
    """Steps, and what they add up to."""
    with open_run(RunDirectory(run.folder)) as provenance:
        steps = provenance.steps.counts()
        ranks = {one.rank: one.steps for one in provenance.steps.rank_statistics()}
    reported = Counter((step.rank, step.step) for step in steps)
    assert set(reported.values()) == {1}
    assert ranks == {stream.rank: stream.steps for stream in run.health}
    for stream in run.health:
        assert sum(step.rank == stream.rank for step in steps) == stream.steps
        assert sum(step.calls for step in steps if step.rank == stream.rank) == stream.calls


def steps_so_far(run: Run) -> int:
    return sum(stream.steps for stream in run.health_so_far)


@pytest.mark.thorough
@pytest.mark.parametrize("transport", first(1, ["files", "sst"]))
def test_a_room_that_is_full_when_the_program_begins(
    start: Start, room: SmallRoom, program: Program, transport: str
) -> None:
    """No stream has a folder; each is read as soon as there is room again."""
    run = program.run(start, transport)
    run.service("chimbuko.ad.streams.forkserver")
    run.service(AGENT)
    run.wait_until(lambda: (run.folder / "logs" / "agent-0.log").exists())
    room.fill()
    program.begin()
    line = run.wait_for_line(NO_ROOM)
    assert str(room.path) in line
    run.wait_until(lambda: any("not read until" in line for line in run.lines))
    room.empty()
    run.wait_until(lambda: steps_so_far(run) > 20)
    program.end(run)
    assert_nobody_died(run)
    if transport == "files":
        assert_all_read(run, program)
    assert_all_stored_once(run)
    assert any(line.startswith("Problem: ") and NO_ROOM in line for line in run.lines)


@pytest.mark.thorough
@pytest.mark.parametrize("transport", first(1, ["sst", "files"]))
def test_a_room_that_is_full_for_a_while(
    start: Start, room: SmallRoom, program: Program, transport: str
) -> None:
    """What readers know by then waits in memory, and nothing is lost."""
    run = program.run(start, transport)
    program.begin()
    run.wait_until(lambda: len(run.health_so_far) == 2 and steps_so_far(run) > 10)
    room.fill()
    run.wait_for_line("0:0")
    run.wait_until(lambda: "0:1" in run.output)
    room.empty()
    before = steps_so_far(run)
    run.wait_until(lambda: steps_so_far(run) > before + 20)
    program.end(run)
    assert_nobody_died(run)
    if transport == "files":
        assert_all_read(run, program)
    assert_all_stored_once(run)
    assert not any(NO_ROOM in kind for stream in run.health for kind in stream.losses)


@pytest.mark.thorough
@pytest.mark.parametrize("transport", first(1, ["files", "sst"]))
def test_a_room_that_stays_full(start: Start, room: SmallRoom, program: Program, transport: str) -> None:
    """All steps are analysed, and what of it could not be kept is said in summary and health."""
    run = program.run(start, transport)
    program.begin()
    run.wait_until(lambda: len(run.health_so_far) == 2 and steps_so_far(run) > 10)
    room.fill()
    run.wait_for_line("0:0")
    run.wait_until(lambda: "0:1" in run.output)
    program.end(run)
    assert_nobody_died(run)
    if transport == "files":
        assert_all_read(run, program)
    assert all(stream.state == "ended" for stream in run.health)
    with open_run(RunDirectory(run.folder)) as provenance:
        kept = Counter(step.rank for step in provenance.steps.counts())
    for stream in run.health:
        assert kept[stream.rank] + stream.losses.get(NO_ROOM_STEPS, 0) == stream.steps
    assert any(NO_ROOM in line for line in run.lines if line.startswith("Lost: ")), run.output


@pytest.mark.thorough
def test_a_room_that_is_full_from_before_the_first_step_to_the_end(
    start: Start, room: SmallRoom, program: Program
) -> None:
    run = program.run(start, "files")
    run.service("chimbuko.ad.streams.forkserver")
    run.wait_until(lambda: bool(list(room.path.glob("chimbuko-*-agents-*"))))
    room.fill()
    program.begin()
    run.wait_until(lambda: any("not read until" in line for line in run.lines))
    program.end(run)
    assert_nobody_died(run)
    assert [(s.state, s.steps, s.losses) for s in run.health] == [("lost", 0, {UNREAD_STREAMS: 1})] * 2
    assert any(f"2 {UNREAD_STREAMS}" in line for line in run.lines), run.output


def test_findings_and_statistics_count_once_however_often_the_room_is_full(
    start: Start, room: SmallRoom, marked: Path
) -> None:
    run = start(
        *("--replay", marked / "*.bp", "--pace", "1.25", "--period", "0.2"),
        *("--no-dashboard", "--transport", "files"),
    )
    run.wait_until(lambda: len(run.health_so_far) == RANKS)
    for _ in range(3):
        before = steps_so_far(run)
        room.fill()
        run.wait_until(lambda: "findings" in run.output or WHOLE in run.output)
        room.empty()
        # On a busy machine the program may end before.
        run.wait_until(lambda before=before: steps_so_far(run) > before or WHOLE in run.output)
    assert run.end() == 0, run.output
    assert_nobody_died(run)
    assert_nothing_lost(run, marked)


@pytest.mark.thorough
@pytest.mark.parametrize("room", [f"{SIZE},nr_inodes=64"], indirect=True)
def test_no_more_files_can_be_made(start: Start, room: SmallRoom, program: Program) -> None:
    """There are pages, but no inodes."""
    run = program.run(start, "files")
    run.service("chimbuko.ad.streams.forkserver")
    run.wait_until(lambda: bool(list(room.path.glob("chimbuko-*-agents-*"))))
    room.use_up_names()
    program.begin()
    run.wait_until(lambda: any("not read until" in line for line in run.lines))
    room.give_names_back()
    run.wait_until(lambda: steps_so_far(run) > 20)
    program.end(run)
    assert_nobody_died(run)
    assert_all_read(run, program)
    assert_all_stored_once(run)


@pytest.mark.thorough
def test_a_stream_for_which_an_agent_has_no_memory_is_not_read_and_the_others_are(
    start: Start, program: Program
) -> None:
    """As under ``ulimit -v``: each stream takes 1.2 GB of the agent's address space."""
    run = program.run(start, "files")
    run.service("chimbuko.ad.streams.forkserver")
    # The agent has loaded all that it needs once it says so on its first line.
    run.wait_until(lambda: (run.folder / "logs" / "guard.log").exists())
    agent = run.service(AGENT)
    run.wait_until(lambda: len(list(Path(f"/proc/{agent}/task").iterdir())) > 1)
    in_use = int(Path(f"/proc/{agent}/statm").read_text().split()[0]) * resource.getpagesize()
    resource.prlimit(agent, resource.RLIMIT_AS, (in_use + ONE_STREAM_BYTES,) * 2)
    program.begin()
    run.wait_for_line("no memory left for")
    run.wait_until(lambda: steps_so_far(run) > 20)
    program.end(run)
    assert "started again" not in run.output
    read, given_up = sorted(run.health, key=lambda stream: -stream.steps)
    assert (read.state, read.gap_steps) == ("ended", 0)
    assert (given_up.state, given_up.losses) == ("lost", {UNREADABLE_STREAMS: 1})
    assert any(number_of(1, UNREADABLE_STREAMS) in line for line in run.lines if line.startswith("Lost: "))
