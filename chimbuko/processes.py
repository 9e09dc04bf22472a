"""Our own processes: started, known to be ready, and ended with us."""

from __future__ import annotations

import ctypes
import hashlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from chimbuko.errors import ServiceError
from chimbuko.sacrifice import OOM_VARIABLE, Sacrifice, oom_score, oom_score_of_application, set_oom_score

READY_TIMEOUT_S = 60.0
"""Covers the compilation of all kernels where the cache is cold (about 20 s)."""

UNIX_SOCKETS = Path("/proc/net/unix")

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """For ``preexec_fn``: end this process when the one that started it is gone, however it went.

    Gone is already the thread that started it: that must be one which stays.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, number)


def heed(numbers: Iterable[signal.Signals], handle: Callable[[int, Any], object]) -> None:
    """Handle signals, but for those that are ignored: ``nohup``, and a shell's jobs in the background."""
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)


def become_ours(score: int) -> None:
    """For ``preexec_fn`` of a process of ours: it ends with its parent, and where memory ends before that."""
    set_oom_score(score)
    die_with_parent()


def say_ready(**facts: Any) -> None:
    """Tell the process that started this one that it can be used now."""
    sys.stdout.write(msgspec.json.encode(facts).decode() + "\n")
    sys.stdout.flush()


def log(text: str) -> None:
    """One line into this process's log, which is its standard error."""
    write_error(f"chimbuko: {text}\n")


def write_error(text: str) -> None:
    """Write to standard error. A full disk, a closed pipe or a lost terminal must not end the process.

    Not by way of ``sys.stderr``: what that could not write it tries again at the end of the process, which
    then has an exit code of its own.
    """
    with suppress(OSError):
        os.write(2, text.encode(errors="replace"))


def hold(name: str) -> socket.socket:
    """Hold a name on this node until this process ends, however it ends, or closes what is returned.

    Raises
    ------
    ServiceError
        Another process holds it.
    """
    claim = socket.socket(socket.AF_UNIX)
    try:
        # An address that begins with 0 is in no folder, and nothing is left of it.
        claim.bind(f"\0{_address(name)}")
    except OSError:
        claim.close()
        raise ServiceError(f"{name}: another process is at work there already") from None
    return claim


def is_held(name: str) -> bool:
    """Whether a process of this node holds a name. To ask does not get in the way of who is about to."""
    return _address(name) in UNIX_SOCKETS.read_text()


def _address(name: str) -> str:
    # There is room for 107 bytes.
    return f"chimbuko {hashlib.sha256(name.encode()).hexdigest()}"


def do_without_scipy() -> None:
    """Keep numba from loading scipy's linear algebra, which no kernel uses, where it is installed.

    It would cost each process 0.2 s and 10 MB. Before numba compiles or loads its first kernel.
    """
    sys.modules["scipy"] = None  # type: ignore[assignment]


class Service:
    """One of our processes, which says on its first line of output, in JSON, that it is ready.

    Parameters
    ----------
    name
        Also names its log, ``<name>.log``.
    module
        Python module to run.
    arguments, environment
        Secrets belong into the environment: anyone can read a command line.
    inherited
        File descriptors that it gets.
    sacrifice
        How soon it ends where memory does.

    Raises
    ------
    ServiceError
        It ended, or did not become ready in time; with its last line and exit code.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: list[str],
        environment: Mapping[str, str],
        logs: Path,
        inherited: tuple[int, ...] = (),
        sacrifice: Sacrifice = Sacrifice.SERVICE,
    ) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        self._command = [sys.executable, "-m", module, *arguments]
        application = {OOM_VARIABLE: str(oom_score_of_application())}
        self._environment = {**os.environ, **application, **environment, "OPENBLAS_NUM_THREADS": "1"}
        self._inherited = inherited
        self._oom_score = oom_score(sacrifice)
        self.process = self._started()

    def start_again(self) -> None:
        """Start it anew after it has ended."""
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = self._started()

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> dict[str, Any]:
        """Facts that it gives on becoming ready."""
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], timeout_s)
        line = self.process.stdout.readline() if readable else b""
        try:
            facts: dict[str, Any] = msgspec.json.decode(line)
        except msgspec.DecodeError:
            self.stop(0.0)
            raise ServiceError(f"{self.name} did not start: {self._last_words()}") from None
        return facts

    def _started(self) -> subprocess.Popen[bytes]:
        with _opened(self.log) as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._environment,
                # Ctrl-C is for the program that the user runs and for the launcher, which ends us in order.
                start_new_session=True,
                preexec_fn=partial(become_ours, self._oom_score),
                pass_fds=self._inherited,
            )

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self.process.poll() is None

    def ask_to_stop(self) -> None:
        """Ask it to finish what it has to do and end; one that was stopped goes on for that."""
        if self.is_running:
            self.process.terminate()
            self.process.send_signal(signal.SIGCONT)

    def stop(self, timeout_s: float) -> bool:
        """Ask it to end and wait; after ``timeout_s`` seconds kill it. True if it ended by itself."""
        self.ask_to_stop()
        try:
            self.process.wait(timeout_s)
            return True
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False
        finally:
            if self.process.stdout is not None:
                self.process.stdout.close()

    def _last_words(self) -> str:
        lines: list[str] = []
        with suppress(OSError):
            lines = self.log.read_text(errors="replace").strip().splitlines()
        last = lines[-1].removeprefix("chimbuko: ") if lines else "it said nothing"
        return f"{last} (its log is {self.log})"


def _opened(log: Path) -> BinaryIO:
    """A log to write to; nowhere where its folder is gone: better a service without a log than none."""
    try:
        return log.open("ab")
    except OSError:
        return open(os.devnull, "ab")


class StopSignal:
    """Becomes true when the process is asked to end (SIGTERM)."""

    def __init__(self) -> None:
        self._asked_at = 0.0
        signal.signal(signal.SIGTERM, self._ask)

    def __call__(self) -> bool:
        return self._asked_at > 0

    def _ask(self, signum: int, frame: object) -> None:
        self._asked_at = time.monotonic()
        # Asked again while Python ends, when its own handlers are gone, the process would count as killed.
        signal.signal(signum, signal.SIG_IGN)
