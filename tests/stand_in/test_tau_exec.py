"""An application under TAU's settings is never harmed by its readers; the stand-in plays the application.

And the stand-in is not kinder than TAU: what it writes is held against what TAU was seen to write.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from chimbuko.capture.trace.discovery import Transport, find_live
from chimbuko.capture.trace.tausettings import adios2_settings, application_settings
from tests.capture.trace.whole_streams import Step, read_live, read_stream
from tests.instrument.tracer.traced_program import environment
from tests.patience import PATIENCE_S

TAU_EXEC = [sys.executable, str(Path(__file__).parent / "tau_exec")]
OPTIONS = ["-T", "mpi,pthread", "-adios2_trace"]
ROWS_PER_TURN = 80
"""Of the program, in 10 ms on a machine that has nothing else to do."""
OUTER = [".TAU application", "taupreload_main", "main [{app.c} {1,0}]"]


def settings(folder: Path, period_us: int = 100_000) -> dict[str, str]:
    (folder / "trace").mkdir()
    return application_settings(folder, folder / "trace", period_us, {}, Transport.SST)


def file_settings(folder: Path, engine: str, period_us: int = 100_000) -> dict[str, str]:
    """As above, but into files of an engine."""
    made = settings(folder, period_us)
    Path(made["TAU_ADIOS2_CONFIG_FILE"]).write_text(adios2_settings(engine, {}))
    return made


def start(
    folder: Path, seconds: float | Path, options: list[str] = OPTIONS, **variables: str
) -> subprocess.Popen[str]:
    """Run for so many seconds, or as long as a file is there."""
    runs = f"while [ -e {seconds} ]; do sleep 0.1; done" if isinstance(seconds, Path) else f"sleep {seconds}"
    report = {"STAND_IN_REPORT": str(folder / "report.json")}
    return subprocess.Popen(
        [*TAU_EXEC, *options, "sh", "-c", f"{runs}; exit 4"],
        env=environment(**report, **variables),
        stderr=subprocess.PIPE,
        text=True,
    )


def report_of(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


def wait_for_stream(folder: Path) -> Path:
    while not (found := find_live(folder / "trace")):
        time.sleep(0.01)
    return found[0][0].path


def recorded(folder: Path, seconds: float, engine: str = "BP5", **variables: str) -> list[Step]:
    """The steps of an application that wrote them into a file."""
    with start(folder, seconds, **file_settings(folder, engine), **variables) as application:
        pass
    assert application.returncode == 4
    return read_stream(folder / "trace" / "tau-metrics-sh-0.bp", "BPFile")


def rows_of(step: Step) -> list[tuple[str, str]]:
    """Event type and timer of each row."""
    return [
        (step.names.event_types[kind], step.names.timers[timer])
        for kind, timer in step.events[:, 3:5].tolist()
    ]


def read_for_ever(path: Path, has_read: multiprocessing.synchronize.Event) -> None:
    read_live(path, 2)
    has_read.set()
    read_live(path)


def test_application_without_any_reader_runs_to_its_end(tmp_path: Path) -> None:
    with start(tmp_path, 0.5, **settings(tmp_path), PMI_RANK="3") as application:
        assert wait_for_stream(tmp_path).name == "tau-metrics-sh-3.bp"
    assert application.returncode == 4
    assert report_of(tmp_path)["steps"] >= 2


def test_readers_that_come_late_are_killed_and_come_again_do_no_harm(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    hold = tmp_path / "hold"
    hold.touch()
    with start(tmp_path, hold, **settings(tmp_path)) as application:
        path = wait_for_stream(tmp_path)
        for _ in range(2):
            has_read = context.Event()
            reader = context.Process(target=read_for_ever, args=(path, has_read))
            reader.start()
            assert has_read.wait(PATIENCE_S)
            reader.kill()
            reader.join()
        steps = read_live(path, 3)
        assert application.poll() is None
        hold.unlink()
    assert application.returncode == 4
    # Each begins with the names of step 0, and knows none that came in a step that it has missed.
    assert [step.number for step in steps[:1]] == [0] and steps[1].number > 10
    assert set(steps[-1].names.timers.values()) == {*OUTER, "step [{app.c} {20,0}]", "MPI_Sendrecv()"}
    # Over all of it no step took as long as a wait for a reader would.
    assert report_of(tmp_path)["steps"] > 10


def test_stream_begins_and_ends_as_taus(tmp_path: Path) -> None:
    steps = recorded(tmp_path, 0.5)
    assert rows_of(steps[0])[:5] == [
        *(("ENTRY", name) for name in OUTER),
        ("ENTRY", "step [{app.c} {20,0}]"),
        ("ENTRY", "MPI_Sendrecv()"),
    ]
    assert rows_of(steps[-1])[-5:] == [
        ("ENTRY", "MPI_Finalize()"),
        ("EXIT", "MPI_Finalize()"),
        *(("EXIT", name) for name in reversed(OUTER)),
    ]


def test_names_come_once_in_the_step_of_their_first_row(tmp_path: Path) -> None:
    steps = recorded(tmp_path, 1.0)
    seen: set[int] = set()
    known: set[int] = set()
    for step in steps:
        seen |= set(step.events[:, 4].tolist())
        assert set(step.names.timers) == seen, step.number
        known = set(step.names.timers)
    assert sorted(known) == list(range(7))
    assert "checkpoint [{app.c} {40,0}]" not in steps[0].names.timers.values()


@pytest.mark.parametrize("engine", ["BP4", "BP5"])
def test_steps_are_cut_where_the_main_thread_leaves_what_is_not_mpi(tmp_path: Path, engine: str) -> None:
    steps = recorded(tmp_path, 1.0, engine)
    assert len(steps) >= 8
    for step in steps[:-1]:
        kind, name = rows_of(step)[-1]
        assert kind == "EXIT" and "MPI_" not in name


def test_nothing_is_written_while_the_main_thread_sits_in_mpi(tmp_path: Path) -> None:
    steps = recorded(tmp_path, 1.5, STAND_IN_WAITS="0.3:1.1")
    first_us = int(steps[0].events[len(OUTER), -1])
    ends_s = [(int(step.events[:, -1].max()) - first_us) / 1e6 for step in steps]
    assert not [end for end in ends_s if 0.45 < end < 1.1]
    # What was due meanwhile follows at once: a step for each turn of the program, of which a period has ten.
    rows = [len(step.events) for step, end in zip(steps, ends_s, strict=True) if end > 1.1]
    assert max(rows[1:6]) <= 2 * ROWS_PER_TURN


def test_application_that_never_leaves_mpi_writes_one_step(tmp_path: Path) -> None:
    (step,) = recorded(tmp_path, 0.5, STAND_IN_WAITS="0:9")
    assert rows_of(step)[3] == ("ENTRY", "MPI_Barrier()")


@pytest.mark.parametrize(
    ("bindings", "variables", "streams"),
    [
        ("mpi,pthread", {"STAND_IN_WITHOUT_MPI": "1"}, 0),
        ("serial,pthread", {"STAND_IN_WITHOUT_MPI": "1"}, 1),
        ("mpi,pthread", {}, 1),
    ],
)
def test_program_without_mpi_has_no_stream_under_t_mpi(
    tmp_path: Path, bindings: str, variables: dict[str, str], streams: int
) -> None:
    options = ["-T", bindings, "-adios2_trace"]
    with start(tmp_path, 0.2, options, **file_settings(tmp_path, "BP5"), **variables) as application:
        _, complaint = application.communicate()
    assert (application.returncode, complaint) == (4, "")
    assert len(list((tmp_path / "trace").iterdir())) == streams


def test_full_file_system_ends_the_application(tmp_path: Path) -> None:
    variables = environment(**file_settings(tmp_path, "BP5"), STAND_IN_CALLS="500")
    application = subprocess.run(
        [*TAU_EXEC, *OPTIONS, "sleep", "60"],
        env=variables,
        capture_output=True,
        timeout=PATIENCE_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
    )
    assert application.returncode == 99


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"TAU_ADIOS2_SELECT_FILE": ""}, "does not exclude SST's own timers"),
        ({"TAU_ADIOS2_CONFIG_FILE": ""}, "waits for a reader"),
        ({"TAU_ADIOS2_CONFIG_FILE": "other.xml"}, "no io named"),
    ],
)
def test_settings_that_would_hang_tau_are_refused(
    tmp_path: Path, broken: dict[str, str], reason: str
) -> None:
    (tmp_path / "other.xml").write_text(
        '<adios-config><io name="other"><engine type="SST"/></io></adios-config>'
    )
    done = subprocess.run(
        [*TAU_EXEC, *OPTIONS, "true"],
        cwd=tmp_path,
        env=environment(**{**settings(tmp_path), **broken}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 99
    assert reason in done.stderr
