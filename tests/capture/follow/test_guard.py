"""The guard as a process: what it does to streams and to stopped processes, and what it outlives."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chimbuko.capture.follow.guard import Options, Watchdog, parsed
from chimbuko.capture.follow.holes import DataFile, FirstStep
from chimbuko.capture.follow.limits import Limits
from chimbuko.capture.follow.presence import (
    Process,
    Role,
    announce,
    announced,
    guard_of,
    has_writer,
    looked_up,
)
from chimbuko.capture.follow.starter import GuardStarter
from chimbuko.capture.follow.steps import DATA, StepIndex
from chimbuko.core.errors import ConfigError, ServiceError
from chimbuko.runtime.process.signals import END
from tests.capture.follow.streams import STEP_BYTES, events, opened, wait_until, write_step
from tests.integration.conftest import children
from tests.patience import PATIENCE_S

STEPS = 40
LIMITS = Limits(8 * STEP_BYTES, 1 << 40, 0)
HEAVY = {"numpy", "numba", "adios2", "redis", "msgspec", "pathlib", "argparse", "subprocess", "threading"}

Starter = Callable[[Options], GuardStarter]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "streams"
    made.mkdir()
    return made


@pytest.fixture
def guard(folder: Path, tmp_path: Path) -> Iterator[Starter]:
    """Makes starters; whatever they have started is killed."""

    def make(options: Options) -> GuardStarter:
        starter = GuardStarter(options, tmp_path / "guard.log")
        starter.ensure()
        starter.wait()
        return starter

    yield make
    pid = guard_of(folder)
    if pid:
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def process() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Makes processes that wait."""
    started: list[subprocess.Popen[bytes]] = []

    def make() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "600"]))
        return started[-1]

    yield make
    for one in started:
        one.kill()
        one.wait()


def held(path: Path) -> int:
    return DataFile(path).held_bytes


def is_stopped(process: subprocess.Popen[bytes]) -> bool:
    return looked_up(process.pid)[0] == "T"


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: is_stopped(process))


def guarded(folder: Path) -> int:
    pid = guard_of(folder)
    assert pid is not None
    return pid


def test_a_guard_that_is_killed_as_it_starts_has_another_after_it(folder: Path, tmp_path: Path) -> None:
    """On many nodes nobody else of this node would read its streams."""
    before = set(children(os.getpid()))
    starter = GuardStarter(Options(str(folder), LIMITS), tmp_path / "guard.log")
    starter.begin()
    (first,) = set(children(os.getpid())) - before
    os.kill(first, signal.SIGKILL)
    starter.wait()
    second = guarded(folder)
    assert second != first
    os.kill(second, signal.SIGKILL)


def test_unread_streams_stay_within_their_limit(folder: Path, guard: Starter, tmp_path: Path) -> None:
    paths = [folder / f"tau-metrics-program-{rank}.bp" for rank in range(2)]
    read = folder / "tau-metrics-program-2.bp"
    guard(Options(str(folder), LIMITS))
    writers = [opened(path) for path in (*paths, read)]
    of_reader, index = DataFile(read), StepIndex(read)
    for step in range(STEPS):
        for writer in writers:
            write_step(writer, step)
        # This one has a reader, which gives back all but the last step.
        of_reader.give_back(step, index.begin(index.read() - 1))
    # Beyond the limit by no more than a step.
    wait_until(lambda: all(held(path) <= LIMITS.stream_bytes for path in paths))
    for path in paths:
        first, data = FirstStep(path).get(), (path / DATA).read_bytes()
        assert STEPS - 9 <= first <= STEPS - 8
        assert [step for step in range(STEPS) if events(step).tobytes() in data] == list(range(first, STEPS))
    assert FirstStep(read).get() == STEPS - 1
    for writer in writers:
        writer.close()
    lines = (tmp_path / "guard.log").read_text().splitlines()
    assert sorted(line.split(": ")[2] for line in lines) == [path.name for path in paths]
    assert "oldest unread steps are dropped" in lines[0]


def test_all_streams_together_stay_within_the_nodes_limit(folder: Path, guard: Starter) -> None:
    paths = [folder / f"tau-metrics-program-{rank}.bp" for rank in range(3)]
    writers = [opened(path) for path in paths]
    for count, writer in zip((40, 20, 5), writers, strict=True):
        for step in range(count):
            write_step(writer, step)
    guard(Options(str(folder), Limits(1 << 40, 30 * STEP_BYTES, 0)))
    wait_until(lambda: sum(map(held, paths)) <= 30 * STEP_BYTES)
    first, second, third = (FirstStep(path).get() for path in paths)
    # Those that hold most hold the same in the end, and the smallest has lost nothing.
    assert abs((40 - first) - (20 - second)) <= 1 and first + second in (35, 36) and third == 0
    for writer in writers:
        writer.close()


