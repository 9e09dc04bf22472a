"""Exit codes and reasons of commands of the user's, and which signals reach them when."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chimbuko.runtime.process.usercommand import (
    PASSED_ON,
    CommandError,
    UserCommand,
    check_command,
    run_beside,
    shell_code,
)
from tests.patience import PATIENCE_S


@pytest.mark.parametrize(("status", "code"), [(0, 0), (3, 3), (255, 255), (-9, 137), (-15, 143)])
def test_a_status_is_the_code_of_a_shell(status: int, code: int) -> None:
    assert shell_code(status) == code


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("missing", 127, "No such file or directory"),
        ("plain", 126, "it is not executable; do: chmod +x {path}"),
        ("folder", 126, "it is a folder"),
        ("orphan", 127, "the interpreter that its first line names does not exist"),
        ("nothing", 126, "Exec format error"),
        ("plain/below", 127, "{either}"),
    ],
)
def test_the_reason_is_said_before_and_at_the_start(
    name: str, code: int, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "plain").touch()
    (tmp_path / "folder").mkdir()
    for script, text in (("orphan", "#!/no/such/interpreter\n"), ("nothing", "no program\n")):
        (tmp_path / script).write_text(text)
        (tmp_path / script).chmod(0o755)
    path = str(tmp_path / name)
    reasons = ["Not a directory", "No such file or directory"]
    expected = reasons if reason == "{either}" else [reason.format(path=path)]
    with pytest.raises(CommandError) as found:
        check_command(path)
        UserCommand().start([path], os.environ)
    assert found.value.exit_code == code
    assert str(found.value) in [f"{path}: cannot be run ({one})" for one in expected]


def test_a_name_is_looked_for_as_a_shell_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of that name that nobody may execute does not hide that there is no such command."""
    (tmp_path / "plain-name").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    for attempt in (check_command, lambda name: UserCommand().start([name], os.environ)):
        with pytest.raises(CommandError, match="no such command") as found:
            attempt("plain-name")
        assert found.value.exit_code == 127


def test_an_unknown_error_has_the_system_s_words() -> None:
    error = CommandError("./app", errno.E2BIG)
    assert str(error) == "./app: cannot be run (Argument list too long)" and error.exit_code == 126


def test_a_signal_that_comes_before_the_start_reaches_the_command() -> None:
    with UserCommand() as command:
        os.kill(os.getpid(), signal.SIGTERM)
        command.start(["sleep", "1000"], os.environ)
        assert command.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert command.asked_to_end == signal.SIGTERM


def test_the_second_interrupt_terminates_and_the_third_kills() -> None:
    program = (
        "import signal, time; "
        "signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "signal.signal(signal.SIGTERM, lambda *_: print('terminated', flush=True)); "
        "print('ready', flush=True); "
        "[time.sleep(1000) for _ in range(10)]"
    )
    command = UserCommand()
    reading, writing = os.pipe()
    with os.fdopen(reading) as said:
        options = {"start_new_session": True, "stdout": writing}
        command.start([sys.executable, "-c", program], os.environ, **options)
        os.close(writing)
        assert said.readline() == "ready\n"
        command.pass_on(signal.SIGINT)
        assert command.poll() is None
        command.pass_on(signal.SIGINT)
        assert said.readline() == "terminated\n"
        command.pass_on(signal.SIGINT)
        assert command.wait(PATIENCE_S) == 128 + signal.SIGKILL


def test_handlers_are_as_before_afterwards() -> None:
    before = {number: signal.getsignal(number) for number in PASSED_ON}
    with UserCommand() as command:
        assert signal.getsignal(signal.SIGUSR1) == command.pass_on
    assert {number: signal.getsignal(number) for number in PASSED_ON} == before


def test_what_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with UserCommand() as command:
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            command.start(["sh", "-c", "kill -HUP $$; exit 5"], os.environ)
            assert command.wait(PATIENCE_S) == 5
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_session_s_signals_reach_all_of_it() -> None:
    command = UserCommand()
    reading, writing = os.pipe()
    with os.fdopen(reading) as said:
        script = (
            "trap : USR1; sh -c 'trap \"echo child; exit\" USR1; echo ready; while :; do sleep 0.1; done'"
        )
        command.start(["sh", "-c", script], os.environ, start_new_session=True, stdout=writing)
        os.close(writing)
        assert said.readline() == "ready\n"
        command.send(signal.SIGUSR1)
        assert said.read() == "child\n"
    assert command.wait(PATIENCE_S) in (0, 128 + signal.SIGUSR1)


def test_what_a_launcher_has_opened_is_inherited() -> None:
    """As MPICH's does: the descriptor's number is in a variable."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    assert run_beside(["sh", "-c", f"echo rank > /proc/self/fd/{writing}"], {}, lambda: None, 0.05) == 0
    os.close(writing)
    with os.fdopen(reading) as said:
        assert said.read() == "rank\n"


def test_who_looks_does_so_once_more_after_the_end(tmp_path: Path) -> None:
    path, sizes = tmp_path / "written", []

    def look() -> None:
        sizes.append(path.stat().st_size if path.exists() else 0)

    assert run_beside(["sh", "-c", f"echo $WORD > {path}; exit 4"], {"WORD": "six"}, look, 1000.0) == 4
    assert sizes[-1] == 4


def test_the_module_is_light() -> None:
    """The monitor loads it, whose cost is the program's."""
    code = "import sys, chimbuko.runtime.process.usercommand; "
    code += "print({name.split('.')[0] for name in sys.modules} & {'numpy', 'msgspec', 'redis', 'click'})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
