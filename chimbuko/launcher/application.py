"""The process that a user starts with ``chimbuko run``: parent of the application and of the launcher.

It stays small, and does nothing but start the application when the launcher says so, and wait. Whatever
becomes of the launcher, the application's exit code is passed on. Where memory ends, all else of ours ends
before it.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

import msgspec
from setproctitle import setproctitle

from chimbuko.runtime.process.lifetime import (
    OOM_VARIABLE,
    Sacrifice,
    die_with_parent,
    log,
    oom_score,
    oom_score_of_application,
    set_oom_score,
)
from chimbuko.runtime.process.signals import FROM_OTHERS, heed
from chimbuko.runtime.process.starting import Process, end_fork
from chimbuko.runtime.process.wakeup import Wakeup

TITLE = "chimbuko.launcher"
PATIENCE_S = 3600.0
NOT_FOUND = 127
NOT_EXECUTABLE = 126
"""As shells give them."""
_LENGTH = struct.Struct("Q")

_link: socket.socket | None = None
"""Of the launcher to its parent."""


class Order(msgspec.Struct, frozen=True):
    """An application to be started."""

    words: list[bytes]
    environment: dict[bytes, bytes]


class News(msgspec.Struct, frozen=True):
    """What became of it: first its process id, or the error; then its exit code."""

    pid: int = 0
    error: int = 0
    code: int | None = None


def part() -> None:
    """Go on as the launcher, in a process of its own; without one, in this process."""
    ours, its = socket.socketpair()
    score = oom_score_of_application()
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        ours.close()
        its.close()
        return
    if pid:
        its.close()
        end_fork(lambda: sys.exit(_Parent(pid, ours).attend()))
    ours.close()
    # Ctrl-C and a lost terminal come by way of the parent, once.
    os.setsid()
    # As if it were killed itself: it must not end the application, as it does when it is asked to end.
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    os.environ[OOM_VARIABLE] = str(score)
    set_oom_score(oom_score(Sacrifice.LAUNCHER))
    setproctitle(TITLE)
    global _link
    _link = its


def is_apart() -> bool:
    """Whether another process starts the application, so that it does not keep to the cores of this one."""
    return _link is not None


def code_where_absent(program: str) -> int:
    """0, or a shell's code for a command that is not there or cannot be run: that is said."""
    if shutil.which(program) is not None:
        return 0
    if not os.path.exists(program) or os.sep not in program:
        log(f"{program}: no such command")
        return NOT_FOUND
    why = "it is a folder" if os.path.isdir(program) else f"it is not executable; do: chmod +x {program}"
    log(f"{program}: cannot be run ({why})")
    return NOT_EXECUTABLE


def start_application(words: Sequence[str], environment: dict[str, str]) -> Process:
    """Start the application, as the child of this process's parent where that waits for it.

    Raises
    ------
    OSError
        It cannot be started.
    """
    own = {name: value for name, value in environment.items() if name != OOM_VARIABLE}
    if _link is None:
        return subprocess.Popen(words, env=own)
    encoded = {os.fsencode(name): os.fsencode(value) for name, value in own.items()}
    _send(_link, msgspec.msgpack.encode(Order([os.fsencode(word) for word in words], encoded)))
    news = _news(_link)
    if news is None or news.error:
        number = news.error if news else 0
        raise OSError(number, os.strerror(number))
    return _Application(news.pid, _link)


def news_of_application() -> list[int]:
    """Descriptor that becomes readable when the application, which is no child of this process, has ended."""
    return [] if _link is None else [_link.fileno()]


class _Application:
    """The application, for the launcher."""

    stdout = None

    def __init__(self, pid: int, link: socket.socket) -> None:
        self.pid = pid
        self.returncode: int = None  # type: ignore[assignment]
        self._link = link

    def poll(self) -> int | None:
        """See ``Process``."""
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """See ``Process``."""
        while (code := self._look(PATIENCE_S if timeout is None else timeout)) is None:
            if timeout is not None:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return code

    def send_signal(self, sig: int) -> None:
        """See ``Process``; it may be called in the midst of ``poll``, by a handler of signals."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def _look(self, timeout_s: float) -> int | None:
        if self.returncode is None and select.select([self._link], [], [], timeout_s)[0]:
            news = _news(self._link)
            if news is not None and news.code is not None:
                self.returncode = news.code
        return self.returncode


class _Parent:
    """What the parent does."""

    def __init__(self, launcher: int, link: socket.socket) -> None:
        self._launcher = launcher
        self._link = link
        self._application: subprocess.Popen[bytes] | None = None
        self._is_reported = False

    def attend(self) -> int:
        """Wait for application and launcher; the exit code."""
        heed(FROM_OTHERS, self._pass_on)
        listening = [self._link.fileno()]
        with Wakeup() as wakeup:
            while (status := os.waitpid(self._launcher, os.WNOHANG))[0] == 0:
                if self._application is not None and not self._is_reported:
                    self._report(self._application)
                wakeup.wait(PATIENCE_S, listening)
                if listening and select.select(listening, [], [], 0.0)[0]:
                    listening = listening if self._obey() else []
        code = os.waitstatus_to_exitcode(status[1])
        self._launcher = 0
        if code >= 0 or self._application is None:
            return code if code >= 0 else 128 - code
        if self._application.poll() is None:
            log(f"the analysis has ended early (signal {-code}); the program goes on")
        code = self._application.wait()
        return code if code >= 0 else 128 - code

    def _obey(self) -> bool:
        """Start what the launcher wants; False where it has gone."""
        order = _receive(self._link)
        if order is None:
            return False
        wanted = msgspec.msgpack.decode(order, type=Order)
        try:
            self._application = subprocess.Popen(wanted.words, env=wanted.environment)
            news = News(pid=self._application.pid)
        except OSError as error:
            news = News(error=error.errno or 0)
        _send(self._link, msgspec.msgpack.encode(news))
        return True

    def _report(self, application: subprocess.Popen[bytes]) -> None:
        code = application.poll()
        if code is not None:
            self._is_reported = True
            _send(self._link, msgspec.msgpack.encode(News(code=code)))

    def _pass_on(self, signum: int, frame: object) -> None:
        """To the launcher; where that is gone, it is for the application, which Ctrl-C reaches by itself."""
        with suppress(OSError):
            if self._launcher:
                os.kill(self._launcher, signum)
            elif self._application is not None and not (signum == signal.SIGINT and os.isatty(0)):
                self._application.send_signal(signum)


def _send(link: socket.socket, message: bytes) -> None:
    # Whoever has gone needs no news.
    with suppress(OSError):
        link.sendall(_LENGTH.pack(len(message)) + message)


def _receive(link: socket.socket) -> bytes | None:
    """The next message; None where nobody is there any more."""
    head = _exactly(link, _LENGTH.size)
    return _exactly(link, _LENGTH.unpack(head)[0]) if head else None


def _exactly(link: socket.socket, size: int) -> bytes:
    """So many bytes, or none."""
    content = b""
    while len(content) < size:
        with suppress(ConnectionError):
            if received := link.recv(size - len(content)):
                content += received
                continue
        return b""
    return content


def _news(link: socket.socket) -> News | None:
    message = _receive(link)
    return msgspec.msgpack.decode(message, type=News) if message else None