def test_a_stream_that_is_written_anew_is_kept_small_too(folder: Path, guard: Starter) -> None:
    """As by a script that calls a program twice: what is said of the first is not true of the second."""
    path = folder / "tau-metrics-program-0.bp"
    guard(Options(str(folder), LIMITS))
    for steps in (2 * STEPS, STEPS):
        with opened(path) as writer:
            for step in range(steps):
                write_step(writer, step)
            wait_until(lambda: held(path) <= LIMITS.stream_bytes)
            data = (path / DATA).read_bytes()
            kept = [step for step in range(steps) if events(step).tobytes() in data]
            assert len(kept) in (8, 9) and kept[-1] == steps - 1
            # Nobody takes the zeros of the second one for data.
            assert FirstStep(path).get() >= kept[0]


def test_a_small_file_system_never_fills_up(tmp_path: Path) -> None:
    """Not a page is free when the guard comes, and then three times its size is written."""
    mount, log = tmp_path / "mount", tmp_path / "log"
    mount.mkdir()
    command = [sys.executable, "-m", "tests.capture.follow.small_file_system", str(mount), str(log)]
    unshare = shutil.which("unshare")
    if not unshare or subprocess.run([unshare, "--mount", "true"], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here: unshare --mount is not permitted")
    ran = subprocess.run([unshare, "--mount", *command], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    facts = json.loads(ran.stdout)
    assert facts["free_before"] == 0 and facts["written"] > 3 * (8 << 20) - STEP_BYTES
    assert facts["free"] >= 3 << 20
    assert min(facts["first_steps"]) > 0
    assert facts["guarded"] and facts["ended"] and facts["removed"]
    assert len(facts["log"]) == 2


def test_a_guard_that_was_killed_has_a_successor(folder: Path, guard: Starter) -> None:
    path = folder / "tau-metrics-program-0.bp"
    starter = guard(Options(str(folder), LIMITS))
    with opened(path) as writer:
        for step in range(STEPS):
            write_step(writer, step)
        wait_until(lambda: held(path) <= LIMITS.stream_bytes)
        before, first = guarded(folder), FirstStep(path).get()
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: guard_of(folder) is None)
        for step in range(STEPS, 2 * STEPS):
            write_step(writer, step)
        assert held(path) > LIMITS.stream_bytes and FirstStep(path).get() == first
        # As the agent does, every second.
        wait_until(lambda: (starter.ensure(), guard_of(folder))[1] is not None)
        assert guarded(folder) != before
        wait_until(lambda: held(path) <= LIMITS.stream_bytes)
        assert FirstStep(path).get() == first + STEPS


def test_a_guard_that_was_stopped_is_made_to_go_on(folder: Path, guard: Starter) -> None:
    starter = guard(Options(str(folder)))
    pid = guarded(folder)
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: looked_up(pid)[0] == "T")
    starter.ensure()
    wait_until(lambda: looked_up(pid)[0] != "T")
    assert guarded(folder) == pid


def test_a_guard_that_was_stopped_does_not_take_it_for_the_end(
    folder: Path, guard: Starter, process: Callable[[], subprocess.Popen[bytes]]
) -> None:
    """With all of the agent's, as in a job that is suspended: its readers have not read everything."""
    reader = process()
    announce(folder, "reader", Role.JOINING, reader.pid)
    guard(Options(str(folder), patience_s=0.1))
    pid = guarded(folder)
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: looked_up(pid)[0] == "T")
    # Longer than it waits for a signal.
    time.sleep(1.5)
    os.kill(pid, signal.SIGCONT)
    for _ in range(2):
        # It still looks.
        stop(reader)
        wait_until(lambda: not is_stopped(reader))
    assert guarded(folder) == pid


def test_of_many_that_are_started_one_stays(folder: Path, guard: Starter, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chimbuko.capture.follow.guard", *Options(str(folder)).arguments()]
    started = [subprocess.Popen(command) for _ in range(4)]
    wait_until(lambda: sum(one.poll() is None for one in started) == 1 and guard_of(folder) is not None)
    (stays,) = [one for one in started if one.poll() is None]
    assert guarded(folder) == stays.pid
    assert [one.returncode for one in started if one is not stays] == [0, 0, 0]
    guard(Options(str(folder)))
    assert guarded(folder) == stays.pid
    stays.send_signal(END)
    assert stays.wait(PATIENCE_S) == 0 and not folder.exists()


LAUNCHER = """
import sys
import time
from chimbuko.capture.follow.guard import Options
from chimbuko.capture.follow.presence import Role, announce
from chimbuko.capture.follow.starter import GuardStarter
from chimbuko.capture.follow.limits import Limits
announce(sys.argv[1], "launcher", Role.LAUNCHER)
starter = GuardStarter(Options(sys.argv[1], Limits(int(sys.argv[2]), 1 << 40, 0), linger_s=0.5))
starter.ensure()
starter.wait()
print("ready", flush=True)
sys.stdin.read()
"""


def test_it_outlives_its_launcher_until_the_writer_ends(folder: Path, guard: Starter) -> None:
    command = [sys.executable, "-c", LAUNCHER, str(folder), str(LIMITS.stream_bytes)]
    launcher = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert launcher.stdout and launcher.stdin and launcher.stdout.readline() == b"ready\n"
    pid = guarded(folder)
    path = folder / "tau-metrics-program-0.bp"
    writer = opened(path)
    os.killpg(launcher.pid, signal.SIGKILL)
    launcher.wait()
    launcher.stdin.close()
    launcher.stdout.close()
    for number in (signal.SIGHUP, signal.SIGINT):
        os.kill(pid, number)
    for step in range(3 * STEPS):
        write_step(writer, step)
        if step % STEPS == STEPS - 1:
            wait_until(lambda: held(path) <= LIMITS.stream_bytes)
    assert guarded(folder) == pid
    assert [process.role for process in announced(folder) if process.state()] == []
    writer.close()
    wait_until(lambda: not folder.exists())
    wait_until(lambda: looked_up(pid)[0] in ("", "Z"))


def test_it_goes_on_while_any_process_needs_the_folder(
    folder: Path, guard: Starter, process: Callable[[], subprocess.Popen[bytes]]
) -> None:
    """An application that was just started has no stream yet."""
    application = process()
    announce(folder, "application", Role.APPLICATION, application.pid)
    starter = guard(Options(str(folder), linger_s=0.0, keep=True))
    pid = guarded(folder)
    assert not starter.stop(1.5)
    assert guarded(folder) == pid
    application.kill()
    application.wait()
    wait_until(lambda: guard_of(folder) is None)
    assert folder.exists()


def test_told_to_end_it_waits_for_the_writer_and_not_for_us(folder: Path, guard: Starter) -> None:
    announce(folder, "agent", Role.AGENT)
    writer = opened(folder / "tau-metrics-program-0.bp")
    starter = guard(Options(str(folder)))
    assert not starter.stop(1.0)
    writer.close()
    assert starter.stop(60.0)
    # Its lock goes just before the folder.
    wait_until(lambda: not folder.exists())


def test_stopped_processes_are_made_to_go_on_or_are_replaced(
    folder: Path, guard: Starter, process: Callable[[], subprocess.Popen[bytes]]
) -> None:
    roles = (Role.READING, Role.JOINING, Role.AGENT, Role.LAUNCHER, Role.APPLICATION)
    processes = {role: process() for role in roles}
    for role, one in processes.items():
        announce(folder, role, role, one.pid)
    stranger = process()
    _, started = looked_up(stranger.pid)
    (folder / "stranger.pid").write_text(f"{stranger.pid} {started - 1} reading\n")
    guard(Options(str(folder), patience_s=0.3))
    stop(stranger)
    for one in processes.values():
        stop(one)
    go_on = (Role.READING, Role.JOINING, Role.AGENT)
    wait_until(lambda: not any(is_stopped(processes[role]) for role in go_on))
    for role in go_on:
        stop(processes[role])
    assert processes[Role.READING].wait(PATIENCE_S) == -signal.SIGKILL
    wait_until(lambda: not is_stopped(processes[Role.JOINING]))
    for role in (Role.AGENT, Role.LAUNCHER, Role.APPLICATION):
        assert is_stopped(processes[role])
    assert is_stopped(stranger)


def test_processes_are_known_by_their_start(
    folder: Path, process: Callable[[], subprocess.Popen[bytes]]
) -> None:
    one = process()
    announce(folder, "reader", Role.READING, one.pid)
    (found,) = announced(folder)
    assert found.state() and found.role is Role.READING
    assert Process(found.pid, found.started + 1, found.role).state() == ""
    found.send(signal.SIGTERM)
    wait_until(lambda: found.state() == "")
    one.wait()
    found.send(signal.SIGTERM)
    with pytest.raises(ProcessLookupError):
        announce(folder, "reader", Role.READING, one.pid)
    (folder / "damaged.pid").write_text("1 2")
    assert announced(folder) == [found]


def test_a_writer_is_known_however_it_ended(folder: Path) -> None:
    path = folder / "tau-metrics-program-0.bp"
    assert not has_writer(path)
    text = (
        "import sys, pathlib\n"
        "from tests.capture.follow.streams import opened, write_step\n"
        "writer = opened(pathlib.Path(sys.argv[1]))\n"
        "write_step(writer, 0)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", text, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout and writer.stdout.readline() == b"ready\n"
        assert has_writer(path)
        writer.kill()
        writer.wait()
        assert not has_writer(path)
    index = StepIndex(path)
    assert index.read() == 1 and not index.has_ended


def test_it_needs_nothing_of_ours_that_is_large() -> None:
    text = "import chimbuko.capture.follow.guard, sys; print(*{name.split('.')[0] for name in sys.modules})"
    printed = subprocess.run(
        [sys.executable, "-S", "-c", text],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": "."},
    )
    assert not HEAVY & set(printed.stdout.split())


def test_options_stand_on_the_command_line_as_they_are() -> None:
    options = Options("/dev/shm/run", Limits(1, 2, 3), keep=True, linger_s=0.5, patience_s=4.0)
    assert parsed(options.arguments()) == options
    assert parsed(["--folder", "/dev/shm/run"]) == Options("/dev/shm/run")


@pytest.mark.parametrize(
    "arguments",
    [[], ["--folder"], ["--folder", "x", "--limit", "much"], ["--folder", "x", "--colour", "red"]],
)
def test_options_that_are_wrong(arguments: list[str]) -> None:
    with pytest.raises(ConfigError, match="guard: "):
        parsed(arguments)


def test_no_folder_no_guard(tmp_path: Path) -> None:
    starter = GuardStarter(Options(str(tmp_path / "none")), tmp_path / "log")
    starter.ensure()
    with pytest.raises(ServiceError, match="no guard"):
        starter.wait(0.0)
    ran = subprocess.run(
        [sys.executable, "-m", "chimbuko.capture.follow.guard", "--folder", str(tmp_path / "none")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2 and "no folder to guard" in ran.stderr


def signals(role: Role, states: str, passed_s: float = 1.0) -> str:
    """What a process is sent at each look: ``c`` to go on, ``k`` to end, or nothing."""
    watchdog, process = Watchdog(3.0), Process(17, 400, role)
    sent = ""
    for state in states:
        now = watchdog.look([(process, state)], passed_s)
        sent += {"SIGCONT": "c", "SIGKILL": "k"}[now[0][1].name] if now else "."
    return sent


@pytest.mark.parametrize(
    ("role", "states", "sent"),
    [
        (Role.READING, "STTTTTTTT", "....c...k"),
        (Role.READING, "STTTTSSTTTT", "....c.....k"),
        (Role.READING, "STTTSTTTSTTT", "............"),
        (Role.READING, "Sttttttttt", ".........."),
        (Role.JOINING, "STTTTTTTTTT", "....c...c.."),
        (Role.AGENT, "STTTTTTTTTT", "....c......"),
        (Role.LAUNCHER, "STTTTTTTTTT", "..........."),
        (Role.APPLICATION, "STTTTTTTTTT", "..........."),
    ],
)
def test_who_is_made_to_go_on_and_who_is_killed(role: Role, states: str, sent: str) -> None:
    assert len(states) == len(sent)
    assert signals(role, states) == sent


def test_another_process_of_the_same_number_begins_anew() -> None:
    watchdog = Watchdog(3.0)
    for started in range(20):
        assert watchdog.look([(Process(17, started, Role.READING), "T")], 2.0) == []


def test_a_reader_that_joined_meanwhile_was_made_to_go_on_before() -> None:
    watchdog = Watchdog(1.0)
    joining, reading = Process(17, 4, Role.JOINING), Process(17, 4, Role.READING)
    watchdog.look([(joining, "T")], 1.0)
    assert [sent for _, sent in watchdog.look([(joining, "T")], 1.0)] == [18]
    assert watchdog.look([(reading, "S")], 1.0) == []
    assert watchdog.look([(reading, "T")], 1.0) == []
    assert [sent for _, sent in watchdog.look([(reading, "T")], 1.0)] == [9]
